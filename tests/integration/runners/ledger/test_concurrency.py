"""Many at once: nothing twice, no limit exceeded, nobody waits for what is not theirs."""

import asyncio
import random
from collections import Counter

import pytest
from integration.runners.ledger.rig import ACME, BOLT, POOL, Bench, attempt, job, pod
from psycopg.conninfo import make_conninfo

from paddock.runners.ledger import Claim, Fence, Ledger, Outcome, Pod


async def _insist(ledger: Ledger, job_id: int, one: Pod) -> Outcome:
    """Ask until the account is not busy, as a dispatcher does."""
    while True:
        outcome = (await attempt(ledger, job_id, one)).outcome
        if outcome is not Outcome.ACCOUNT_BUSY:
            return outcome
        await asyncio.sleep(0.002)


async def test_of_eight_at_once_exactly_the_two_that_fit_get_in(bench: Bench):
    await bench.accounts(ACME, vcpus=12, memory_mb=28_672)
    await bench.queue(*(job(10 + n) for n in range(8)))
    outcomes = await asyncio.gather(*(_insist(bench.ledger, 10 + n, pod(n)) for n in range(8)))
    assert Counter(outcomes) == {Outcome.CLAIMED: 2, Outcome.LIMIT_REACHED: 6}
    usage = next(row for row in await bench.ledger.limits.usage(ACME) if row.platform == "macos")
    assert (usage.used_vcpus, usage.used_memory_mb, usage.claims) == (12, 28_672, 2)


async def test_who_waited_for_a_pod_counts_those_who_were_admitted_meanwhile(bench: Bench):
    """Also on a server whose transactions would, by default, see only what was there when they began."""
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(10), job(11))
    strict = make_conninfo(bench.dsn, options="-c default_transaction_isolation=repeatable\\ read")
    async with (
        Ledger.open(strict, clock=bench.clock, schema=bench.schema, size=2) as ledger,
        await bench.connect() as rival,
    ):
        async with rival.transaction(force_rollback=True):
            await rival.execute(
                "INSERT INTO claims (pod_uid, pod_name, state, claimed_at, by, why)"
                " VALUES ('uid-1', 'runner-1', 'fenced', %s, 'rival', 'not committed')",
                [bench.clock.now()],
            )
            waiter = asyncio.create_task(attempt(ledger, 10, pod(1)))
            await _until_somebody_waits(bench)
            assert (await attempt(bench.ledger, 11, pod(2))).outcome is Outcome.CLAIMED
        assert (await waiter).outcome is Outcome.LIMIT_REACHED


async def _until_somebody_waits(bench: Bench) -> None:
    async with asyncio.timeout(10):
        while not await bench.ask(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'paddock-ledger' AND wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(0.01)


async def test_an_account_that_is_being_admitted_for_is_not_waited_for(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(10), job(11, platform="linux", pool="linux"), job(20, BOLT))
    async with await bench.connect() as rival, rival.transaction():
        await rival.execute("SELECT FROM limits WHERE account_id = %s AND platform = 'macos' FOR UPDATE", [ACME])
        async with asyncio.timeout(1):
            assert (await attempt(bench.ledger, 10, pod(1))).outcome is Outcome.ACCOUNT_BUSY
            await bench.claimed(2, "linux")
            assert (await bench.claimed(3)).account_id == BOLT
            assert (await bench.claim(4)).outcome is Outcome.ACCOUNT_BUSY
    assert (await bench.claimed(4)).job_id == 10


async def test_waiting_for_a_rival_for_the_same_pod_does_not_hold_up_the_account(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10), job(11))
    async with await bench.connect() as rival:
        async with rival.transaction(force_rollback=True):
            await rival.execute(
                "INSERT INTO claims (pod_uid, pod_name, state, claimed_at, by, why)"
                " VALUES ('uid-1', 'runner-1', 'fenced', %s, 'rival', 'not committed')",
                [bench.clock.now()],
            )
            waiter = asyncio.create_task(attempt(bench.ledger, 10, pod(1)))
            async with asyncio.timeout(2):
                assert (await attempt(bench.ledger, 11, pod(2))).outcome is Outcome.CLAIMED
            assert not waiter.done()
        async with asyncio.timeout(5):
            assert (await waiter).outcome is Outcome.CLAIMED


async def test_one_pod_claimed_for_two_accounts_at_once_goes_to_one_of_them(bench: Bench):
    await bench.accounts(ACME, BOLT)
    for round_ in range(10):
        a, b = job(100 + round_), job(200 + round_, BOLT)
        await bench.queue(a, b)
        answers = await asyncio.gather(*(attempt(bench.ledger, one.job_id, pod(f"p{round_}")) for one in (a, b)))
        assert sorted(answer.outcome for answer in answers) == [Outcome.CLAIMED, Outcome.POD_IN_USE]
        for one in (a, b):
            await bench.completed(one)
        for answer in answers:
            if answer.won:
                await bench.ledger.claims.release(answer, by="test", why="next round")


async def test_a_fence_and_a_claim_at_once_never_both_stand(bench: Bench):
    await bench.accounts(ACME, vcpus=600, memory_mb=5_000_000)
    seen: Counter[str] = Counter()
    for round_ in range(20):
        await bench.queue(job(100 + round_))
        one = pod(f"p{round_}")
        claim, fence = await asyncio.gather(
            attempt(bench.ledger, 100 + round_, one),
            bench.ledger.fences.raise_fence(one, by="reaper", why="race"),
        )
        assert claim.won != isinstance(fence, Fence)
        assert claim.won or claim.outcome is Outcome.POD_FENCED
        seen["claim" if claim.won else "fence"] += 1
    print(dict(seen))


async def test_the_last_word_and_the_first_at_once_leave_the_job_finished(bench: Bench):
    await bench.accounts(ACME, vcpus=600, memory_mb=5_000_000)

    async def end(number: int) -> None:
        # Without the job's facts: only the completion says that it ever was.
        await bench.ledger.jobs.completed(
            number, account_id=ACME, conclusion="success", completed_at=bench.clock.now(), runner_name=None
        )

    await asyncio.gather(*(act for n in range(100, 160) for act in (end(n), bench.ledger.jobs.enqueue(job(n)))))
    assert await bench.ask("SELECT job_id FROM jobs WHERE status <> 'completed'") == []
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


@pytest.mark.parametrize("batch", [pytest.param(1, id="single", marks=pytest.mark.slow), pytest.param(8, id="batched")])
async def test_a_storm_hands_every_job_out_once_and_stays_within_every_limit(bench: Bench, batch: int):
    """Two dispatchers' worth of connections on two pools that share accounts, with jobs ending all the while."""
    rng = random.Random(11)
    accounts, jobs, pools = (1, 2, 3, 4, 5), 160, (POOL, "mac-m2")
    await bench.accounts(*accounts, vcpus=24, memory_mb=60_000)
    left = set(range(1000, 1000 + jobs))
    await asyncio.gather(
        *(bench.ledger.jobs.enqueue(job(n, rng.choice(accounts), pool=pools[n % 2])) for n in sorted(left))
    )
    handed: list[Claim] = []
    problems: list[str] = []
    numbers = iter(range(100_000))

    async def dispatch(pool: str) -> None:
        while left:
            waiting = [pod(next(numbers)) for _ in range(batch)]
            for claim in await bench.ledger.claims.claim_many(pool, waiting):
                if not claim.won:
                    continue
                handed.append(claim)
                await bench.ledger.claims.commit(claim, f"r-{claim.generation}")
                await asyncio.sleep(rng.random() * 0.01)
                await bench.ledger.jobs.completed(
                    claim.job_id,
                    account_id=claim.account_id,
                    conclusion="success",
                    completed_at=bench.clock.now(),
                    runner_name=f"r-{claim.generation}",
                )
                left.discard(claim.job_id)

    async def watch() -> None:
        while left:
            problems.extend(await bench.problems())
            await asyncio.sleep(0.02)

    async with asyncio.timeout(60):
        await asyncio.gather(*(dispatch(pools[n % 2]) for n in range(12)), watch())
    assert problems == []
    assert len(handed) == len({claim.job_id for claim in handed}) == jobs
    assert len({claim.pod_uid for claim in handed}) == len({claim.generation for claim in handed}) == jobs
    assert await bench.ledger.claims.all() == []


async def test_batches_with_the_same_pods_in_other_orders_give_each_pod_one_job(bench: Bench):
    await bench.accounts(ACME, BOLT, vcpus=6000, memory_mb=50_000_000)
    await bench.queue(*(job(100 + n, 1 + n % 2) for n in range(120)))
    rng = random.Random(3)

    async def shuffled() -> list[Claim]:
        waiting = [pod(n) for n in range(40)]
        rng.shuffle(waiting)
        return await bench.ledger.claims.claim_many(POOL, waiting)

    async with asyncio.timeout(20):
        won = [
            claim for answers in await asyncio.gather(*(shuffled() for _ in range(6))) for claim in answers if claim.won
        ]
    assert len({claim.pod_uid for claim in won}) == len({claim.job_id for claim in won}) == len(won)
    assert len(won) >= 20


async def test_runners_that_swap_jobs_at_once_never_wait_in_a_circle(bench: Bench):
    await bench.accounts(ACME, vcpus=6000, memory_mb=50_000_000)
    for round_ in range(12):
        a, b = job(100 + 2 * round_), job(101 + 2 * round_)
        await bench.queue(a, b)
        first, second = await bench.running(f"a{round_}"), await bench.running(f"b{round_}")
        assert (first.job_id, second.job_id) == (a.job_id, b.job_id)
        words = [bench.started(b, f"a{round_}"), bench.started(a, f"b{round_}")]
        words += [bench.completed(b, f"a{round_}"), bench.completed(a, f"b{round_}")]
        words += [bench.completed(b, f"a{round_}"), bench.started(a, f"b{round_}")]
        async with asyncio.timeout(10):
            await asyncio.gather(*words)
        assert await bench.ledger.claims.all() == []
        assert (await bench.status(a.job_id), await bench.status(b.job_id)) == ("completed", "completed")
    deadlocks = await bench.ask("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert deadlocks == [(0,)]
