"""An account that pays for runners and wants more: other tenants' names, their capacity, the operator's terminal and browser."""

import re
from collections.abc import Callable, MutableMapping
from typing import Any

import httpx2
from integration.runners.dispatch.rig import NAMESPACE, Rig
from integration.runners.ledger.rig import ACME, BOLT, POOL, job
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from paddock.cli.output import Column, listed
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.queue_metrics import QueueCollector
from paddock.simulator.transport import InProcessTransport
from paddock.web.guard import LOOPBACK, guarded_routes

Logged = Callable[[str, str], bool]
Lines = list[MutableMapping[str, Any]]
NAME = "x\x1b]0;pwned\x07\x1b[8m\u202e<script>fetch('//evil')</script>"


async def test_names_of_other_tenants_are_not_read_through_an_operators_browser(logged: Logged) -> None:
    async def queue(_: Request) -> PlainTextResponse:
        return PlainTextResponse("bolt/secret-project")

    app = Starlette(routes=guarded_routes([Route("/api/v1/queue", queue)], LOOPBACK))
    async with httpx2.AsyncClient(transport=InProcessTransport(app), base_url="http://rebound.evil.example") as http:
        answer = await http.get("/api/v1/queue")
    assert (answer.status_code, "bolt" in answer.text) == (421, False)
    assert logged("page", "not ours")


async def test_the_name_of_a_job_does_nothing_to_the_operators_terminal() -> None:
    shown = listed([NAME], "table", [Column("JOB", lambda name: name)], name=str, plain=str, nothing="", kind="jobs")
    assert "<script>" in shown  # words stay words
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)


async def test_a_flood_of_jobs_delays_no_other_account(rig: Rig, log: Lines) -> None:
    await rig.accounts(ACME, BOLT)
    await rig.bench.queue(*(job(number, ACME) for number in range(1, 60)))
    await rig.bench.queue(job(100, BOLT))
    dispatcher = await rig.dispatcher()
    handed = []
    for number in range(1, 4):
        answer = await dispatcher.ask(await rig.cluster.pod(number), wait=5)
        handed.append(answer.json()["workflow_job_id"])
    assert 100 in handed, "the other account's only job goes before the flood"
    queue = QueueCollector(rig.bench.ledger, lambda: [POOL], rig.bench.clock)
    for _ in range(5):
        await queue.look()
    refused = [(line["why"], line["jobs"]) for line in log if line["event"] == "refused" and line["what"] == "queue"]
    assert refused == [("limits of their accounts hold jobs back", "57")], (
        "two run, the rest waits, and it is said once"
    )


async def test_a_tenant_gets_no_seat_beside_another_in_an_exclusive_pool(rig: Rig, logged: Logged) -> None:
    await rig.accounts(ACME)
    await rig.bench.queue(job(1))
    shares = await rig.cluster.pod("shares-its-mac")
    await rig.cluster.client.merge_patch(RunnerPool, POOL, {"spec": {"isolation": "exclusive"}}, NAMESPACE)
    dispatcher = await rig.dispatcher()
    answer = await dispatcher.ask(shares, wait=1)
    assert (answer.status_code, answer.json()["error"]) == (410, "shared")
    assert await rig.bench.status(1) == "queued"
    assert logged("dispatch", "its pool is exclusive now")


async def test_a_tenant_gets_no_seat_beside_another_on_a_mac_without_softnet(rig: Rig, log: Lines) -> None:
    """It fills the line and asks for every free seat: it could answer for the other VM's address (ARP), and read its traffic."""
    await rig.accounts(ACME, BOLT, vcpus=60)
    await rig.cluster.node("mac-1")
    dispatcher = await rig.dispatcher()
    victim = await rig.cluster.pod("victim", node="mac-1")
    await rig.bench.queue(job(1, BOLT))
    assert (await dispatcher.ask(victim, wait=5)).status_code == 200
    await rig.bench.queue(*(job(number, ACME) for number in range(2, 8)))
    for number in range(3):
        beside = await dispatcher.ask(await rig.cluster.pod(number, node="mac-1"), wait=5)
        assert (beside.status_code, beside.json()["error"]) == (503, "neighbour")
    assert len(rig.github.minted) == 1, "no runner of its own was even made"
    elsewhere = await dispatcher.ask(await rig.cluster.pod("elsewhere", node="mac-2"), wait=5)
    assert elsewhere.status_code == 200, "its own jobs run where nobody else's do"
    refused = [line["why"] for line in log if line["event"] == "a claim is given back"]
    assert len(refused) == 3
    assert all("Mac mac-1 runs VMs without Softnet" in why and "runner-victim" in why for why in refused)
