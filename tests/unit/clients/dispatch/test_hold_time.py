"""How long dispatch is asked to hold a request, by what became of the requests before."""

import random
from collections.abc import Callable
from itertools import pairwise

import httpx2
import pytest
from doubles.clocks import SteppedClock

from paddock.base.secrets import Secret
from paddock.cli import dispatch, poll
from paddock.clients.dispatch import LONGEST_HOLD, HoldTime, PollClient, Served
from paddock.node.attendance import _CUT_OFF  # pyright: ignore[reportPrivateUsage]
from paddock.runners.api.settings import DispatchSettings


def test_nobody_asks_for_longer_than_dispatch_holds_by_itself() -> None:
    options = {each.name: each.default for each in (*poll.command.params, *dispatch.command.params)}
    assert {DispatchSettings().hold, options["wait"], options["hold"]} == {LONGEST_HOLD}


def test_it_begins_with_what_every_load_balancer_allows_and_grows_while_it_is_answered() -> None:
    hold, asked = HoldTime(SteppedClock()), []
    for _ in range(5):
        asked.append(hold.seconds)
        hold.answered(hold.seconds)
    assert asked == [25, 50, 75, 75, 75]


def test_what_was_cut_off_is_not_asked_for_again_for_an_hour() -> None:
    clock = SteppedClock()
    hold = HoldTime(clock)
    for _ in range(3):
        hold.answered(hold.seconds)
    hold.failed(75, after=60)
    assert hold.seconds == 50
    for _ in range(3):
        hold.answered(hold.seconds)
    assert hold.seconds == 50
    clock.step(3600)
    hold.answered(50)
    assert hold.seconds == 75


@pytest.mark.parametrize(("asked", "after"), [(75.0, 0.1), (25.0, 35.0), (0.0, 10.0)])
def test_a_failure_that_length_does_not_explain_changes_nothing(asked: float, after: float) -> None:
    hold = HoldTime(SteppedClock())
    for _ in range(3):
        hold.answered(hold.seconds)
    hold.failed(asked, after)
    assert hold.seconds == 75


def test_an_answer_to_a_request_that_did_not_wait_says_nothing_about_longer_ones() -> None:
    hold = HoldTime(SteppedClock())
    hold.answered(0.0)
    assert hold.seconds == 25


def test_never_more_than_was_allowed() -> None:
    hold = HoldTime(SteppedClock(), longest=10.0)
    hold.answered(hold.seconds)
    assert hold.seconds == 10


@pytest.mark.parametrize("says", [504, 502, 408, None], ids=str)
async def test_behind_a_balancer_that_ends_silent_requests_after_a_minute_it_settles_below_that(
    says: int | None,
) -> None:
    clock, asked = SteppedClock(), []

    def balancer(request: httpx2.Request) -> httpx2.Response:
        wait = float(request.headers["prefer"].removeprefix("wait="))
        asked.append(wait)
        clock.step(min(wait, 60.0))
        if len(asked) == 8:
            return httpx2.Response(200, json={"encoded_jit_config": "x", "owner": "acme", "workflow_job_id": 7})
        if wait <= 60.0:
            return httpx2.Response(204)
        if says is None:
            raise httpx2.RemoteProtocolError("cut off")
        return httpx2.Response(says)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(balancer)) as http:
        client = PollClient(http, "http://dispatch.test", lambda: Secret("t"), clock=clock, rng=random.Random(1))
        assert isinstance(await client.next(), Served)
    assert asked == [25, 50, LONGEST_HOLD, 50, 50, 50, 50, 50]


async def _reached_until_served(
    service: Callable[[httpx2.Request], httpx2.Response], clock: SteppedClock
) -> list[float]:
    """When dispatch was reached, until it handed a job over."""
    reached: list[float] = []
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(service)) as http:
        client = PollClient(
            http,
            "http://dispatch.test",
            lambda: Secret("t"),
            clock=clock,
            rng=random.Random(1),
            reached=lambda: reached.append(clock.monotonic()),
        )
        assert isinstance(await client.next(), Served)
    return reached


@pytest.mark.parametrize("failure", ["no answer", "cut off"])
async def test_a_lost_request_and_the_next_fit_into_the_time_after_which_dispatch_counts_as_away(failure: str) -> None:
    clock, waits = SteppedClock(), list[float]()

    def service(request: httpx2.Request) -> httpx2.Response:
        wait = float(request.headers["Prefer"].removeprefix("wait="))
        waits.append(wait)
        if len(waits) == 6:
            return httpx2.Response(200, json={"encoded_jit_config": "x", "owner": "acme", "workflow_job_id": 7})
        if wait < LONGEST_HOLD:
            clock.step(wait)
            return httpx2.Response(204)
        clock.step(wait + 10)
        if failure == "no answer":
            raise httpx2.ReadTimeout("its host lost power")
        return httpx2.Response(504)

    reached = await _reached_until_served(service, clock)
    assert waits[:5] == [0, 25, 50, 75, 0], "after the failure it asks without waiting"
    assert max(later - earlier for earlier, later in pairwise(reached)) < _CUT_OFF


async def test_a_restart_of_dispatch_and_the_next_request_fit_into_that_time_too() -> None:
    clock, waits = SteppedClock(), list[float]()

    def service(request: httpx2.Request) -> httpx2.Response:
        wait = float(request.headers["Prefer"].removeprefix("wait="))
        waits.append(wait)
        if len(waits) == 7:
            return httpx2.Response(200, json={"encoded_jit_config": "x", "owner": "acme", "workflow_job_id": 7})
        if len(waits) == 5:
            clock.step(60)
            said = {"error": "stopping", "reason": "this process stops"}
            return httpx2.Response(503, json=said, headers={"Retry-After": "1"})
        clock.step(wait)
        return httpx2.Response(204)

    reached = await _reached_until_served(service, clock)
    assert waits == [0, 25, 50, 75, 75, 0, 75], "after the refusal it asks without waiting"
    assert max(later - earlier for earlier, later in pairwise(reached)) < _CUT_OFF


def test_of_two_requests_that_were_cut_off_the_shorter_one_counts() -> None:
    hold = HoldTime(SteppedClock())
    hold.answered(25)
    hold.answered(50)
    hold.failed(50, after=30)
    hold.failed(75, after=30)  # a neighbour's, which was sent before
    hold.answered(25)
    assert hold.seconds == 25
