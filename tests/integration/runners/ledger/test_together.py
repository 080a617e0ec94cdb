"""What is asked of the ledger at once goes as one statement, and ends as if each had come alone."""

import asyncio

import pytest
from integration.runners.ledger.rig import ACME, BOLT, POOL, START, Bench, job, pod

from paddock.runners.ledger import (
    Ledger,
    Moved,
    StaleClaimError,
    StaleDeliveryError,
    UnknownAccountError,
)

_NOBODY = 99


async def test_announcements_at_once_are_queued_each_once(bench: Bench):
    await bench.accounts(ACME, BOLT)
    jobs = bench.ledger.jobs
    said = [job(n, (ACME, BOLT)[n % 2]) for n in range(1, 31)]
    moved = await asyncio.gather(*(jobs.enqueue(each) for each in (*said, *said)))
    assert sorted(moved) == sorted([Moved.QUEUED] * 30 + [Moved.KNOWN] * 30)
    lines = await bench.ask("SELECT job_id, count(*) FROM transitions WHERE subject = 'job' GROUP BY job_id")
    assert sorted(lines) == [(n, 1) for n in range(1, 31)]


async def test_an_announcement_of_nobodys_job_fails_alone(bench: Bench):
    await bench.accounts(ACME)
    said = [job(1), job(2, _NOBODY), job(3), job(4)]
    moved = await asyncio.gather(*(bench.ledger.jobs.enqueue(each) for each in said), return_exceptions=True)
    assert [moved[0], moved[2], moved[3]] == [Moved.QUEUED] * 3
    assert isinstance(moved[1], UnknownAccountError)


async def test_jobs_that_finished_before_they_were_announced_stay_finished_among_others(bench: Bench):
    await bench.accounts(ACME)
    jobs = bench.ledger.jobs
    for number in (2, 5):
        await jobs.completed(number, account_id=ACME, conclusion="success", completed_at=START)
    moved = await asyncio.gather(*(jobs.enqueue(job(n)) for n in range(1, 7)))
    assert [n for n, what in enumerate(moved, 1) if what is Moved.FINISHED] == [2, 5]
    assert await bench.ask("SELECT job_id FROM jobs ORDER BY job_id") == [(1,), (3,), (4,), (6,)]


async def test_a_job_that_is_being_spoken_of_holds_up_no_other(bench: Bench):
    await bench.accounts(ACME)
    jobs = bench.ledger.jobs
    async with await bench.connect() as rival, rival.transaction():
        await rival.execute("SELECT pg_advisory_xact_lock(job_lock_key(2))")
        said = {n: asyncio.create_task(jobs.enqueue(job(n))) for n in (1, 2, 3)}
        assert await asyncio.gather(said[1], said[3]) == [Moved.QUEUED] * 2
        assert await bench.ask("SELECT job_id FROM jobs ORDER BY job_id") == [(1,), (3,)]
        assert not said[2].done()
    assert await said[2] is Moved.QUEUED


async def test_of_claims_that_are_committed_at_once_the_stale_one_fails_alone(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=200_000)
    ledger = bench.ledger
    await asyncio.gather(*(ledger.jobs.enqueue(job(n)) for n in range(1, 6)))
    claims = await ledger.claims.claim_many(POOL, [pod(n) for n in range(1, 6)])
    await ledger.claims.release(claims[2], by="test", why="given back")
    done = await asyncio.gather(
        *(ledger.claims.commit(claim, f"runner-of-{claim.pod_name}") for claim in claims), return_exceptions=True
    )
    assert isinstance(done[2], StaleClaimError)
    assert [done[0], done[1], done[3], done[4]] == [None] * 4
    opened = await bench.ask("SELECT pod_uid, runner_name FROM sessions ORDER BY pod_uid")
    assert opened == [(f"uid-{n}", f"runner-of-runner-{n}") for n in (1, 2, 4, 5)]
    lines = await bench.ask("SELECT why FROM transitions WHERE subject = 'session' ORDER BY pod_uid LIMIT 1")
    assert lines == [("runner runner-of-runner-1 was minted",)]


async def test_commits_at_once_and_runners_that_swap_their_jobs_wait_in_no_circle(bench: Bench):
    """The other ledger is another process: GitHub's word about a runner that was confirmed before concerns its claim and
    another's job, both of which are being committed here.
    """
    await bench.accounts(ACME, vcpus=600, memory_mb=2_000_000)
    count = 40
    async with Ledger.open(bench.dsn, clock=bench.clock, schema=bench.schema) as other:
        await asyncio.gather(*(bench.ledger.jobs.enqueue(job(n)) for n in range(1, count + 1)))
        claims = await bench.ledger.claims.claim_many(POOL, [pod(n) for n in range(1, count + 1)])
        for claim in claims[::2]:
            await bench.ledger.claims.commit(claim, f"r{claim.generation}")
        before = await _deadlocks(bench)
        await asyncio.gather(
            *(bench.ledger.claims.commit(claim, f"r{claim.generation}") for claim in claims),
            *(
                _started(other, number, f"r{claim.generation}")
                for number, claim in enumerate(reversed(claims), 1)
                if number % 2
            ),
            return_exceptions=True,
        )
        assert await _deadlocks(bench) == before


async def test_deliveries_that_are_settled_at_once_are_settled_and_one_that_was_taken_over_is_refused(bench: Bench):
    inbox = bench.ledger.deliveries
    stored = await asyncio.gather(*(inbox.store(f"d-{n}", "workflow_job", b"{}" * n) for n in range(1, 6)))
    assert all(stored)
    assert len(stored) == 5
    taken = {delivery.delivery_id: delivery for delivery in await inbox.take()}
    assert {name: len(delivery.payload) for name, delivery in taken.items()} == {f"d-{n}": 2 * n for n in range(1, 6)}
    await inbox.fail(taken["d-3"], "later")
    bench.clock.advance(30)
    (again,) = await inbox.take()
    ends = await asyncio.gather(*(inbox.settle(one, "queued") for one in taken.values()), return_exceptions=True)
    assert [type(end) for end in ends if end is not None] == [StaleDeliveryError]
    assert await inbox.backlog() == 1
    await inbox.settle(again, "queued")
    assert await inbox.backlog() == 0


async def test_the_same_deliveries_stored_by_two_processes_at_once_are_stored_once(bench: Bench):
    async with Ledger.open(bench.dsn, clock=bench.clock, schema=bench.schema) as other:
        names = [f"d-{n}" for n in range(40)]
        new = await asyncio.gather(
            *(bench.ledger.deliveries.store(name, "workflow_job", b"{}") for name in names),
            *(other.deliveries.store(name, "workflow_job", b"{}") for name in reversed(names)),
        )
    assert sum(one is not None for one in new) == len(names)


@pytest.mark.parametrize("away", ["", "\x00"])
async def test_a_delivery_that_cannot_be_stored_is_refused_alone(bench: Bench, away: str):
    inbox = bench.ledger.deliveries
    stored = await asyncio.gather(
        inbox.store("d-1", "workflow_job", b"{}"),
        inbox.store("d-2" if away else away, f"workflow_job{away}", b"{}"),
        inbox.store("d-3", "workflow_job", b"{}"),
        return_exceptions=True,
    )
    assert stored[0]
    assert stored[2]
    assert isinstance(stored[1], Exception)


async def _started(ledger: Ledger, number: int, runner_name: str) -> None:
    await ledger.jobs.started(job(number), runner_name=runner_name, started_at=START)


async def _deadlocks(bench: Bench) -> int:
    rows = await bench.ask("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return rows[0][0]
