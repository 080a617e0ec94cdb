"""The webhook over a real inbox: what is answered is stored, and what is stored is handled once."""

import asyncio
import hashlib
import hmac

import httpx2
from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import MAC, Dispatcher
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from paddock.base.secrets import Secret
from paddock.runners.api.settings import DispatchSettings, Retention
from paddock.runners.ledger.retention import RetentionWorker
from paddock.runners.webhooks.receive import PATH, webhook_route
from paddock.simulator.transport import InProcessTransport


def door(dispatcher: Dispatcher) -> httpx2.AsyncClient:
    route = webhook_route(
        dispatcher.ledger,
        lambda: [Secret("hush")],
        DispatchSettings(),
        inbox=dispatcher.worker,
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
    dispatcher = Dispatcher(bench)
    body = dispatcher.job(7)
    async with door(dispatcher) as client:
        statuses = await asyncio.gather(*(send(client, body, "d-1") for _ in range(60)))
        assert (statuses.count(202), statuses.count(200)) == (1, 59)
        await dispatcher.worker.drain()
        assert dispatcher.counted("queued", "queued") == 1
        # The id is not signed, so whoever has an old body may send it under new ones: handled again, and nothing comes
        # of it.
        await asyncio.gather(*(send(client, body, f"copy-{n}") for n in range(20)))
        await dispatcher.worker.drain()
    assert dispatcher.counted("queued", "known") == 20
    assert await bench.ask("SELECT count(*) FROM transitions") == [(1,)]


async def test_a_redelivery_two_days_later_is_still_known(bench: Bench):
    dispatcher = Dispatcher(bench)
    body = dispatcher.job(7)
    async with door(dispatcher) as client:
        assert await send(client, body, "d-1") == 202
        await dispatcher.worker.drain()
        bench.clock.advance(2 * 86_400)
        await RetentionWorker(bench.ledger, Retention(), bench.clock, CollectorRegistry()).forget()
        assert await send(client, body, "d-1") == 200


async def test_deliveries_are_answered_although_nothing_can_handle_them(bench: Bench):
    dispatcher = Dispatcher(bench)
    dispatcher.pools = None
    async with door(dispatcher) as client:
        statuses = await asyncio.gather(*(send(client, dispatcher.job(n), f"d-{n}") for n in range(1, 31)))
        assert set(statuses) == {202}
        assert await bench.ledger.deliveries.backlog() == 30
    dispatcher.pools = [MAC]
    await dispatcher.worker.drain()
    assert await bench.ask("SELECT count(*) FROM jobs WHERE status = 'queued'") == [(30,)]


async def test_a_delivery_whose_answer_was_lost_is_handled_all_the_same(bench: Bench):
    dispatcher = Dispatcher(bench)
    # The process died after storing and before answering: only the row is there.
    await bench.ledger.deliveries.store("d-1", "workflow_job", dispatcher.job(7))
    async with door(dispatcher) as client:
        assert await send(client, dispatcher.job(7), "d-1") == 200
    await dispatcher.worker.drain()
    assert await bench.status(7) == "queued"
