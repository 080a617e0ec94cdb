"""Which waiting jobs may run: one answer for status, page, metrics, autoscaler and `why`, and the one that admission gives."""

import itertools
import random
from datetime import timedelta

import pytest
from integration.runners.ledger.rig import ACME, BOLT, CRUX, POOL, START, Bench, job
from prometheus_client import CollectorRegistry

from paddock.runners.ledger import Outcome
from paddock.runners.ledger.precedence import PRIORITIES, level_of
from paddock.runners.ledger.queue_metrics import QueueCollector
from paddock.runners.ledger.waiting_load import WaitingLoad

XCODE, LARGE = "mac-xcode", "mac-large"
POOLS = (POOL, XCODE, LARGE)


async def load_of(bench: Bench) -> WaitingLoad:
    _, load = await bench.ledger.signals.of_pools([])
    return load


async def test_a_large_job_of_another_pool_hides_no_small_one_that_may_run(bench: Bench):
    await bench.accounts(ACME, vcpus=12, memory_mb=500_000)
    await bench.queue(job(9, age=200))
    await bench.running("a")
    await bench.queue(job(10, age=100, pool=LARGE, vcpus=12), job(11, age=60))
    queue = QueueCollector(bench.ledger, lambda: POOLS, bench.clock)
    await queue.look()
    registry = CollectorRegistry()
    registry.register(queue)
    for summary in (await bench.ledger.overview.summary(), await queue.summary()):
        assert (summary.dispatchable, summary.withheld) == (1, 1)
        assert summary.oldest_dispatchable_seconds == pytest.approx(60, abs=0.01)
        assert summary.dispatchable_by_pool == {POOL: 1}
    signals = await bench.ledger.signals.of_pool(POOL)
    assert (signals.queued, signals.withheld) == (1, 0)
    assert registry.get_sample_value("paddock_queue_jobs", {"pool": POOL, "state": "dispatchable"}) == 1
    assert {one.job_id: one.reason for one in await bench.ledger.overview.queue()} == {
        10: "limit_reached",
        11: "in_line",
    }
    assert (await bench.claimed("b")).job_id == 11


async def test_one_free_place_of_an_account_counts_in_one_pool(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(1, age=30), job(2, age=20, pool=XCODE), job(3, age=10, pool=LARGE))
    summary = await bench.ledger.overview.summary()
    assert (summary.dispatchable, summary.withheld, summary.dispatchable_by_pool) == (1, 2, {POOL: 1})
    found, _ = await bench.ledger.signals.of_pools(POOLS)
    assert [(one.queued, one.withheld) for one in found.values()] == [(1, 0), (0, 1), (0, 1)]


async def test_a_pool_that_another_goes_before_still_says_how_long_its_job_could_have_run(bench: Bench):
    """A Pod of it would be handed the job at once: if none comes, that is what the alert is for."""
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(1, age=900), job(2, age=800, pool=XCODE))
    assert (await bench.ledger.signals.of_pool(XCODE)).oldest_dispatchable_seconds == pytest.approx(800, abs=0.01)
    (other,) = [one for one in await bench.ledger.overview.queue() if one.job_id == 2]
    assert other.reason == "in_line"
    assert "goes to its jobs in other pools where a Pod of theirs asks first" in other.why
    assert (await bench.claimed("a", XCODE)).job_id == 2


async def test_a_job_behind_a_larger_one_that_does_not_fit_is_in_line_and_not_behind_its_account(bench: Bench):
    await bench.accounts(ACME, vcpus=12, memory_mb=500_000)
    await bench.queue(job(1, age=30), job(2, age=20, vcpus=12), job(3, age=10))
    assert (await bench.ledger.overview.summary()).dispatchable == 2
    assert {one.job_id: one.reason for one in await bench.ledger.overview.queue()} == {
        1: "in_line",
        2: "behind_its_account",
        3: "in_line",
    }
    assert [(await bench.claimed(n)).job_id for n in range(2)] == [1, 3]


async def test_a_job_that_was_queued_since_the_last_look_has_a_wait_at_once(bench: Bench):
    await bench.accounts(ACME)
    queue = QueueCollector(bench.ledger, lambda: POOLS, bench.clock)
    await queue.look()
    await bench.queue(job(1, age=5))
    summary = await queue.summary()
    assert (summary.dispatchable, summary.dispatchable_by_pool) == (1, {POOL: 1})
    assert summary.oldest_dispatchable_seconds == pytest.approx(5, abs=0.01)
    assert summary.oldest_by_pool[POOL] == pytest.approx(5, abs=0.01)


async def test_an_account_without_a_limit_and_one_that_is_not_allowed_have_no_load(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.ask("DELETE FROM limits WHERE account_id = 1 AND platform = 'linux'")
    await bench.ledger.allow_list.deny(BOLT, "org2", by="test", why="nobody asked for it")
    await bench.queue(job(1, platform="linux"), job(2, BOLT))
    total = (await load_of(bench)).total()
    assert (total.dispatchable, total.withheld, total.not_allowed, total.oldest) == (0, 1, 1, None)


async def _any_line(bench: Bench, rng: random.Random, pools: tuple[str, ...], accounts: tuple[int, ...]) -> int:
    """Jobs of all sizes in the line, some claims, some limits of repositories, some precedence."""
    number = itertools.count(1)
    for account in accounts:
        await bench.accounts(account, vcpus=rng.randrange(1, 13), memory_mb=rng.randrange(1, 13))
        for repository in (1, 2):
            if rng.random() < 0.3:
                await bench.ask(
                    "INSERT INTO repository_limits VALUES (%s, %s, 'macos', 'of a test', %s, %s, now())",
                    [account, repository, rng.randrange(1, 7), rng.randrange(1, 7)],
                )
        for repository in (0, 1, 2):
            if rng.random() < 0.5:
                weight, priority = rng.choice([None, 1, 2, 5]), rng.choice([None, -1, 0, 1, 3])
                if weight is not None or priority is not None:
                    await bench.ledger.precedence.set(
                        account,
                        "of a test",
                        repository_id=repository,
                        weight=weight,
                        priority=priority,
                        by="test",
                        why="",
                    )
    total = rng.randrange(1, 13)
    for _ in range(total):
        account, repository = rng.choice(accounts), rng.randrange(3)
        one = job(
            next(number), account, pool=rng.choice(pools), vcpus=rng.randrange(1, 5), memory_mb=rng.randrange(1, 5),
            age=rng.choice([0, 100, 200, 400, 800]), repository=f"org{account}/{repository}", repository_id=repository,
        )  # fmt: skip
        await bench.queue(one)
    return total


@pytest.mark.parametrize("seed", range(40))
async def test_what_may_run_of_a_pool_is_what_admission_hands_out_until_it_hands_out_nothing(bench: Bench, seed: int):
    rng = random.Random(seed)
    await _any_line(bench, rng, (POOL,), (ACME, BOLT, CRUX))
    for n in range(rng.randrange(3)):
        await bench.claim(f"before-{n}")  # what is held already
    load = await load_of(bench)
    handed = set()
    for n in itertools.count():
        claim = await bench.claim(n)
        if claim.outcome is not Outcome.CLAIMED:
            break
        handed.add(claim.job_id)
    assert handed == load.dispatchable
    assert load.of_pool(POOL).dispatchable == len(handed)


@pytest.mark.parametrize("seed", range(40))
async def test_what_may_run_of_several_pools_can_run_together_and_leaves_no_room_for_more(bench: Bench, seed: int):
    rng = random.Random(1000 + seed)
    total = await _any_line(bench, rng, POOLS, (ACME, BOLT))
    load = await load_of(bench)
    parts = [load.of_pool(pool) for pool in POOLS]
    assert sum(part.dispatchable for part in parts) == len(load.dispatchable) == load.total().dispatchable
    assert sum(part.dispatchable + part.withheld for part in parts) == total
    for n, job_id in enumerate(sorted(load.dispatchable)):
        (answer,) = await bench.ask(
            "SELECT outcome FROM admit(ARRAY[%s]::bigint[], ARRAY[%s], ARRAY['p'], NULL, 'test', %s)",
            [job_id, f"uid-{n}", START],
        )
        assert answer == ("claimed",)
    for pool in POOLS:
        assert (await bench.claim(f"more-{pool}", pool)).outcome is Outcome.EMPTY
    assert (await load_of(bench)).dispatchable == frozenset()


async def test_the_level_of_a_job_is_the_one_that_the_database_counts(bench: Bench):
    lowest, highest = PRIORITIES
    for priority, top in itertools.product(range(lowest, highest + 1, 4), range(lowest, highest + 1, 4)):
        for seconds in (-5, 0, 179, 180, 181, 1799, 36_000):
            since = START - timedelta(seconds=seconds)
            ((level,),) = await bench.ask("SELECT level_of(%s, %s, %s, %s)", [priority, since, START, top])
            assert level_of(priority, since, START, top) == level, (priority, top, seconds)
