"""Rows for jobs that GitHub counts and has not named: how many there may be, what names one, and how they end."""

import asyncio
from datetime import timedelta

import pytest
from doubles.clocks import NOON
from integration.runners.ledger.rig import Bench, job, pod
from integration.runners.ledger.test_scale_sets import POOL, entry, source_of, taken

from paddock.runners.ledger import NewJob, Outcome
from paddock.runners.ledger.assignments import OpenAssignment
from paddock.runners.ledger.scale_sets import LeaseLostError, Source
from paddock.runners.scale_sets.book import LedgerBook

BEFORE = (NOON - timedelta(seconds=30)).isoformat()
AFTER = (NOON + timedelta(seconds=30)).isoformat()


async def made(bench: Bench, make: int) -> tuple[Source, LedgerBook]:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    assert await book.make_nameless(source, POOL, make=make, at_most=make) == make
    return source, book


async def opened(bench: Bench, source: Source) -> list[OpenAssignment]:
    return await bench.ledger.assignments.open(source)


async def handed(bench: Bench, number: int, runner: str) -> int:
    """A Pod is handed a runner for the job that is next; gives the job's number."""
    claim = await bench.claimed(number, "macos")
    await bench.ledger.claims.commit(claim, runner)
    assert claim.job_id is not None
    return claim.job_id


async def test_making_them_twice_makes_none_the_second_time(bench: Bench) -> None:
    source, book = await made(bench, 2)
    # The answer was lost: it is said again.
    assert await book.make_nameless(source, POOL, make=2, at_most=2) == 0
    rows = await opened(bench, source)
    assert [(row.nameless, row.handed) for row in rows] == [(True, False)] * 2
    job = await bench.ledger.jobs.get(rows[0].job_id)
    assert job is not None
    assert (job.status, job.pool, job.job_name, job.vcpus) == ("queued", "macos", "not named yet", POOL.vcpus)
    assert "was not announced here" in job.changed_why


async def test_named_rows_count_and_two_at_once_make_no_more_than_one_alone(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned"), POOL)
    numbers = await asyncio.gather(*(book.make_nameless(source, POOL, make=2, at_most=3) for _ in range(4)))
    assert sum(numbers) == 2
    assert len(await opened(bench, source)) == 3


async def test_whoever_lost_the_lease_makes_none(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    bench.clock.advance(60)
    assert await taken(bench, 1, await bench.ledger.dispatchers.register("b")) is not None
    with pytest.raises(LeaseLostError):
        await book.make_nameless(source, POOL, make=1, at_most=1)
    assert await opened(bench, source) == []


async def test_limits_hold_for_jobs_without_a_name(bench: Bench) -> None:
    await made(bench, 3)
    assert [(await bench.claim(number, "macos")).outcome for number in range(3)] == [
        Outcome.CLAIMED,
        Outcome.CLAIMED,
        Outcome.EMPTY,
    ]


async def test_a_row_of_a_whole_organisation_is_of_its_own_owner_so_that_its_runner_is_found(bench: Bench) -> None:
    source, _ = await made(bench, 1)
    (row,) = await opened(bench, source)
    job = await bench.ledger.jobs.get(row.job_id)
    assert job is not None
    assert job.repository == "org1/(unknown)"


async def test_none_is_made_where_only_repositories_of_the_account_may_run_jobs(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await bench.ledger.allow_list.deny(1, "org1", by="test", why="only one of its repositories")
    await bench.ledger.allow_list.allow(1, "org1/app", repository_id=11, by="test", why="this one")
    assert await book.make_nameless(source, POOL, make=1, at_most=1) == 0
    assert await opened(bench, source) == []


async def test_a_repositorys_own_limit_holds_for_rows_of_its_own_set(bench: Bench) -> None:
    await bench.accounts(1)
    await bench.ledger.allow_list.limit_repository(
        1, 11, "org1/app", "macos", vcpus=POOL.vcpus, memory_mb=POOL.spec.pod_memory_mb, by="test", why="one at a time"
    )
    dispatcher, since = await bench.ledger.dispatchers.register("a"), bench.clock.now() - timedelta(minutes=1)
    source = await bench.ledger.scale_sets.take("macos", 1, "org1/app", dispatcher=dispatcher, silent_since=since)
    assert source is not None
    book = LedgerBook(bench.ledger, bench.clock)
    assert await book.make_nameless(source, POOL, make=2, at_most=2) == 2
    outcomes = [(await bench.claim(number, "macos")).outcome for number in range(2)]
    assert outcomes == [Outcome.CLAIMED, Outcome.EMPTY]


async def test_a_claim_counts_for_the_repository_that_its_job_turned_out_to_be_of(bench: Bench) -> None:
    source, book = await made(bench, 1)
    await bench.ledger.allow_list.limit_repository(
        1, 11, "org1/app", "macos", vcpus=POOL.vcpus, memory_mb=POOL.spec.pod_memory_mb, by="test", why="one at a time"
    )
    await handed(bench, 1, "r1")
    assert await bench.ask("SELECT repository_id FROM claims") == [(0,)]
    await book.apply(source, entry("JobStarted", at=BEFORE, runner="r1"), POOL)
    assert await bench.ask("SELECT repository_id FROM claims") == [(11,)]


async def test_a_start_that_a_webhook_told_is_a_start(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await book.apply(source, entry("JobAssigned", at=BEFORE), POOL)
    number = await handed(bench, 1, "r1")
    (row,) = await opened(bench, source)
    assert (row.handed, row.started) == (True, False)
    announced = await bench.ledger.jobs.get(number)
    assert announced is not None
    told = NewJob(**{name: getattr(announced, name) for name in NewJob.__struct_fields__ if name != "labels"})
    await bench.ledger.jobs.started(told, runner_name="r1", started_at=bench.clock.now(), by="webhook")
    (row,) = await opened(bench, source)
    assert (row.started_at, row.started) == (None, True)


async def test_the_runner_that_starts_a_job_names_its_own_row(bench: Bench) -> None:
    source, book = await made(bench, 2)
    first, second = await handed(bench, 1, "r1"), await handed(bench, 2, "r2")
    for _ in range(2):
        await book.apply(source, entry("JobStarted", at=BEFORE, runner="r2"), POOL)
    job = await bench.ledger.jobs.get(second)
    assert job is not None
    assert (job.status, job.repository, job.job_name, job.workflow_run_id, job.runner_name) == (
        "running",
        "org1/app",
        "build",
        7,
        "r2",
    )
    rows = {row.job_id: row for row in await opened(bench, source)}
    assert (rows[second].nameless, rows[first].nameless, len(rows)) == (False, True, 2)
    await book.apply(source, entry("JobCompleted", at=BEFORE, runner="r2", result="succeeded"), POOL)
    job = await bench.ledger.jobs.get(second)
    assert job is not None
    assert job.conclusion == "success"
    assert [claim.runner_name for claim in await bench.ledger.claims.all()] == ["r1"]


async def test_a_late_announcement_names_a_row_and_a_fresh_one_is_a_row_of_its_own(bench: Bench) -> None:
    source, book = await made(bench, 1)
    bench.clock.advance(60)
    await book.apply(source, entry("JobAssigned", at=AFTER, name="fresh"), POOL)
    assert [row.nameless for row in await opened(bench, source)] == [True, False]
    for _ in range(2):
        await book.apply(source, entry("JobAssigned", at=BEFORE, name="late"), POOL)
    rows = await opened(bench, source)
    jobs = [await bench.ledger.jobs.get(row.job_id) for row in rows]
    assert [job.job_name for job in jobs if job is not None] == ["late", "fresh"]
    assert not any(row.nameless for row in rows)


async def test_a_job_that_ran_when_the_rows_were_made_names_none_of_them(bench: Bench) -> None:
    source, book = await made(bench, 1)
    ended = entry("JobCompleted", at=BEFORE, runner="forgotten", result="succeeded", taken=BEFORE)
    await book.apply(source, ended, POOL)
    (row,) = await opened(bench, source)
    assert row.nameless


async def test_an_assignment_that_github_takes_back_ends_a_row_without_a_pod(bench: Bench) -> None:
    source, book = await made(bench, 2)
    kept = await handed(bench, 1, "r1")
    await book.apply(source, entry("JobCompleted", at=BEFORE, result="canceled"), POOL)
    (row,) = await opened(bench, source)
    assert (row.job_id, row.nameless) == (kept, True)


async def test_a_row_that_waited_in_vain_is_remembered_for_a_while(bench: Bench) -> None:
    source, book = await made(bench, 2)
    first, second = await opened(bench, source)
    await book.close_ghost(first, 1, "GitHub gave it to nobody", in_vain=True)
    await book.close_ghost(second, 1, "GitHub counts fewer")
    now = bench.clock.now()
    assert await book.in_vain(source, now - timedelta(minutes=30)) == 1
    bench.clock.advance(31 * 60)
    assert await book.in_vain(source, bench.clock.now() - timedelta(minutes=30)) == 0
    assert await opened(bench, source) == []


async def test_the_runner_of_a_row_that_was_ended_is_left_to_healing(bench: Bench) -> None:
    source, book = await made(bench, 1)
    await handed(bench, 1, "r1")
    (row,) = await opened(bench, source)
    assert row.handed
    await book.close_ghost(row, 1, "GitHub counts fewer")
    assert [claim.pod_uid for claim in await bench.ledger.claims.all()] == [pod(1).uid]


def waiting(number: int = 5) -> NewJob:
    return job(number, pool="macos")


async def nudged(bench: Bench, one: NewJob) -> bool:
    since = bench.clock.now() - timedelta(minutes=30)
    return await bench.ledger.nameless.nudge(one, since=since, by="test", why="it waits at GitHub")


async def test_a_job_that_nobody_announces_is_nudged_once_and_only_where_the_set_is_idle(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    assert not await nudged(bench, waiting())  # nobody listens yet
    await bench.ledger.scale_sets.note(source, "Listening", heard=True)
    assert await nudged(bench, waiting())
    assert not await nudged(bench, waiting())
    assert not await nudged(bench, waiting(6))
    (row,) = await opened(bench, source)
    assert (row.nameless, row.nudged) == (True, True)
    found = await bench.ledger.jobs.get(row.job_id)
    assert found is not None
    assert (found.repository, found.status) == ("org1/app", "queued")
    # GitHub wakes up and announces it: it is the same job.
    bench.clock.advance(60)
    await book.apply(source, entry("JobAssigned", at=AFTER), POOL)
    (row,) = await opened(bench, source)
    assert not row.nameless


async def test_a_nudge_that_was_in_vain_is_not_repeated_for_half_an_hour(bench: Bench) -> None:
    source, book = await source_of(bench), LedgerBook(bench.ledger, bench.clock)
    await bench.ledger.scale_sets.note(source, "Listening", heard=True)
    assert await nudged(bench, waiting())
    (row,) = await opened(bench, source)
    await book.close_ghost(row, 1, "GitHub gave it to nobody", in_vain=True)
    bench.clock.advance(29 * 60)
    assert not await nudged(bench, waiting())
    bench.clock.advance(2 * 60)
    assert await nudged(bench, waiting())


async def test_a_nudge_for_a_repository_that_was_denied_since_holds_up_no_other(bench: Bench) -> None:
    source = await source_of(bench)
    await bench.ledger.scale_sets.note(source, "Listening", heard=True)
    secret = job(5, pool="macos", repository="org1/secret", repository_id=9)
    assert await nudged(bench, secret)
    await bench.ledger.allow_list.deny(1, "org1/secret", repository_id=9, by="test", why="as the test needs it")
    assert not await nudged(bench, secret), "no Pod would come for it"
    assert await nudged(bench, waiting())
    assert not await nudged(bench, waiting(6)), "one is enough"
