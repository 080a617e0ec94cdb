"""The webhook endpoint: what it accepts, how much, how fast, and what it answers GitHub. The inbox behind it is a fake."""

import asyncio
import hashlib
import hmac
import random
from typing import Any, cast

import httpx2
import pytest
from doubles.clocks import NOON
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette

from paddock.base.secrets import Secret
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.ledger import Delivery, Ledger, LedgerUnavailableError
from paddock.runners.webhooks.receive import PATH, webhook_route
from paddock.simulator.transport import InProcessTransport

BODY = b'{"action":"queued","workflow_job":{"id":7}}'
SECRET = "it is a secret to everybody"


class StubInbox:
    def __init__(self) -> None:
        self.stored: dict[str, tuple[str, bytes]] = {}
        self.away = False
        self.hanging = False

    async def store(self, delivery_id: str, event: str, payload: bytes, *, take: bool = False) -> Delivery | None:
        if self.away:
            raise LedgerUnavailableError("the database went away")
        if self.hanging:
            await asyncio.Event().wait()
        new = delivery_id not in self.stored
        self.stored.setdefault(delivery_id, (event, payload))
        return Delivery(delivery_id, event, payload, NOON, int(take)) if new else None


class Door:
    def __init__(self, *secrets: str, **settings: Any) -> None:
        self.inbox = StubInbox()
        self.has_room = True
        self.taken: list[Delivery] = []
        self.secrets = [Secret(secret) for secret in secrets or (SECRET,)]
        self.registry = CollectorRegistry()
        ledger = cast("Ledger", type("StubLedger", (), {"deliveries": self.inbox})())
        route = webhook_route(
            ledger, lambda: self.secrets, DispatchSettings(**settings), inbox=self, registry=self.registry
        )
        self.app = Starlette(routes=[route])
        self.client = httpx2.AsyncClient(transport=InProcessTransport(self.app), base_url="http://paddock")

    def take(self, delivery: Delivery) -> None:
        self.taken.append(delivery)

    @property
    def woken(self) -> int:
        return len(self.taken)

    async def send(
        self,
        body: Any = BODY,
        *,
        secret: str = SECRET,
        signature: str | None = "",
        delivery: str | None = "d-1",
        event: str | None = "workflow_job",
    ) -> httpx2.Response:
        headers = {"X-GitHub-Delivery": delivery, "X-GitHub-Event": event}
        headers["X-Hub-Signature-256"] = signed(body, secret) if signature == "" else signature
        present = {name: value for name, value in headers.items() if value is not None}
        return await self.client.post(PATH, content=body, headers=present)

    def count(self, status: int) -> float:
        return self.registry.get_sample_value("paddock_webhook_requests_total", {"status": str(status)}) or 0.0


def signed(body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def test_a_signed_delivery_is_stored_as_it_came_and_the_worker_is_woken():
    door = Door()
    response = await door.send()
    assert response.status_code == 202
    assert door.inbox.stored == {"d-1": ("workflow_job", BODY)}
    assert (door.woken, door.count(202)) == (1, 1.0)


@pytest.mark.parametrize("room", [True, False])
async def test_a_delivery_is_taken_as_it_is_stored_where_the_worker_has_room(room: bool):
    door = Door()
    door.has_room = room
    await door.send()
    assert door.taken == [Delivery("d-1", "workflow_job", BODY, NOON, int(room))]


async def test_a_repeat_is_known_and_wakes_nobody():
    door = Door()
    assert [(await door.send()).status_code for _ in range(3)] == [202, 200, 200]
    assert door.woken == 1


async def test_without_a_signature_nothing_is_read():
    door = Door()

    async def endless():
        while True:
            yield b"x" * 1000
            await asyncio.sleep(0)

    async with asyncio.timeout(5):
        assert (await door.send(endless(), signature=None)).status_code == 401
    assert door.inbox.stored == {}


@pytest.mark.parametrize(
    "signature",
    [
        "sha256=",
        "sha256=" + "0" * 64,
        "sha1=" + hmac.new(SECRET.encode(), BODY, hashlib.sha1).hexdigest(),
        signed(BODY)[7:],
        signed(BODY).upper(),
        signed(BODY)[:-1],
        signed(BODY) + "0",
        "sha256=\xe4",
    ],
)
async def test_a_wrong_signature_is_refused(signature: str):
    door = Door()
    response = await door.client.post(
        PATH,
        content=BODY,
        headers=[
            (b"X-Hub-Signature-256", signature.encode("latin-1")),
            (b"X-GitHub-Delivery", b"d-1"),
            (b"X-GitHub-Event", b"workflow_job"),
        ],
    )
    assert response.status_code == 403
    assert door.inbox.stored == {}
    assert SECRET not in response.text


async def test_no_flipped_bit_of_body_or_signature_gets_through():
    door = Door()
    rng = random.Random(11)
    for _ in range(150):
        position, bit = rng.randrange(len(BODY)), 1 << rng.randrange(8)
        flipped = BODY[:position] + bytes([BODY[position] ^ bit]) + BODY[position + 1 :]
        assert (await door.send(flipped, signature=signed(BODY))).status_code == 403
        signature = bytearray(bytes.fromhex(signed(BODY)[7:]))
        signature[rng.randrange(32)] ^= bit
        assert (await door.send(signature="sha256=" + signature.hex())).status_code == 403
    assert door.inbox.stored == {}


async def test_while_a_secret_is_replaced_both_are_good_and_afterwards_only_the_new_one():
    door = Door("new", "old")
    assert (await door.send(secret="old", delivery="d-1")).status_code == 202
    assert (await door.send(secret="new", delivery="d-2")).status_code == 202
    assert (await door.send(secret="older", delivery="d-3")).status_code == 403
    door.secrets = [Secret("new")]
    assert (await door.send(secret="old", delivery="d-4")).status_code == 403
    assert (await door.send(secret="new", delivery="d-5")).status_code == 202


@pytest.mark.parametrize("secrets", [[], [Secret("")]])
async def test_without_a_usable_secret_everything_is_refused(secrets: list[Secret]):
    door = Door()
    door.secrets = secrets
    assert (await door.send(secret="")).status_code == 403


async def test_a_body_that_is_too_large_is_refused_announced_or_not():
    door = Door(body_limit=1000)
    large = b"x" * 1001
    assert (await door.send(large)).status_code == 413

    async def unannounced():
        for _ in range(11):
            yield b"x" * 91

    response = await door.send(unannounced(), signature=signed(large))
    assert response.status_code == 413
    assert (await door.send(b"x" * 1000)).status_code == 202


async def test_a_body_that_comes_too_slowly_is_refused():
    door = Door(body_timeout=0.05)
    headers = [(b"x-hub-signature-256", signed(BODY).encode()), (b"x-github-delivery", b"d-1")]
    scope = {"type": "http", "method": "POST", "path": PATH, "query_string": b"", "headers": headers}
    beginning = [{"type": "http.request", "body": BODY[:5], "more_body": True}]
    sent: list[Any] = []

    async def receive() -> Any:
        if beginning:
            return beginning.pop()
        return await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    async with asyncio.timeout(2):
        await door.app(scope, receive, send)
    assert sent[0]["status"] == 408
    assert door.inbox.stored == {}


@pytest.mark.parametrize("missing", ["delivery", "event"])
async def test_a_missing_header_is_named(missing: str):
    door = Door()
    response = await (door.send(delivery=None) if missing == "delivery" else door.send(event=None))
    name = {"delivery": "X-GitHub-Delivery", "event": "X-GitHub-Event"}[missing]
    assert response.status_code == 400
    assert (response.json()["field"], name in response.json()["error"]) == (name, True)


async def test_a_ping_is_answered_and_not_stored_but_only_if_it_is_signed():
    door = Door()
    assert (await door.send(event="ping")).status_code == 200
    assert (await door.send(event="ping", secret="other")).status_code == 403
    assert door.inbox.stored == {}


async def test_what_cannot_be_stored_is_answered_503_so_that_github_shows_a_failure():
    door = Door()
    door.inbox.away = True
    response = await door.send()
    assert response.status_code == 503
    assert int(response.headers["retry-after"]) > 0
    assert door.woken == 0
    door.inbox.away = False
    assert (await door.send()).status_code == 202


async def test_a_database_that_hangs_is_answered_before_github_hangs_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("paddock.runners.webhooks.receive._STORE_WITHIN", 0.05)
    door = Door()
    door.inbox.hanging = True
    async with asyncio.timeout(2):
        assert (await door.send()).status_code == 503
