"""Retries, deadlines and the budget, against a transport that does as it is told."""

import asyncio
from collections.abc import Callable

import httpx2
import pytest
from doubles.clocks import EndlessSleepClock, SteppedClock

from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.scaleway import (
    IncompleteList,
    RateLimited,
    RequestBudget,
    ScalewayClient,
    ScalewaySettings,
    Unavailable,
)

ZONE = "fr-par-1"
PROJECT = "105bdce1-64c0-48ab-899d-868455867ecf"
KEY = "a-very-secret-key"
SERVER = {"id": "s1", "name": "one", "status": "ready", "delivered": True}

Script = Callable[[httpx2.Request], httpx2.Response]


class Told(httpx2.AsyncBaseTransport):
    """Answers with the next of its answers, and repeats the last; an exception is raised."""

    def __init__(self, *answers: httpx2.Response | Exception | Script) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(request) if callable(answer) else answer


def client_of(transport: httpx2.AsyncBaseTransport, clock: SteppedClock, **changes: float) -> ScalewayClient:
    settings = ScalewaySettings(secret_key=Secret(KEY), project_id=PROJECT, api_url="http://127.0.0.1:1", **changes)  # pyright: ignore[reportArgumentType] - numbers of the settings
    return ScalewayClient(settings, clock, seeded(7), transport)


def ok(body: object = SERVER) -> httpx2.Response:
    return httpx2.Response(200, json=body)


@pytest.mark.parametrize(
    "failure",
    [
        httpx2.Response(500, json={"message": "internal"}),
        httpx2.Response(502, text="<html>bad gateway</html>"),
        httpx2.Response(503),
        httpx2.Response(200, text="<html>a captive portal</html>"),
        httpx2.ReadError("reset"),
        httpx2.ConnectError("refused"),
        httpx2.ReadTimeout("slow"),
        httpx2.RemoteProtocolError("broken"),
    ],
    ids=repr,
)
async def test_a_read_is_repeated_after_what_may_pass(clock: SteppedClock, failure: httpx2.Response | Exception):
    transport = Told(failure, failure, ok())
    fetched = await client_of(transport, clock).get_server(ZONE, "s1")
    assert fetched.server.name == "one"
    assert len(transport.requests) == 3
    assert len(clock.slept) == 2
    assert clock.slept[1] > clock.slept[0] / 1.5


async def test_a_read_gives_up_after_its_attempts(clock: SteppedClock):
    transport = Told(httpx2.Response(502, text="<html>"))
    with pytest.raises(Unavailable) as raised:
        await client_of(transport, clock).get_server(ZONE, "s1")
    assert not raised.value.effect_unknown
    assert len(transport.requests) == 4


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 412])
async def test_a_refusal_is_not_repeated(clock: SteppedClock, status: int):
    transport = Told(httpx2.Response(status, json={"message": "no"}))
    with pytest.raises(Exception, match="no"):
        await client_of(transport, clock).get_server(ZONE, "s1")
    assert len(transport.requests) == 1


async def test_retry_after_is_honoured_and_holds_back_every_other_request(clock: SteppedClock):
    transport = Told(httpx2.Response(429, headers={"Retry-After": "12"}, json={"type": "too_many_requests"}), ok())
    client = client_of(transport, clock)
    await client.get_server(ZONE, "s1")
    assert clock.monotonic() >= 12

    transport.answers[:] = [httpx2.Response(429, headers={"Retry-After": "9"}), ok()]
    with pytest.raises(RateLimited) as raised:
        await client.rename(ZONE, "s1", "two")
    assert raised.value.retry_after == 9
    before = clock.monotonic()
    await client.get_server(ZONE, "s1")
    assert clock.monotonic() - before >= 9


async def test_a_retry_after_of_an_hour_is_told_to_the_caller_and_freezes_nobody(clock: SteppedClock):
    transport = Told(httpx2.Response(429, headers={"Retry-After": "3600"}), ok())
    client = client_of(transport, clock)
    with pytest.raises(RateLimited) as raised:
        await client.get_server(ZONE, "s1")
    assert raised.value.retry_after == 3600
    await client.get_server(ZONE, "s1")
    assert clock.monotonic() <= 60


@pytest.mark.parametrize(
    ("failure", "effect_unknown"),
    [
        (httpx2.ConnectError("refused"), False),
        (httpx2.ConnectTimeout("far away"), False),
        (httpx2.ReadError("reset"), True),
        (httpx2.ReadTimeout("slow"), True),
        (httpx2.WriteError("reset"), True),
        (httpx2.RemoteProtocolError("broken"), True),
        (httpx2.Response(500), True),
        (httpx2.Response(200, text="not JSON"), True),
        (httpx2.Response(200, json={"not": "a server"}), True),
    ],
    ids=repr,
)
async def test_a_mutation_is_sent_once_and_says_whether_it_may_have_happened(
    clock: SteppedClock, failure: httpx2.Response | Exception, effect_unknown: bool
):
    transport = Told(failure)
    with pytest.raises(Unavailable) as raised:
        await client_of(transport, clock).rename(ZONE, "s1", "two")
    assert raised.value.effect_unknown is effect_unknown
    assert len(transport.requests) == 1


class Hanging(httpx2.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await asyncio.Event().wait()
        raise AssertionError("never")


async def test_a_request_that_hangs_ends_at_its_deadline(clock: SteppedClock):
    client = client_of(Hanging(), clock, request_timeout=0.02, read_attempts=2)
    with pytest.raises(Unavailable) as read:
        await client.get_server(ZONE, "s1")
    with pytest.raises(Unavailable) as mutation:
        await client.rename(ZONE, "s1", "two")
    assert not read.value.effect_unknown
    assert mutation.value.effect_unknown


async def test_a_mutation_that_got_no_turn_in_time_was_never_sent():
    clock = EndlessSleepClock()
    transport = Told(ok())
    budget = RequestBudget(clock, rate=1, burst=1, queue=5)
    settings = ScalewaySettings(
        secret_key=Secret(KEY), project_id=PROJECT, api_url="http://127.0.0.1:1", request_timeout=0.02
    )
    client = ScalewayClient(settings, clock, seeded(7), transport, budget)
    await client.rename(ZONE, "s1", "two")
    with pytest.raises(RateLimited) as raised:
        await client.rename(ZONE, "s1", "three")
    assert raised.value.local
    assert len(transport.requests) == 1


async def test_a_fleet_never_hammers_the_cloud(clock: SteppedClock):
    transport = Told(ok())
    client = client_of(transport, clock, requests_per_second=10, burst=5)
    for _ in range(105):
        await client.get_server(ZONE, "s1")
    assert clock.monotonic() == pytest.approx(10.0)


async def test_every_request_carries_the_key_and_no_error_does(clock: SteppedClock):
    transport = Told(httpx2.ReadError("reset"))
    client = client_of(transport, clock)
    with pytest.raises(Unavailable) as raised:
        await client.rename(ZONE, "s1", "two")
    assert transport.requests[0].headers["X-Auth-Token"] == KEY
    assert KEY not in f"{raised.value!r} {raised.value.details}"


async def test_null_fields_count_as_absent(clock: SteppedClock):
    answer = {**SERVER, "ip": None, "os": None, "tags": None, "created_at": None, "unheard_of": {"x": 1}}
    fetched = await client_of(Told(ok(answer)), clock).get_server(ZONE, "s1")
    assert fetched.server.ip == ""
    assert fetched.server.os is None


class Pages:
    """A list that answers each page from its own total and its own entries."""

    def __init__(self, *pages: tuple[list[str], object]) -> None:
        self.pages = pages
        self.reads = 0

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        page = int(request.url.params["page"])
        if page == 1:
            self.reads += 1
        names, total = self.pages[page - 1] if page <= len(self.pages) else ([], self.pages[-1][1])
        return ok({"servers": [{"id": name, "name": name} for name in names], "total_count": total})


@pytest.mark.parametrize(
    "pages",
    [
        (Pages((["a", "b"], 3))),
        (Pages((["a", "b"], 4), (["c"], 4))),
        (Pages((["a", "b"], 1))),
        (Pages((["a", "b"], 4), (["b", "c"], 4))),
        (Pages((["a", "b"], 4), (["c"], 3))),
        (Pages((["a"], None))),
        (Pages((["a"], "many"))),
        (Pages((["a"], -1))),
        (Pages((["", "a"], 2))),
    ],
    ids=["short", "short later", "long", "twice", "shrinking", "uncounted", "no number", "negative", "nameless"],
)
async def test_a_list_that_does_not_add_up_is_an_error_and_never_a_part(clock: SteppedClock, pages: Pages):
    with pytest.raises(IncompleteList):
        await client_of(Told(pages), clock).list_servers(ZONE)
    assert pages.reads == 3, "a list that changed while it was read deserves another try, but not for ever"


async def test_a_list_that_changed_while_it_was_read_is_read_again(clock: SteppedClock):
    changing = Pages((["a", "b"], 3), (["d"], 4))
    settled = Pages((["a", "b"], 3), (["d"], 3))
    transport = Told(changing, changing, settled)
    servers = await client_of(transport, clock).list_servers(ZONE)
    assert [server.id for server in servers] == ["a", "b", "d"]


async def test_a_list_asks_newest_first_and_names_its_project(clock: SteppedClock):
    transport = Told(Pages((["a"], 1)))
    await client_of(transport, clock).list_servers(ZONE)
    assert dict(transport.requests[0].url.params) == {
        "order_by": "created_at_desc",
        "project_id": PROJECT,
        "page": "1",
        "page_size": "100",
    }
