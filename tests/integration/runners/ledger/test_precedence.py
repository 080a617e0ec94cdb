"""Weights and priorities: who goes before whom, within which bounds, and that the limits hold all the same."""

import random
from collections import Counter

import pytest
from integration.runners.ledger.contention import most_passed_over, served_in_turns
from integration.runners.ledger.rig import ACME, BOLT, CRUX, POOL, Bench, job, pod

from paddock.runners.ledger import Outcome
from paddock.runners.ledger.errors import InvalidEntryError
from paddock.runners.ledger.rows import STEP_SECONDS

APP, WEB, DOCS = 71, 72, 73


async def say(
    bench: Bench, account: int, repository: int = 0, *, weight: int | None = None, priority: int | None = None
):
    name = f"org{account}/r{repository}" if repository else f"org{account}"
    return await bench.ledger.precedence.set(
        account, name, repository_id=repository, weight=weight, priority=priority, by="test", why="they pay for it"
    )


async def many(bench: Bench, account: int, jobs: int, age: float = 900.0, *, repository: int = 0) -> None:
    first = 10_000 * account + 1_000 * (repository % 10)
    named = f"org{account}/r{repository}"
    await bench.queue(
        *(job(first + n, account, age=age - n / 10, repository=named, repository_id=repository) for n in range(jobs))
    )


@pytest.mark.parametrize(("pods", "batch"), [(1, 1), (2, 1), (2, 2), (3, 1), (3, 3), (4, 1), (4, 4), (7, 3), (8, 8)])
async def test_weights_of_three_to_one_get_three_to_one_in_a_pool_of_any_size(bench: Bench, pods: int, batch: int):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, ACME, weight=3)
    await many(bench, ACME, 50)
    await many(bench, BOLT, 50, age=2000)  # all of them older: age alone decides nothing
    order = await served_in_turns(bench, pods, batch, 48)
    assert abs(order.count(ACME) - 36) <= max(2, pods // 2), Counter(order)


async def test_three_weights_share_a_pool_of_one_pod_by_their_weights(bench: Bench):
    await bench.accounts(ACME, BOLT, CRUX, vcpus=600, memory_mb=5_000_000)
    await say(bench, ACME, weight=3)
    await say(bench, BOLT, weight=2)
    for account in (ACME, BOLT, CRUX):
        await many(bench, account, 30)
    order = await served_in_turns(bench, 1, 1, 36)
    assert Counter(order[6:]) == {ACME: 15, BOLT: 10, CRUX: 5}


@pytest.mark.parametrize("pods", [1, 2, 5])
@pytest.mark.parametrize("batched", [False, True])
async def test_who_holds_nothing_is_passed_over_at_most_as_often_as_the_others_weight_says(
    bench: Bench, pods: int, batched: bool
):
    weights = {ACME: 5, BOLT: 2, CRUX: 1}
    await bench.accounts(*weights, vcpus=600, memory_mb=5_000_000)
    for account, weight in weights.items():
        await say(bench, account, weight=weight)
        await many(bench, account, 60)
    passed = await most_passed_over(bench, list(weights), pods, batched=batched, rounds=15)
    assert all(passed[account] <= weight for account, weight in weights.items()), passed
    assert passed[ACME] > 1


async def test_a_weight_that_is_cleared_counts_no_more_and_who_never_had_one_is_not_touched(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, ACME, weight=100)
    await many(bench, ACME, 40)
    await many(bench, BOLT, 40)
    assert (await served_in_turns(bench, 1, 1, 10)).count(BOLT) <= 1
    assert await bench.ledger.precedence.clear(ACME, by="test", why="the contract ended")
    held = await bench.ledger.claims.of_pod("uid-9")
    assert held is not None
    await bench.completed(job(held.job_id or 0, held.account_id), 9)
    order = []
    for n in range(100, 110):
        claim = await bench.running(n)
        order.append(claim.account_id)
        await bench.completed(job(claim.job_id, claim.account_id), n)
    assert abs(order.count(ACME) - order.count(BOLT)) <= 2


async def test_a_higher_priority_goes_first_though_it_is_younger_and_holds_more(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, BOLT, priority=2)
    await many(bench, ACME, 5, age=100)
    await many(bench, BOLT, 3, age=10)
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(5)])
    assert [answer.account_id for answer in answers] == [BOLT, BOLT, BOLT, ACME, ACME]


async def test_a_lower_priority_waits_until_nobody_else_does(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, ACME, priority=-3)
    await many(bench, ACME, 3, age=100)
    await many(bench, BOLT, 2, age=10)
    assert [(await bench.claimed(n)).account_id for n in range(4)] == [BOLT, BOLT, ACME, ACME]


@pytest.mark.parametrize(("high", "low"), [(2, 0), (0, -3), (10, -10)])
async def test_age_makes_up_for_a_priority_within_the_stated_time(bench: Bench, high: int, low: int):
    """Each step costs three minutes: a job is delayed by priorities alone for that long and no longer."""
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, ACME, priority=high)
    await say(bench, BOLT, priority=low)
    await bench.queue(job(1, BOLT))
    bound = (high - low) * STEP_SECONDS
    for minute, n in enumerate(range(100, 104)):
        bench.clock.advance(bound - 1 if minute == 0 else 0)
        await bench.queue(job(n, ACME, age=-bound + 2))  # a flood that never ends
        claim = await bench.running(n)
        assert claim.account_id == ACME
        await bench.completed(job(claim.job_id, ACME), n)
    await bench.queue(*(job(n, ACME, age=-bound + 2) for n in range(110, 115)))
    bench.clock.advance(2)
    assert (await bench.claimed(120)).job_id == 1  # it holds nothing and was served longest ago


async def test_age_adds_nothing_where_all_that_may_run_have_one_priority(bench: Bench):
    """Also beside an account of a high priority that is at its limit: the others stay fair among themselves."""
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await bench.accounts(CRUX, vcpus=6, memory_mb=14_336)
    await say(bench, CRUX, priority=10)
    await many(bench, CRUX, 3)
    assert (await bench.claimed("crux")).account_id == CRUX
    await many(bench, ACME, 10, age=5000)
    await many(bench, BOLT, 10, age=10)
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(6)])
    assert Counter(answer.account_id for answer in answers) == {ACME: 3, BOLT: 3}


async def test_neither_takes_an_account_or_a_repository_over_its_limit(bench: Bench):
    await bench.accounts(ACME, vcpus=24, memory_mb=5_000_000)
    await bench.accounts(BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, ACME, weight=100, priority=10)
    await say(bench, ACME, APP, weight=100, priority=10)
    await bench.ledger.allow_list.limit_repository(
        ACME, APP, "org1/r71", "macos", vcpus=12, memory_mb=500_000, by="test", why="no more"
    )
    await many(bench, ACME, 10, repository=APP)
    await many(bench, ACME, 10, repository=WEB)
    await many(bench, BOLT, 10)
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(8)])
    for n in range(8, 10):
        answers.append(await bench.claimed(n))
    assert sum(answer.account_id == ACME for answer in answers) <= 4
    held = await bench.ask("SELECT repository_id, sum(vcpus) FROM claims WHERE account_id = 1 GROUP BY 1")
    assert dict(held)[APP] == 12
    assert sum(vcpus for _, vcpus in held) == 24
    assert await bench.problems() == []


@pytest.mark.parametrize("batch", [1, 8])
async def test_repositories_share_what_their_account_holds_by_their_weights(bench: Bench, batch: int):
    await bench.accounts(ACME, vcpus=48, memory_mb=5_000_000)
    await say(bench, ACME, APP, weight=3)
    await many(bench, ACME, 30, age=100, repository=APP)
    await many(bench, ACME, 30, age=900, repository=WEB)  # older, and without a weight: 1
    for first in range(0, 8, batch):
        await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(first, first + batch)])
    held = await bench.ask("SELECT repository_id, count(*) FROM claims GROUP BY 1")
    assert dict(held) == {APP: 6, WEB: 2}


async def test_without_a_weight_of_a_repository_the_oldest_of_an_account_goes_first(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await say(bench, ACME, weight=7, priority=3)
    await bench.queue(
        job(10, age=9, repository_id=APP), job(11, age=8, repository_id=APP), job(12, age=7, repository_id=WEB)
    )
    assert [(await bench.claimed(n)).job_id for n in range(3)] == [10, 11, 12]


async def test_a_repositorys_priority_counts_before_its_accounts_and_between_accounts(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=60, memory_mb=500_000)
    await say(bench, ACME, priority=-1)
    await say(bench, ACME, APP, priority=5)
    await say(bench, ACME, DOCS, priority=-9)
    await bench.queue(
        job(10, age=90, repository_id=DOCS),
        job(11, age=80, repository_id=WEB),
        job(12, age=1, repository_id=APP),
        job(20, BOLT, age=5),
    )
    answers = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(4)])
    assert [answer.job_id for answer in answers] == [12, 20, 11, 10]


async def test_a_repository_of_low_priority_does_not_hold_its_account_back(bench: Bench):
    """An account is ranked by the first job that it would hand out, and not by its oldest."""
    await bench.accounts(ACME, BOLT, CRUX, vcpus=60, memory_mb=500_000)
    await say(bench, ACME, DOCS, priority=-9)
    await say(bench, ACME, APP, priority=9)
    await bench.queue(job(10, age=90, repository_id=DOCS), job(11, age=1, repository_id=APP), job(20, BOLT, age=50))
    assert await bench.ask("SELECT next_jobs(%s, 1, %s, '{}')", [POOL, bench.clock.now()]) == [([11],)]


async def test_a_place_in_line_is_told_by_the_same_order(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=600, memory_mb=5_000_000)
    await say(bench, BOLT, priority=2)
    await bench.queue(job(10, ACME, age=100), job(20, BOLT, age=10))
    first, last = await bench.ledger.overview.waiting(20), await bench.ledger.overview.waiting(10)
    assert first is not None
    assert last is not None
    assert (first.position, last.position) == (1, 2)
    assert (
        first.why == "Next in line for pool mac-m4, as soon as a Pod is free; priority 2 lets it go before lower ones."
    )
    assert "; it has priority 0, and jobs of priority 2 go before it for at most 4 min" in last.why
    bench.clock.advance(300)
    aged = await bench.ledger.overview.waiting(10)
    assert aged is not None
    assert "has waited long enough to go as those of 2" in aged.why
    await bench.ledger.precedence.clear(BOLT, by="test", why="enough")
    plain = await bench.ledger.overview.waiting(10)
    assert plain is not None
    assert plain.why == "Next in line for pool mac-m4, as soon as a Pod is free."


@pytest.mark.parametrize("seed", range(6))
async def test_both_rankings_agree_where_nobody_has_a_precedence(bench: Bench, seed: int):
    """`next_jobs` takes the shorter one there; so neither may drift from the other."""
    rng = random.Random(seed)
    accounts = list(range(1, 6))
    for account in accounts:
        await bench.accounts(account, vcpus=rng.choice([12, 30, 600]), memory_mb=rng.choice([60_000, 5_000_000]))
    await bench.ledger.allow_list.limit_repository(
        2, APP, "org2/r71", "macos", vcpus=12, memory_mb=60_000, by="test", why="no more"
    )
    number = 0
    for _ in range(4):
        for _ in range(15):
            number += 1
            await bench.queue(
                job(
                    number,
                    rng.choice(accounts),
                    age=rng.uniform(0, 9000),
                    vcpus=rng.choice([3, 6, 12]),
                    repository_id=rng.choice([0, APP, WEB]),
                )
            )
        for count in (1, 5, 30):
            both = await bench.ask(
                "SELECT next_jobs_by_share(%(pool)s, %(count)s, %(now)s, '{}'),"
                " next_jobs_by_precedence(%(pool)s, %(count)s, %(now)s, '{}')",
                {"pool": POOL, "count": count, "now": bench.clock.now()},
            )
            assert both[0][0] == both[0][1]
        await bench.ledger.claims.claim_many(POOL, [pod(f"{number}-{n}") for n in range(rng.randrange(1, 5))])


async def test_every_change_leaves_one_line_and_what_changes_nothing_leaves_none(bench: Bench):
    assert await say(bench, ACME, weight=3)
    assert not await say(bench, ACME, weight=3)
    assert await say(bench, ACME, priority=-2)
    assert await say(bench, ACME, APP, weight=2)
    assert await bench.ledger.precedence.clear(ACME, by="alice", why="the contract ended")
    assert not await bench.ledger.precedence.clear(ACME, by="alice", why="again")
    lines = [(one.name, one.subject, one.was, one.became) for one in await bench.ledger.allow_list.changes()]
    assert lines == [
        ("org1", "precedence", "weight 3, priority -2", "no precedence of its own"),
        ("org1/r71", "precedence", "", "weight 2"),
        ("org1", "precedence", "weight 3", "weight 3, priority -2"),
        ("org1", "precedence", "", "weight 3"),
    ]
    (left,) = await bench.ledger.precedence.all()
    assert (left.repository_id, left.weight, left.priority, left.changed_by) == (APP, 2, None, "test")


@pytest.mark.parametrize("said", [{"weight": 0}, {"weight": 101}, {"priority": -11}, {"priority": 11}, {}])
async def test_the_database_keeps_to_the_ranges(bench: Bench, said: dict[str, int]):
    with pytest.raises(InvalidEntryError):
        await say(bench, ACME, **said)
    assert await bench.ledger.precedence.all() == []


async def test_an_empty_line_stays_empty(bench: Bench):
    await bench.accounts(ACME)
    await say(bench, ACME, weight=3, priority=3)
    await say(bench, ACME, APP, weight=3)
    assert (await bench.claim(1)).outcome is Outcome.EMPTY
