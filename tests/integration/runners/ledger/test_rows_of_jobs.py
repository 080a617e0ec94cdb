"""The life of a job's row beside its claim: what survives a release, what nothing brings back, and who is passed over."""

import asyncio
from collections import Counter
from datetime import timedelta
from typing import LiteralString

import psycopg
import pytest
from integration.runners.ledger.rig import ACME, BOLT, POOL, Bench, attempt, job, pod
from msgspec.structs import asdict, replace

from paddock.runners.ledger import FINISHED, Execution, Outcome
from paddock.runners.ledger.scale_sets import FIRST_JOB_ID

MINUTES_5 = timedelta(minutes=5)
CHANGED = {"changed_at", "changed_by", "changed_why"}


async def test_a_released_job_comes_back_with_all_that_was_known_of_it(bench: Bench):
    await bench.accounts(ACME)
    announced = replace(
        job(10, age=60), workflow_run_id=77, run_attempt=3, job_name="test", head_branch="main", head_sha="abc"
    )
    await bench.queue(announced)
    before = await bench.ledger.jobs.get(10)
    assert before is not None
    claim = await bench.running(1)
    await bench.ledger.claims.release(claim, by="orphaned runners", why="never registered")
    after = await bench.ledger.jobs.get(10)
    assert after is not None
    differs = {name for name, value in asdict(after).items() if value != asdict(before)[name]}
    assert differs <= CHANGED, "only who moved it last, and why"
    again = await bench.claimed(2)
    assert (again.job_id, again.repository, again.label, again.workflow_name) == (
        10,
        announced.repository,
        announced.label,
        announced.workflow_name,
    )
    assert (again.vcpus, again.memory_mb, again.platform) == (6, 14_336, "macos"), "it is counted as it was"


@pytest.mark.parametrize("conclusion", ["success", "cancelled"])
async def test_a_finished_job_cannot_be_claimed_released_or_put_back(bench: Bench, conclusion: str):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    await bench.completed(job(10), 1, conclusion=conclusion)
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    lines = len(await bench.ledger.transitions.of_job(10))
    assert (await attempt(bench.ledger, 10, pod(2))).outcome is Outcome.LOST_RACE
    assert (await bench.claim(3)).outcome is Outcome.EMPTY
    assert not await bench.ledger.unconfirmed.put_back(row, heard=None, by="test", why="late")
    assert await bench.ledger.jobs.get(10) == row
    assert len(await bench.ledger.transitions.of_job(10)) == lines
    assert await bench.ledger.claims.all() == []


async def test_a_claim_and_the_end_of_its_job_at_once_leave_a_finished_job_and_no_runner_for_it(bench: Bench):
    """Whoever is first: a claim that was won can be confirmed no more, and given back it puts nothing into the line."""
    await bench.accounts(ACME, vcpus=6000, memory_mb=50_000_000)
    seen: Counter[Outcome] = Counter()
    for number in range(100, 130):
        await bench.queue(job(number))
        claim, _ = await asyncio.gather(
            attempt(bench.ledger, number, pod(number)), bench.completed(job(number), conclusion="cancelled")
        )
        seen[claim.outcome] += 1
        assert await bench.status(number) in FINISHED
        if claim.won:
            ended = await bench.ledger.claims.release(claim, by="dispatch", why="the job is gone")
            assert not ended.requeued
        assert await bench.status(number) in FINISHED
        assert await bench.ledger.sessions.of_pod(f"uid-{number}") is None
    assert set(seen) <= {Outcome.CLAIMED, Outcome.LOST_RACE}
    assert await bench.ledger.claims.all() == []


async def test_a_job_that_a_rival_is_taking_is_passed_over_for_the_next(bench: Bench):
    """Lost races do not send a Pod away while something else waits."""
    await bench.accounts(ACME, BOLT, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10, age=90), job(11, age=60), job(20, BOLT, age=30))
    async with await bench.connect() as rival, rival.transaction(force_rollback=True):
        # A rival is in the midst of taking job 10, or GitHub is being heard about it: its lock is held.
        await rival.execute("SELECT pg_advisory_xact_lock(job_lock_key(10))")
        async with asyncio.timeout(2):
            first, second = await bench.claimed(1), await bench.claimed(2)
            assert {first.job_id, second.job_id} == {11, 20}
            assert (await bench.claim(3)).outcome in (Outcome.EMPTY, Outcome.LOST_RACE)
    assert (await bench.claimed(3)).job_id == 10


async def test_no_row_is_of_no_size_so_that_nothing_is_held_for_free(bench: Bench):
    """There is no older row whose size would have to be guessed: the tables refuse one."""
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.claimed(1)
    statements: list[LiteralString] = [
        f"UPDATE {table} SET {column} = 0"
        for table in ("jobs", "claims", "limits")
        for column in ("vcpus", "memory_mb")
    ]
    for statement in statements:
        with pytest.raises(psycopg.errors.CheckViolation):
            await bench.ask(statement)


async def test_beside_a_neighbour_with_a_hundred_times_as_many_jobs_nobody_waits_longer_than_for_its_share(
    bench: Bench,
):
    """Four Pods, all at the noisy one's jobs when the quiet one asks: from then on it gets one turn in two."""
    await bench.accounts(ACME, BOLT, vcpus=6000, memory_mb=50_000_000)
    async with asyncio.timeout(60):
        await asyncio.gather(*(bench.ledger.jobs.enqueue(job(1000 + n, ACME, age=9000 - n)) for n in range(300)))
    at_work = [(number, await bench.running(number)) for number in range(4)]
    await bench.queue(*(job(10 + n, BOLT, age=10 - n) for n in range(3)))
    locks: list[int] = []
    for number in range(4, 16):
        ended, claim = at_work.pop(0)
        await bench.completed(job(claim.job_id, claim.account_id), ended)
        at_work.append((number, await bench.running(number)))
        locks.append(at_work[-1][1].account_id)
    quiet = [turn for turn, account in enumerate(locks) if account == BOLT]
    assert quiet[0] == 0, "the first Pod that is free"
    assert len(quiet) == 3
    assert quiet[-1] <= 5, locks
    assert locks.count(ACME) == 9, "and nothing is kept back from the noisy one"


async def test_a_pool_is_not_held_up_by_the_longest_of_lines(bench: Bench):
    """The age that counts is that of the oldest job that may run, whatever is withheld before it."""
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.accounts(BOLT)
    await bench.queue(*(job(100 + n, ACME, age=5000 - n) for n in range(30)))
    await bench.running(1)
    await bench.queue(job(200, BOLT, age=7))
    signals = await bench.ledger.signals.of_pool(POOL)
    assert (signals.queued, signals.withheld) == (1, 29)
    assert 6.9 < signals.oldest_dispatchable_seconds <= 7


@pytest.mark.parametrize("minted_for", [10, FIRST_JOB_ID], ids=["a webhook's runner", "a scale set's runner"])
async def test_a_runner_acts_on_rows_of_its_own_source_alone(bench: Bench, minted_for: int):
    """A pool went from webhooks to a scale set: one job of GitHub's may stand here twice, under a number of each source."""
    (other,) = {10, FIRST_JOB_ID} - {minted_for}
    await bench.accounts(ACME)
    await bench.queue(job(minted_for, age=9))
    await bench.running(1)
    await bench.queue(job(other))
    assert await bench.started(job(other), 1) is Execution.OTHER_SOURCE
    assert (await bench.status(minted_for), await bench.status(other)) == ("running", "queued")
    await bench.completed(job(other), 1)
    row = await bench.ledger.jobs.get(other)
    assert row is not None
    assert (row.status, row.conclusion, row.runner_name) == ("completed", "elsewhere", None)
    assert await bench.status(minted_for) == "running"
    assert [claim.job_id for claim in await bench.ledger.claims.all()] == [minted_for]
    assert await bench.problems() == []
