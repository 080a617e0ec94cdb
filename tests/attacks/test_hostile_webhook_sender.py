"""Anybody on the internet who found the webhook's address."""

import hashlib
import hmac
from collections.abc import Callable

import pytest
from integration.runners.ledger.rig import Bench
from integration.runners.webhooks.rig import Dispatcher
from integration.runners.webhooks.test_webhook_storms import door, send

from paddock.runners.webhooks.receive import PATH

Logged = Callable[[str, str], bool]


@pytest.mark.parametrize(
    ("signature", "status", "why"),
    [
        ("", 401, "no signature"),
        ("sha256=" + "0" * 64, 403, "not of this body"),
        ("sha256=" + hmac.new(b"guessed", b"x", hashlib.sha256).hexdigest(), 403, "not of this body"),
        ("sha1=" + "0" * 40, 403, "not of this body"),
    ],
)
async def test_a_forged_delivery_is_neither_parsed_nor_stored(
    bench: Bench, logged: Logged, signature: str, status: int, why: str
) -> None:
    dispatcher = Dispatcher(bench)
    headers = {"X-GitHub-Delivery": "d", "X-GitHub-Event": "workflow_job", "X-Hub-Signature-256": signature}
    async with door(dispatcher) as client:
        answer = await client.post(PATH, content=dispatcher.job(7), headers={k: v for k, v in headers.items() if v})
    assert answer.status_code == status
    assert await bench.ask("SELECT count(*) FROM deliveries") == [(0,)]
    assert logged("webhook", why)


async def test_a_body_that_was_listened_in_on_changes_nothing_under_a_new_id(bench: Bench) -> None:
    """The delivery's id is not signed (S16): what is handled twice must have no second effect."""
    dispatcher = Dispatcher(bench)
    queued, ended = dispatcher.job(7), dispatcher.job(7, action="completed", conclusion="success")
    async with door(dispatcher) as client:
        for number, body in enumerate((queued, ended)):
            assert await send(client, body, f"first-{number}") == 202
            await dispatcher.worker.drain()
        before = await bench.ask("SELECT count(*) FROM transitions")
        for number, body in enumerate((queued, ended, queued)):
            assert await send(client, body, f"replayed-{number}") == 202
            await dispatcher.worker.drain()
    assert await bench.ask("SELECT count(*) FROM transitions") == before
    assert await bench.status(7) == "completed"
