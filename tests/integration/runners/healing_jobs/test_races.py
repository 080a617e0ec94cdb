"""A heal and what GitHub says arrive at the same row together: what was heard first is seen by the other."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from integration.runners.ledger.rig import ACME, Bench, job

from paddock.runners.ledger import HeldPod, Job


async def _blocked(bench: Bench, like: str) -> None:
    async with asyncio.timeout(10):
        while not await bench.ask(
            "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s", [f"%-- {like}%"]
        ):
            await asyncio.sleep(0.01)


async def _while_a_sibling_is_given_to_its_runner(
    bench: Bench, heal: Callable[[], Awaitable[Any]], statement: str
) -> Any:
    """Runner 1 is given job 11, and the heal comes while that is being written."""
    async with await bench.connect() as rival:
        async with rival.transaction():
            await rival.execute("SELECT FROM claims WHERE pod_uid = 'uid-1' FOR UPDATE")
            heard = asyncio.create_task(bench.started(job(11), 1))
            await _blocked(bench, "claims_concerned")
            healing = asyncio.ensure_future(heal())
            await _blocked(bench, statement)
        await heard
        return await healing


@pytest.mark.parametrize("over", [True, False])
async def test_a_runner_that_is_given_a_sibling_this_very_moment_keeps_its_claim(bench: Bench, over: bool):
    await bench.accounts(ACME)
    await bench.queue(job(10, age=2), job(11, age=1))
    await bench.running(1)
    unconfirmed = bench.ledger.unconfirmed
    if over:
        await bench.completed(job(10), conclusion="cancelled")
        (claim,) = await unconfirmed.finished_claims()
        assert isinstance(claim, HeldPod)
        healed = await _while_a_sibling_is_given_to_its_runner(
            bench, lambda: unconfirmed.release_finished(claim, by="test", why="over"), "still_over"
        )
    else:
        row = await bench.ledger.jobs.get(10)
        assert isinstance(row, Job)
        healed = await _while_a_sibling_is_given_to_its_runner(
            bench, lambda: unconfirmed.put_back(row, heard=None, by="test", why="queued"), "claim_held_for_job"
        )
    assert not healed
    (held,) = await bench.ledger.claims.all()
    assert held.job_id == 11
    assert await bench.status(11) == "running"
    assert await bench.status(10) == ("cancelled" if over else "queued")


async def test_a_claim_that_is_minted_this_very_moment_is_not_stale(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    bench.clock.advance(301)
    (read,) = await bench.ledger.recovery.stale(claimed_before=bench.clock.now(), silent_since=bench.clock.now())
    async with await bench.connect() as rival:
        async with rival.transaction():
            await rival.execute("SELECT FROM claims WHERE pod_uid = 'uid-1' FOR UPDATE")
            minted = asyncio.create_task(bench.ledger.claims.commit(claim, "r-1"))
            await _blocked(bench, "commit_claim")
            healing = asyncio.create_task(bench.ledger.unconfirmed.release_unminted(read, by="test", why="stale"))
            await _blocked(bench, "still_unminted")
        await minted
        assert await healing is None
    assert await bench.status(10) == "running"


async def test_two_passes_at_once_put_a_job_back_once(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    row = await bench.ledger.jobs.get(10)
    assert row is not None
    unconfirmed = bench.ledger.unconfirmed
    done = await asyncio.gather(*(unconfirmed.put_back(row, heard=None, by="test", why="queued") for _ in range(4)))
    assert sorted(done) == [False, False, False, True]
    moves = [line.became for line in await bench.ledger.transitions.of_job(10) if line.subject == "job"]
    assert moves == ["queued", "claimed", "running", "queued"]
