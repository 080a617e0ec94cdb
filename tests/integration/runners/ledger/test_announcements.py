"""What GitHub says about jobs: in any order, repeated, late, or not at all."""

import itertools
from datetime import timedelta

import pytest
from integration.runners.ledger.rig import ACME, BOLT, POOL, Bench, job, pod
from msgspec.structs import replace

from paddock.runners.ledger import Execution, InvalidEntryError, Moved, Outcome


async def test_an_announced_job_waits_and_a_repeat_leaves_it_as_it_is(bench: Bench):
    await bench.accounts(ACME)
    assert await bench.ledger.jobs.enqueue(job(10)) is Moved.QUEUED
    before = await bench.ledger.jobs.get(10)
    bench.clock.advance(60)
    assert await bench.ledger.jobs.enqueue(job(10)) is Moved.KNOWN
    assert await bench.ledger.jobs.get(10) == before


async def test_a_late_announcement_does_not_resurrect_a_finished_job(bench: Bench):
    await bench.accounts(ACME)
    assert await bench.completed(job(10)) is Moved.COMPLETED
    assert await bench.ledger.jobs.enqueue(job(10)) is Moved.FINISHED
    assert await bench.status(10) == "completed"
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_a_completion_alone_keeps_a_job_of_no_known_pool_from_being_queued(bench: Bench):
    await bench.accounts(ACME)
    await bench.ledger.jobs.completed(
        10, account_id=ACME, conclusion="success", completed_at=bench.clock.now(), runner_name=None
    )
    assert await bench.ledger.jobs.get(10) is None
    assert await bench.ledger.jobs.enqueue(job(10)) is Moved.FINISHED
    assert await bench.ledger.jobs.get(10) is None


async def test_the_first_word_about_the_end_is_the_last(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    assert await bench.completed(job(10), conclusion="failure") is Moved.COMPLETED
    assert await bench.completed(job(10), conclusion="success") is Moved.FINISHED
    row = await bench.ledger.jobs.get(10)
    end = await bench.ledger.jobs.completion(10)
    assert row is not None
    assert end is not None
    assert (row.conclusion, end.conclusion) == ("failure", "failure")


@pytest.mark.parametrize(("conclusion", "status"), [("cancelled", "cancelled"), ("skipped", "completed")])
async def test_only_cancelled_is_cancelled(bench: Bench, conclusion: str, status: str):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.completed(job(10), conclusion=conclusion)
    assert await bench.status(10) == status


async def test_every_order_of_announcements_with_repeats_ends_the_same(bench: Bench):
    """All orders of queued, in_progress and completed, each once or twice, while a Pod may claim at any point."""
    await bench.accounts(ACME, vcpus=100_000, memory_mb=1_000_000_000)
    orders = sorted(set(itertools.permutations(["queued", "in_progress", "completed", "queued", "completed"])))
    ends = set()
    for number, order in enumerate(orders, start=1):
        one = job(number)
        for word in order:
            if word == "queued":
                await bench.ledger.jobs.enqueue(one)
            elif word == "in_progress":
                await bench.started(one, f"foreign-{number}")
            else:
                await bench.completed(one, f"foreign-{number}")
        row = await bench.ledger.jobs.get(number)
        assert row is not None
        ends.add((row.status, row.conclusion, row.runner_name == f"runner-foreign-{number}-mint"))
        assert (await bench.claim(f"after-{number}")).outcome is Outcome.EMPTY, order
    assert len(orders) == 30
    assert ends == {("completed", "success", True)}


async def test_every_order_of_announcements_around_a_claim_of_ours_frees_the_pod_and_the_account(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    words = ["queued", "in_progress", "completed", "in_progress", "completed"]
    for number, order in enumerate(sorted(set(itertools.permutations(words))), start=1):
        one = job(number)
        await bench.ledger.jobs.enqueue(one)
        await bench.running(number)
        for word in order:
            if word == "queued":
                assert await bench.ledger.jobs.enqueue(one) is not Moved.QUEUED
            elif word == "in_progress":
                await bench.started(one, number)
            else:
                await bench.completed(one, number)
        assert await bench.status(number) == "completed", order
        assert await bench.ledger.claims.all() == [], order


async def test_a_job_that_runs_before_it_is_announced_is_not_handed_out(bench: Bench):
    await bench.accounts(ACME)
    assert await bench.started(job(10), "foreign") is Execution.UNKNOWN_RUNNER
    assert await bench.ledger.jobs.enqueue(job(10)) is Moved.KNOWN
    assert await bench.status(10) == "running"
    assert (await bench.claim(1)).outcome is Outcome.EMPTY


async def test_execution_of_the_job_that_was_claimed_is_matched(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    assert await bench.started(job(10), 1) is Execution.MATCHED
    held = await bench.ledger.claims.of_pod("uid-1")
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert held is not None
    assert session is not None
    assert (held.executing_since, session.executed_job_id) == (bench.clock.now(), 10)


async def test_a_runner_that_is_given_another_job_puts_its_own_back_at_once(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10, age=9), job(11))
    await bench.running(1)
    assert await bench.started(job(11), 1) is Execution.MISMATCH
    held = await bench.ledger.claims.of_pod("uid-1")
    assert held is not None
    assert held.job_id == 11
    assert (await bench.status(10), await bench.status(11)) == ("queued", "running")
    assert (await bench.claimed(2)).job_id == 10


async def test_two_runners_that_swap_jobs_end_with_both_jobs_done_and_both_pods_free(bench: Bench):
    await bench.accounts(ACME)
    a, b = job(10, age=9), job(11)
    await bench.queue(a, b)
    await bench.running(1)  # minted for a
    await bench.running(2)  # minted for b
    assert await bench.started(b, 1) is Execution.MISMATCH
    displaced = await bench.ledger.claims.of_pod("uid-2")
    assert displaced is not None
    assert (displaced.job_id, displaced.state) == (None, "running")
    assert await bench.status(10) == "queued"
    assert await bench.started(a, 2) is Execution.MISMATCH
    assert (await bench.status(10), await bench.status(11)) == ("running", "running")
    await bench.completed(b, 1)
    await bench.completed(a, 2)
    assert await bench.ledger.claims.all() == []


async def test_completion_frees_the_executor_and_not_the_runner_that_was_minted_for_the_job(bench: Bench):
    await bench.accounts(ACME)
    j1, j2 = job(10, age=9), job(11)
    await bench.queue(j1, j2)
    await bench.running("x")  # minted for j1
    await bench.running("b")  # minted for j2
    await bench.started(j1, "b")
    await bench.started(j2, "x")
    await bench.completed(j2, "x")
    assert [claim.pod_uid for claim in await bench.ledger.claims.all()] == ["uid-b"]
    assert await bench.status(10) == "running"


async def test_completion_alone_tells_that_the_job_the_runner_was_minted_for_still_waits(bench: Bench):
    await bench.accounts(ACME)
    mine, other = job(10, age=9), job(11)
    await bench.queue(mine, other)
    await bench.running(1)
    await bench.completed(other, 1)  # its in_progress was lost
    assert (await bench.status(10), await bench.status(11)) == ("queued", "completed")
    assert await bench.ledger.claims.all() == []


async def test_a_job_cancelled_while_it_waited_frees_no_runner(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    await bench.completed(job(10), conclusion="cancelled")
    assert [claim.pod_uid for claim in await bench.ledger.claims.all()] == ["uid-1"]


async def test_a_runner_name_means_something_only_within_its_account(bench: Bench):
    await bench.accounts(ACME, BOLT)
    await bench.queue(job(10), job(20, BOLT))
    claim = await bench.claimed(1)
    await bench.ledger.claims.commit(claim, "same-name")
    stranger = job(20, BOLT) if claim.account_id == ACME else job(10)
    outcome = await bench.ledger.jobs.started(stranger, runner_name="same-name", started_at=bench.clock.now())
    assert outcome is Execution.UNKNOWN_RUNNER
    await bench.ledger.jobs.completed(
        stranger.job_id,
        account_id=stranger.account_id,
        conclusion="success",
        completed_at=bench.clock.now(),
        runner_name="same-name",
    )
    assert [held.pod_uid for held in await bench.ledger.claims.all()] == ["uid-1"]


async def test_execution_heard_after_the_end_changes_nothing_but_the_session(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    await bench.completed(job(10), 1)
    assert await bench.started(job(10), 1) is Execution.FINISHED
    assert await bench.status(10) == "completed"
    assert await bench.ledger.claims.all() == []


async def test_a_claim_before_its_mint_loses_the_job_that_somebody_else_runs(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    assert await bench.started(job(10), "foreign") is Execution.UNKNOWN_RUNNER
    ended = await bench.ledger.claims.release(claim, by="dispatch", why="the job is gone")
    assert not ended.requeued
    assert await bench.status(10) == "running"


async def test_the_session_learns_the_window_in_which_the_job_really_ran(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    bench.clock.advance(5)
    await bench.started(job(10), 1)
    bench.clock.advance(60)
    await bench.completed(job(10), 1)
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert session.job_started_at is not None
    assert session.job_ended_at is not None
    assert session.job_ended_at - session.job_started_at == timedelta(seconds=60)
    assert session.ended_at is None  # the Pod is still tearing down
    assert [one.pod_uid for one in await bench.ledger.sessions.of_job(10)] == ["uid-1"]


async def test_proof_from_github_settles_a_job_whose_end_was_never_announced(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    settle = bench.ledger.jobs.settle
    await settle(
        10, conclusion="success", runner_name="runner-1-mint", by="orphaned runners", why="GitHub says completed"
    )
    assert await bench.status(10) == "completed"
    assert await bench.ledger.claims.all() == []
    await bench.ledger.jobs.settle(10, conclusion="failure", by="orphaned runners", why="again")
    end = await bench.ledger.jobs.completion(10)
    assert end is not None
    assert end.conclusion == "success"
    with pytest.raises(InvalidEntryError, match="nothing to settle"):
        await bench.ledger.jobs.settle(404, conclusion="success", by="orphaned runners", why="unknown")


async def test_a_settled_job_that_no_runner_took_leaves_its_claim_to_healing(bench: Bench):
    """Its runner was minted and may be online still: a free slot would be one runner more than the limit allows."""
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.running(1)
    await bench.ledger.jobs.settle(10, conclusion="cancelled", by="orphaned runners", why="GitHub says completed")
    assert await bench.status(10) == "cancelled"
    assert [held.generation for held in await bench.ledger.claims.all()] == [claim.generation]


async def test_a_running_job_whose_claim_is_gone_is_put_back_by_the_generation_that_was_read(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.running(1)
    stopped = await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="controller", why="Pod stopped")
    (left,) = stopped.unsettled
    assert (left.job_id, left.generation) == (10, claim.generation)
    put_back = bench.ledger.unconfirmed.put_back
    other = replace(left, generation=claim.generation + 1)
    assert not await put_back(other, heard=None, by="test", why="another generation")
    assert await put_back(left, heard=None, by="test", why="GitHub says queued")
    assert (await bench.claimed(2)).job_id == 10
    assert not await put_back(left, heard=None, by="test", why="late")


async def test_scans_give_old_queued_and_running_jobs_oldest_first(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10, age=7200), job(11, age=5000), job(12))
    now = bench.clock.now()
    found = await bench.ledger.jobs.queued(before=now - timedelta(hours=1), after=now - timedelta(days=7))
    assert [one.job_id for one in found] == [10, 11]
    await bench.running(1)
    assert await bench.ledger.jobs.running(started_before=now) == []
    assert [one.job_id for one in await bench.ledger.jobs.running(started_before=now + timedelta(seconds=1))] == [10]
    assert (await bench.ledger.claims.claim(POOL, pod(9))).job_id == 11
