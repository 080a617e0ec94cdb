"""What a waiting Pod does with every answer of the dispatch service."""

import random
import stat
from collections.abc import Iterable

import httpx2
import pytest
from doubles.clocks import SteppedClock

from paddock.base.secrets import Secret
from paddock.cli.poll import hand_over
from paddock.clients.dispatch.poll_client import PATH, Drained, PollClient, Refused, Served

JIT = "marked-jit-config"


class Service:
    """Answers with what it was given, in order, and remembers what it was asked."""

    def __init__(self, answers: Iterable[httpx2.Response | Exception]) -> None:
        self.answers = list(answers)
        self.asked: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def served(config: str = JIT) -> httpx2.Response:
    return httpx2.Response(200, json={"encoded_jit_config": config, "owner": "acme", "workflow_job_id": 7})


async def poll(*answers: httpx2.Response | Exception, tokens: Iterable[str] = ("t",) * 99):
    service, clock, given = Service(answers), SteppedClock(), iter(tokens)
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(service)) as http:
        client = PollClient(
            http, "http://dispatch.test", lambda: Secret(next(given)), clock=clock, rng=random.Random(1)
        )
        return await client.next(), service, clock


async def test_a_job_is_handed_over_once_and_its_config_is_a_secret() -> None:
    answer, service, _ = await poll(served())
    assert answer == Served(Secret(JIT), "acme", 7)
    assert JIT not in repr(answer)
    assert [request.url.path for request in service.asked] == [PATH]


async def test_nothing_to_do_means_asking_again_with_a_token_that_is_read_anew() -> None:
    answer, service, _ = await poll(httpx2.Response(204), served(), tokens=["first", "second"])
    assert isinstance(answer, Served)
    assert [request.headers["authorization"] for request in service.asked] == ["Bearer first", "Bearer second"]


async def test_a_drained_pod_exits_with_the_reason() -> None:
    answer, *_ = await poll(httpx2.Response(410, json={"error": "drain", "reason": "its image is old"}))
    assert answer == Drained("its image is old")


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_pod_tries_a_fresh_token_once_and_then_gives_up(status) -> None:
    answer, service, _ = await poll(*[httpx2.Response(status, json={"error": "no"})] * 2, tokens=["old", "new"])
    assert answer == Refused(status, "no")
    assert len(service.asked) == 2


async def test_a_token_that_was_replaced_under_it_is_no_reason_to_exit() -> None:
    answer, *_ = await poll(httpx2.Response(401, json={}), served())
    assert isinstance(answer, Served)


async def test_a_service_that_is_away_is_asked_again_with_growing_pauses() -> None:
    answer, _, clock = await poll(*[httpx2.ConnectError("away")] * 4, served())
    assert isinstance(answer, Served)
    assert clock.monotonic() >= 1 + 2 + 4 + 8


async def test_retry_after_is_honoured() -> None:
    _, _, clock = await poll(httpx2.Response(503, headers={"Retry-After": "17"}), served())
    assert clock.monotonic() >= 17


@pytest.mark.parametrize("asked", [b"99999999", b"9" * 400, b"\xb2", b"Mon, 01 Jun 9999 11:00:00 GMT"])
async def test_what_a_page_in_between_asks_for_keeps_a_pod_waiting_for_minutes_at_most(asked: bytes) -> None:
    """The same Mac counts as cut off from dispatch after two minutes."""
    page = httpx2.Response(503, headers=[(b"Retry-After", asked)], content=b"<html>maintenance</html>")
    answer, _, clock = await poll(page, served())
    assert isinstance(answer, Served)
    assert clock.monotonic() < 120


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"not json", b'{"a": "\xff"}', b'{"encoded_jit_config": ""}', b"[" * 3000]
)
async def test_an_answer_without_a_config_is_asked_for_again(body) -> None:
    answer, service, _ = await poll(httpx2.Response(200, content=body), served())
    assert isinstance(answer, Served)
    assert len(service.asked) == 2


@pytest.mark.parametrize("number", ["seven", [7], {}, None])
async def test_a_job_whose_number_cannot_be_read_is_a_job(number: object) -> None:
    body = {"encoded_jit_config": JIT, "owner": "acme", "workflow_job_id": number}
    answer, *_ = await poll(httpx2.Response(200, json=body))
    assert answer == Served(Secret(JIT), "acme", 0)


async def test_a_page_that_is_not_of_dispatch_is_not_asked_in_a_hurry_and_dispatch_was_not_reached() -> None:
    page = httpx2.Response(200, content=b"<html>Please log in</html>", headers={"Content-Type": "text/html"})
    reached: list[float] = []
    service, clock = Service([page] * 5 + [served()]), SteppedClock()
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(service)) as http:
        client = PollClient(
            http,
            "http://dispatch.test",
            lambda: Secret("t"),
            clock=clock,
            rng=random.Random(1),
            reached=lambda: reached.append(clock.monotonic()),
        )
        began = clock.monotonic()
        assert isinstance(await client.next(), Served)
    assert clock.monotonic() - began >= 1 + 2 + 4 + 8 + 16
    assert not reached, "a VM whose way to dispatch leads elsewhere would count as warm"


def test_the_config_is_written_whole_and_for_reading_only(tmp_path) -> None:
    hand_over(Secret(JIT), tmp_path / "config")
    assert (tmp_path / "config").read_text() == JIT
    assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o444
    assert [path.name for path in tmp_path.iterdir()] == ["config"]


async def test_a_pod_beside_another_account_has_reached_dispatch_and_rests_as_it_is_told() -> None:
    blocked = httpx2.Response(503, json={"error": "neighbour", "reason": "…"}, headers={"Retry-After": "25"})
    away = httpx2.Response(503, json={"error": "unreachable", "reason": "…"}, headers={"Retry-After": "2"})
    reached: list[float] = []
    service, clock = Service([away, blocked, blocked, served()]), SteppedClock()
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(service)) as http:
        client = PollClient(
            http,
            "http://dispatch.test",
            lambda: Secret("t"),
            clock=clock,
            rng=random.Random(1),
            reached=lambda: reached.append(clock.monotonic()),
        )
        began = clock.monotonic()
        assert isinstance(await client.next(), Served)
    assert len(reached) == 2, "what is away was not reached"
    assert 52.0 <= clock.monotonic() - began <= 80.0
