"""A runner's config and a Pod's token are seen by nobody: not in logs, tables, events, metrics, objects or refusals."""

import io
import json

import pytest
import structlog
from integration.runners.dispatch.github import MARK
from integration.runners.dispatch.rig import NAMESPACE, Rig, until
from integration.runners.ledger.rig import ACME, job

from paddock.base import logs
from paddock.clients.github import errors as github
from paddock.kube.resource import Resource


@pytest.fixture
def written():
    before = structlog.get_config()
    stream = io.StringIO()
    logs.set_up(level="debug", json=True, stream=stream)
    yield stream
    structlog.configure(**before)


async def everything(rig: Rig) -> str:
    """Every table of the ledger and every object of the cluster, as text."""
    tables = await rig.bench.ask(
        "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()"
    )
    parts: list[str] = []
    for (table,) in tables:
        rows = await rig.bench.ask(f'SELECT t::text FROM "{table}" t')  # pyright: ignore[reportArgumentType]
        parts += [row for (row,) in rows]
    for plural in ("pods", "serviceaccounts", "events", "secrets", "configmaps"):
        kind = Resource("", "v1", plural, plural, status=False)
        parts.append(json.dumps((await rig.cluster.client.list(kind, NAMESPACE)).items))
    return "\n".join(parts)


async def test_neither_config_nor_token_is_found_anywhere(rig: Rig, written):
    await rig.accounts(ACME, vcpus=60)
    dispatcher = await rig.dispatcher()
    pods = [await rig.cluster.pod(number) for number in range(4)]
    bodies: list[str] = []

    # One is served, one fails at GitHub, one hangs up after its mint, one is refused, one comes again.
    await rig.bench.queue(job(1))
    answer = await dispatcher.ask(pods[0], wait=5)
    assert MARK in answer.text, "the only place"
    bodies.append((await dispatcher.ask(pods[0], wait=1)).text)
    rig.github.failures = [github.Unavailable("502")]
    await rig.bench.queue(job(2))
    bodies.append((await dispatcher.ask(pods[1], wait=5)).text)
    await rig.bench.queue(job(3))
    rig.github.delay = 0.3
    asking = dispatcher.asking(pods[2], wait=5)
    await until(lambda: dispatcher.service.waiting.in_hand == 1)
    asking.cancel()
    await until(lambda: dispatcher.service.waiting.in_hand == 0)
    bodies.append((await dispatcher.ask(pods[3].token + "x", wait=1)).text)
    await dispatcher.service.stop()
    bodies.append((await dispatcher.ask(pods[3], wait=1)).text)

    found = {
        "logs": written.getvalue(),
        "tables and objects": await everything(rig),
        "metrics": dispatcher.metrics(),
        "refusals": "\n".join(bodies),
    }
    assert "claim" in found["logs"], "something was written at all"
    assert "runner-0" in found["tables and objects"]
    for where, text in found.items():
        assert MARK not in text, f"a runner's config is in the {where}"
        for pod in pods:
            assert pod.token not in text, f"a Pod's token is in the {where}"
            assert pod.token.split(".")[2] not in text
