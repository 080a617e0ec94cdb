"""A workflow that is root in its Pod or VM, with everything that it finds there."""

from collections.abc import Callable, MutableMapping
from typing import Any

import httpx2
import pytest
from integration.runners.dispatch.rig import NAMESPACE, Rig, until
from integration.runners.ledger.rig import ACME, job
from starlette.applications import Starlette

from paddock.base.secrets import Secret
from paddock.kube.builtin import Pod
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.identity import Tokens
from paddock.runners.http.internal import internal_routes
from paddock.simulator.transport import InProcessTransport

Logged = Callable[[str, str], bool]
Lines = list[MutableMapping[str, Any]]


class Written:
    """What would have been changed."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    async def retire(self, pods: Any, *, why: str) -> frozenset[str]:
        self.calls.append(("retire", pods))
        return frozenset()

    async def stopped(self, pod: Any, ended_at: Any, *, why: str) -> None:
        self.calls.append(("stopped", pod))

    async def at_work(self, pod_uids: Any) -> dict[str, str]:
        self.calls.append(("at_work", pod_uids))
        return {}

    async def ends_on(self, nodes: Any) -> list[Any]:
        self.calls.append(("ends_on", nodes))
        return []

    async def progress(self, pod_uid: str, mark: str) -> None:
        self.calls.append(("progress", pod_uid))

    async def log(self, pod_uid: str, first: int, content: bytes, *, ended: bool) -> int:
        self.calls.append(("log", pod_uid))
        return len(content)


def internal(tokens: Tokens, written: Any) -> httpx2.AsyncClient:
    routes = internal_routes(written, tokens, written.progress, written.log, DispatchSettings()).all
    transport = InProcessTransport(Starlette(routes=routes))
    return httpx2.AsyncClient(transport=transport, base_url="http://dispatch/api/internal/runners")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/pods/retire", {"pods": [{"uid": "victim", "name": "victim"}]}),
        ("/pods/stopped", {"pod_uid": "victim", "pod_name": "victim", "ended_at": "2026-01-01T00:00:00Z"}),
        ("/pods/at-work", {"pod_uids": ["victim"]}),
        ("/macs/ends", {"nodes": ["mac"]}),
    ],
)
async def test_a_jobs_token_says_nothing_about_other_pods(rig: Rig, logged: Logged, path: str, body: Any) -> None:
    dispatcher, pod, written = await rig.dispatcher(), await rig.cluster.pod(1), Written()
    async with internal(dispatcher.service.tokens, written) as http:
        answer = await http.post(path, json=body, headers={"Authorization": f"Bearer {pod.token}"})
    assert answer.status_code == 401
    assert pod.token not in answer.text
    assert written.calls == []
    assert logged(path, "not meant for us")


async def test_a_job_speaks_for_its_own_pod_whatever_it_writes(rig: Rig) -> None:
    dispatcher, pod, written = await rig.dispatcher(), await rig.cluster.pod(1), Written()
    async with internal(dispatcher.service.tokens, written) as http:
        body = {"mark": "1 running", "pod_uid": "victim", "pod_name": "victim"}
        answer = await http.post("/pods/progress", json=body, headers={"Authorization": f"Bearer {pod.token}"})
    assert answer.status_code == 204
    assert written.calls == [("progress", pod.uid)]


async def test_a_job_that_keeps_its_token_gets_no_second_tenants_job(rig: Rig, log: Lines) -> None:
    await rig.accounts(ACME)
    await rig.bench.queue(job(1), job(2))
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    assert (await dispatcher.ask(pod, wait=5)).status_code == 200
    for _ in range(5):
        assert (await dispatcher.ask(pod, wait=5)).status_code == 410
    assert await rig.bench.status(2) == "queued"
    refused = [(line["why"], line["pod"]) for line in log if line["event"] == "refused"]
    assert refused == [("this Pod was handed a runner before", pod.name)], "once, however often it asks"


async def test_a_token_that_was_carried_off_dies_with_its_pod(rig: Rig, logged: Logged) -> None:
    dispatcher, pod = await rig.dispatcher(), await rig.cluster.pod(1)
    await dispatcher.service.tokens.waiting(Secret(pod.token))
    await rig.cluster.client.delete(Pod, pod.name, NAMESPACE, grace_period=0)
    await until(lambda: dispatcher.service.pods.reader.get(pod.name, NAMESPACE) is None)
    assert (await dispatcher.ask(pod, wait=0)).status_code in (401, 403)
    assert logged("dispatch", "Pod is gone")
