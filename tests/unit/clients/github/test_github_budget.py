"""The budget alone, and as the client spends it."""

import asyncio

import httpx2
import pytest
from doubles.clocks import SteppedClock
from doubles.scripted_github import (
    INSTALLATION,
    JOB,
    MINTED,
    REPOSITORY,
    ScriptedGitHub,
    SilentGitHub,
    limits,
    minted,
    ok,
    refused,
    until,
)

from paddock.clients.github import APP, BudgetSpent, Priority, RateLimited, RunnerPlace
from paddock.clients.github.budget import MUTATION_POINTS, READ_POINTS, Budget

MINT, VERIFY, CLEAN_UP = Priority.MINT, Priority.VERIFY, Priority.CLEAN_UP


@pytest.fixture
def budget(clock: SteppedClock) -> Budget:
    return Budget(INSTALLATION, clock)


def spend(
    budget: Budget, priority: Priority = VERIFY, points: int = READ_POINTS, headers: dict[str, str] | None = None
):
    budget.take(priority, points)
    budget.landed(priority, headers)


def allowed(budget: Budget) -> list[Priority]:
    return [priority for priority in Priority if priority not in budget.view().refused]


@pytest.mark.parametrize(
    ("remaining", "expected"),
    [
        (5000, [MINT, VERIFY, CLEAN_UP]),
        (2500, [MINT, VERIFY, CLEAN_UP]),
        (2499, [MINT, VERIFY]),
        (1000, [MINT, VERIFY]),
        (999, [MINT]),
        (1, [MINT]),
        (0, []),
    ],
)
def test_what_is_left_of_the_hour_goes_to_mints_first(
    budget: Budget, clock: SteppedClock, remaining: int, expected: list[Priority]
):
    spend(budget, headers=limits(clock, remaining))
    assert allowed(budget) == expected
    for priority in set(Priority) - set(expected):
        with pytest.raises(BudgetSpent, match=priority.name) as raised:
            budget.take(priority, 1)
        assert raised.value.retry_after == pytest.approx(1800)


def test_after_the_hour_everything_may_go_again(budget: Budget, clock: SteppedClock):
    spend(budget, headers=limits(clock, 0, reset_in=600))
    clock.step(599)
    assert allowed(budget) == []
    clock.step(1)
    assert allowed(budget) == [MINT, VERIFY, CLEAN_UP]


def test_what_is_under_way_counts_as_spent_until_githubs_number_holds_it(budget: Budget, clock: SteppedClock):
    spend(budget, headers=limits(clock, 1002))
    budget.take(VERIFY, 1)
    budget.take(VERIFY, 1)
    budget.take(VERIFY, 1)
    assert allowed(budget) == [MINT]
    for _ in range(3):
        budget.landed(VERIFY, limits(clock, 1001))
    assert allowed(budget) == [MINT, VERIFY]


def test_a_lost_answer_counts_and_a_request_that_never_left_does_not(budget: Budget, clock: SteppedClock):
    spend(budget, headers=limits(clock, 4000))
    budget.take(VERIFY, 1)
    budget.landed(VERIFY, None, sent=True)
    budget.take(VERIFY, 1)
    budget.landed(VERIFY, None, sent=False)
    assert budget.view().remaining == 3999


def test_answers_that_overtake_each_other_do_not_fill_the_budget(budget: Budget, clock: SteppedClock):
    late = limits(clock, 4990)
    spend(budget, headers=limits(clock, 4980))
    spend(budget, headers=late)
    assert budget.view().remaining == 4980
    spend(budget, headers=limits(clock, 4999, reset_in=-1200))  # of the hour before
    assert budget.view().remaining == 4980
    spend(budget, headers=limits(clock, 4999, reset_in=3500))  # of the next hour
    assert budget.view().remaining == 4999


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-ratelimit-limit": "many", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"},
        {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "inf"},
        {"x-ratelimit-limit": "0", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1"},
    ],
)
def test_headers_that_say_nothing_teach_nothing(budget: Budget, headers: dict[str, str]):
    spend(budget, headers=headers)
    assert allowed(budget) == [MINT, VERIFY, CLEAN_UP]
    assert budget.view().resets_at is None


def test_runner_registrations_have_a_limit_of_their_own(budget: Budget, clock: SteppedClock):
    spend(budget, MINT, headers=limits(clock, 0, limit=10000, resource="actions_runner_registration"))
    assert allowed(budget) == [VERIFY, CLEAN_UP]
    spend(budget, VERIFY, headers=limits(clock, 100))
    assert budget.view().remaining == 100


def test_no_more_than_180_mints_leave_in_any_minute(budget: Budget, clock: SteppedClock):
    sent: list[float] = []
    for _ in range(600):
        try:
            spend(budget, MINT, MUTATION_POINTS)
            sent.append(clock.monotonic())
        except BudgetSpent as spent:
            clock.step(spent.retry_after)
    assert len(sent) > 400
    assert clock.monotonic() <= 60 * (len(sent) // 180)
    assert all(later - earlier >= 60 for earlier, later in zip(sent, sent[180:], strict=False))


def test_the_points_of_the_minute_are_kept_for_mints_too(budget: Budget, clock: SteppedClock):
    for _ in range(451):
        spend(budget, CLEAN_UP)
    with pytest.raises(BudgetSpent):
        budget.take(CLEAN_UP, 1)
    for _ in range(270):
        spend(budget, VERIFY)
    with pytest.raises(BudgetSpent):
        budget.take(VERIFY, 1)
    for _ in range(35):
        spend(budget, MINT, MUTATION_POINTS)
    with pytest.raises(BudgetSpent):
        budget.take(MINT, MUTATION_POINTS)
    clock.step(60)
    assert allowed(budget) == [MINT, VERIFY, CLEAN_UP]


def test_the_wait_is_until_enough_points_are_back(budget: Budget, clock: SteppedClock):
    for _ in range(90):
        spend(budget, MINT, MUTATION_POINTS)
    clock.step(10)
    for _ in range(90):
        spend(budget, MINT, MUTATION_POINTS)
    waits = {}
    for priority in Priority:
        with pytest.raises(BudgetSpent) as raised:
            budget.take(priority, 5)
        waits[priority] = raised.value.retry_after
    assert waits == {MINT: 50, VERIFY: 50, CLEAN_UP: 50}


def test_no_more_than_a_hundred_requests_are_under_way(budget: Budget):
    for priority, count in ((CLEAN_UP, 51), (VERIFY, 30), (MINT, 19)):
        for _ in range(count):
            budget.take(priority, 1)
        with pytest.raises(BudgetSpent) as raised:
            budget.take(priority, 1)
        assert raised.value.retry_after < 1
    for _ in range(100):
        budget.landed(VERIFY, {})
    assert allowed(budget) == [MINT, VERIFY, CLEAN_UP]


def test_a_shorter_hold_never_ends_a_longer_one(budget: Budget, clock: SteppedClock):
    budget.hold(100)
    budget.hold(5)
    clock.step(99)
    assert allowed(budget) == []
    view = budget.view()
    assert view.held_until is not None
    assert (view.held_until - clock.now()).total_seconds() == pytest.approx(1)
    clock.step(1)
    assert allowed(budget) == [MINT, VERIFY, CLEAN_UP]


def test_limits_in_a_row_without_advice_are_waited_for_longer_each_time(budget: Budget):
    assert [budget.hold(None) for _ in range(6)] == [60, 120, 240, 480, 900, 900]
    budget.welcome()
    assert budget.hold(None) == 60


# Through the client


async def test_a_secondary_limit_holds_the_whole_installation_and_no_other(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [refused(403, "You have exceeded a secondary rate limit", retry_after="40"), ok(JOB)]
    client = github.client()
    with pytest.raises(RateLimited):
        await client.job(INSTALLATION, REPOSITORY, 5)
    with pytest.raises(BudgetSpent) as raised:
        await minted(client)
    assert raised.value.retry_after == pytest.approx(40)
    assert clock.slept == []  # told at once
    await client.job(INSTALLATION + 1, REPOSITORY, 5)
    assert len(github.requests) == 2
    clock.step(40)
    await client.job(INSTALLATION, REPOSITORY, 5)


async def test_a_spent_hour_stops_reads_and_leaves_mints_with_their_own_limit_alone(
    github: ScriptedGitHub, clock: SteppedClock
):
    registration = limits(clock, 9000, limit=10000, resource="actions_runner_registration")
    github.script = [
        httpx2.Response(201, json=MINTED, headers=registration),
        httpx2.Response(403, json={"message": "API rate limit exceeded"}, headers=limits(clock, 0)),
        httpx2.Response(201, json=MINTED, headers=registration),
    ]
    client = github.client()
    await minted(client)
    with pytest.raises(RateLimited):
        await client.job(INSTALLATION, REPOSITORY, 5)
    with pytest.raises(BudgetSpent):
        await client.job(INSTALLATION, REPOSITORY, 5)
    await minted(client)
    assert len(github.requests) == 3


async def test_cleaning_up_stops_first_then_verifying_and_nothing_is_sent(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(JOB, headers=limits(clock, 2000)), ok(JOB, headers=limits(clock, 900)), ok(MINTED, 201)]
    client = github.client()
    place = RunnerPlace(INSTALLATION, "acme")
    await client.job(INSTALLATION, REPOSITORY, 5)
    with pytest.raises(BudgetSpent, match="CLEAN_UP"):
        await client.remove_runner(place, 9)
    with pytest.raises(BudgetSpent, match="CLEAN_UP"):
        await client.waiting_jobs(INSTALLATION, REPOSITORY)
    await client.job(INSTALLATION, REPOSITORY, 5)
    with pytest.raises(BudgetSpent, match="VERIFY"):
        await client.runners(place)
    await minted(client)
    assert len(github.requests) == 3


async def test_a_moment_is_waited_for(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(MINTED, 201), refused(429, "a moment", retry_after="2"), ok(MINTED, 201)]
    client = github.client()
    await minted(client)
    with pytest.raises(RateLimited):
        await minted(client, "runner-2")
    await minted(client, "runner-3")
    assert clock.slept == [2]


async def test_the_181st_mint_of_a_minute_is_told_to_come_back(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(MINTED, 201)]
    client = github.client()
    for number in range(180):
        await minted(client, f"runner-{number}", scope="repository")
    with pytest.raises(BudgetSpent) as raised:
        await minted(client, "runner-180", scope="repository")
    assert raised.value.retry_after == pytest.approx(60)
    assert len(github.requests) == 180


async def test_a_cancelled_call_gives_its_place_back(clock: SteppedClock):
    github = SilentGitHub(clock)
    client = github.client()
    calls = [asyncio.create_task(client.job(INSTALLATION, REPOSITORY, 5)) for _ in range(81)]
    await until(lambda: len(github.requests) == len(calls))
    assert client.budgets()[1].refused == (VERIFY, CLEAN_UP)
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    assert client.budgets()[1].refused == ()


async def test_the_budgets_are_shown_without_a_call(github: ScriptedGitHub, clock: SteppedClock):
    github.script = [ok(JOB, headers=limits(clock, 800, limit=12500, reset_in=100))]
    client = github.client()
    assert client.budgets() == []
    await client.job(INSTALLATION, REPOSITORY, 5)
    app, installation = client.budgets()
    assert app.installation_id == APP
    assert (app.remaining, app.limit, app.resets_at) == (5000, 5000, None)
    assert installation.installation_id == INSTALLATION
    assert (installation.remaining, installation.limit) == (800, 12500)
    assert installation.refused == (VERIFY, CLEAN_UP)
    assert installation.resets_at is not None
    assert (installation.resets_at - clock.now()).total_seconds() == pytest.approx(100, abs=1)
    assert len(github.requests) == 1
