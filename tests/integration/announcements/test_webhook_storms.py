"""The webhook over a real inbox: what is answered is stored, and what is stored is handled once."""

import asyncio
import hashlib
import hmac

import httpx2
from integration.announcements.rig import MAC, Desk
from integration.ledger.rig import Bench
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from paddock.base.secrets import Secret
from paddock.runners.forgetting import Forgetting, Retention
from paddock.runners.settings import DispatchSettings
from paddock.runners.webhook import PATH, webhook_route
from paddock.simulator.transport import InProcessTransport


def door(desk: Desk) -> httpx2.AsyncClient:
    route = webhook_route(
        desk.ledger,
        lambda: [Secret("hush")],
        DispatchSettings(),
        wake=desk.worker.wake,
        registry=CollectorRegistry(),
    )
    return httpx2.AsyncClient(transport=InProcessTransport(Starlette(routes=[route])), base_url="http://paddock")


async def send(client: httpx2.AsyncClient, body: bytes, delivery: str) -> int:
    headers = {
        "X-Hub-Signature-256": "sha256=" + hmac.new(b"hush", body, hashlib.sha256).hexdigest(),
        "X-GitHub-Delivery": delivery,
        "X-GitHub-Event": "workflow_job",
    }
    return (await client.post(PATH, content=body, headers=headers)).status_code


async def test_a_storm_of_copies_is_stored_once_and_handled_once(bench: Bench):
    desk = Desk(bench)
    body = desk.job(7)
    async with door(desk) as client:
        statuses = await asyncio.gather(*(send(client, body, "d-1") for _ in range(60)))
        assert (statuses.count(202), statuses.count(200)) == (1, 59)
        await desk.worker.drain()
        assert desk.counted("queued", "queued") == 1
        # The id is not signed, so whoever has an old body may send it under new ones: handled again, and nothing comes
        # of it.
        await asyncio.gather(*(send(client, body, f"copy-{n}") for n in range(20)))
        await desk.worker.drain()
    assert desk.counted("queued", "known") == 20
    assert await bench.ask("SELECT count(*) FROM transitions") == [(1,)]


async def test_a_redelivery_two_days_later_is_still_known(bench: Bench):
    desk = Desk(bench)
    body = desk.job(7)
    async with door(desk) as client:
        assert await send(client, body, "d-1") == 202
        await desk.worker.drain()
        bench.clock.advance(2 * 86_400)
        await Forgetting(bench.ledger, Retention(), bench.clock, CollectorRegistry()).forget()
        assert await send(client, body, "d-1") == 200


async def test_deliveries_are_answered_although_nothing_can_handle_them(bench: Bench):
    desk = Desk(bench)
    desk.pools = None
    async with door(desk) as client:
        statuses = await asyncio.gather(*(send(client, desk.job(n), f"d-{n}") for n in range(1, 31)))
        assert set(statuses) == {202}
        assert await bench.ledger.deliveries.backlog() == 30
    desk.pools = [MAC]
    await desk.worker.drain()
    assert await bench.ask("SELECT count(*) FROM jobs WHERE status = 'queued'") == [(30,)]


async def test_a_delivery_whose_answer_was_lost_is_handled_all_the_same(bench: Bench):
    desk = Desk(bench)
    # The process died after storing and before answering: only the row is there.
    await bench.ledger.deliveries.store("d-1", "workflow_job", desk.job(7))
    async with door(desk) as client:
        assert await send(client, desk.job(7), "d-1") == 200
    await desk.worker.drain()
    assert await bench.status(7) == "queued"
