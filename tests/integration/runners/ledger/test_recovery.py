"""Leaks: what the ledger can tell of them, and the guarded ways to let go."""

from datetime import timedelta

from integration.runners.ledger.rig import ACME, Bench, attempt, job, pod

from paddock.runners.ledger import Fence, HeldPod, Outcome

MINUTES_5 = timedelta(minutes=5)


async def _stale(bench: Bench) -> list[str]:
    now = bench.clock.now()
    found = await bench.ledger.recovery.stale(claimed_before=now - MINUTES_5, silent_since=now - timedelta(seconds=15))
    return [claim.pod_uid for claim in found]


async def test_stale_claims_are_old_and_unminted_and_listing_them_ends_nothing(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10, age=3), job(11, age=2), job(12, age=1))
    await bench.claimed(1)
    await bench.running(2)
    bench.clock.advance(301)
    await bench.claimed(3)
    assert await _stale(bench) == ["uid-1"]
    assert await _stale(bench) == ["uid-1"]
    assert len(await bench.ledger.claims.all()) == 3


async def test_claims_of_a_dispatcher_that_stopped_beating_are_stale_within_seconds(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10), job(11))
    dead = await bench.ledger.dispatchers.register("dispatch-a")
    alive = await bench.ledger.dispatchers.register("dispatch-b")
    await bench.ledger.claims.claim("mac-m4", pod(1), dispatcher=dead)
    await bench.ledger.claims.claim("mac-m4", pod(2), dispatcher=alive)
    assert await _stale(bench) == []
    bench.clock.advance(20)
    assert await bench.ledger.dispatchers.beat(alive)
    assert await _stale(bench) == ["uid-1"]
    assert await bench.ledger.dispatchers.forget(bench.clock.now()) == 0  # its claim still names it


async def test_a_pod_is_missing_since_its_first_absence_and_not_after_it_was_seen_again(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10, age=2), job(11, age=1))
    await bench.running(1)
    await bench.running(2)
    recovery = bench.ledger.recovery
    bench.clock.advance(700)
    old = bench.clock.now() - timedelta(seconds=600)
    assert await recovery.note_pods(["uid-2"], claimed_before=old) == 1
    bench.clock.advance(200)
    assert await recovery.note_pods(["uid-2"], claimed_before=old) == 0
    assert await recovery.note_pods(["uid-1", "uid-2"], claimed_before=old) == 1
    assert await recovery.missing(since_before=bench.clock.now()) == []
    assert await recovery.note_pods(["uid-2"], claimed_before=old) == 1
    bench.clock.advance(200)
    assert await recovery.missing(since_before=bench.clock.now() - MINUTES_5) == []  # the clock started again
    bench.clock.advance(200)
    missing = await recovery.missing(since_before=bench.clock.now() - MINUTES_5)
    assert [claim.pod_uid for claim in missing] == ["uid-1"]
    ended = await recovery.release_missing(missing, by="pod reconciliation", why="its Pod is gone")
    assert [(one.pod_uid, one.requeued) for one in ended] == [("uid-1", False)]
    assert await bench.status(10) == "running", "it was handed over: GitHub is asked before it waits again"


async def test_a_young_claim_is_not_missed(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.claimed(1)
    grace = bench.clock.now() - timedelta(seconds=600)
    assert await bench.ledger.recovery.note_pods(["uid-other"], claimed_before=grace) == 0


async def test_missing_claims_that_reappeared_or_were_replaced_are_not_released(bench: Bench):
    await bench.accounts(ACME, vcpus=60, memory_mb=500_000)
    await bench.queue(job(10, age=2), job(11, age=1))
    await bench.running(1)
    second = await bench.claimed(2)
    bench.clock.advance(1000)
    later = bench.clock.now()
    await bench.ledger.recovery.note_pods(["nobody"], claimed_before=later)
    bench.clock.advance(400)
    read = await bench.ledger.recovery.missing(since_before=bench.clock.now())
    assert len(read) == 2
    await bench.ledger.recovery.note_pods(["uid-1"], claimed_before=later)
    await bench.ledger.claims.release(second, by="test", why="replaced")
    await bench.claimed(2)
    assert await bench.ledger.recovery.release_missing(read, by="pod reconciliation", why="gone") == []
    assert len(await bench.ledger.claims.all()) == 2


async def test_a_pod_that_stopped_before_its_mint_gives_its_job_back(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.claimed(1)
    stopped = await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="controller", why="Pod stopped")
    assert [one.requeued for one in stopped.released] == [True]
    assert stopped.unsettled == ()
    assert await bench.status(10) == "queued"


async def test_a_pod_that_stopped_after_its_mint_frees_the_account_and_leaves_the_job_to_github(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    when = bench.clock.now() + timedelta(seconds=9)
    for _ in range(2):
        stopped = await bench.ledger.recovery.pod_stopped("uid-1", when, by="controller", why="Pod stopped")
        assert [one.job_id for one in stopped.unsettled] == [10]
    session = await bench.ledger.sessions.of_pod("uid-1")
    assert session is not None
    assert session.ended_at == when
    assert await bench.ledger.claims.all() == []
    assert await bench.status(10) == "running"


async def test_a_stop_report_about_a_pod_that_never_held_anything_is_fine(bench: Bench):
    stopped = await bench.ledger.recovery.pod_stopped("uid-9", bench.clock.now(), by="controller", why="Pod stopped")
    assert (stopped.session_ended, stopped.released, stopped.unsettled) == (False, (), ())


async def test_of_two_reports_of_an_end_the_earlier_moment_counts_and_none_before_the_start(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    await bench.running(1)
    sessions = bench.ledger.sessions
    start = bench.clock.now()
    late, early = start + timedelta(seconds=90), start + timedelta(seconds=60)
    assert await sessions.end("uid-1", late, by="a", why="first report")
    assert await sessions.end("uid-1", early, by="b", why="second report")
    assert not await sessions.end("uid-1", late, by="a", why="repeat")
    assert await sessions.end_absent({"uid-1": start}, by="c", why="absent") == 0  # an accurate report is there
    session = await sessions.of_pod("uid-1")
    assert session is not None
    assert (session.ended_at, session.end_reason) == (early, "first report")
    assert await sessions.end("uid-1", start - timedelta(days=1), by="d", why="a wrong clock")
    session = await sessions.of_pod("uid-1")
    assert session is not None
    assert session.ended_at == start


async def test_a_fenced_pod_wins_no_claim_until_the_fence_is_lifted(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    fence = await bench.ledger.fences.raise_fence(pod(1), by="stamped Pods", why="stamped, no claim, no session")
    assert isinstance(fence, Fence)
    assert (await bench.claim(1)).outcome is Outcome.POD_FENCED
    assert (await attempt(bench.ledger, 10, pod(1))).outcome is Outcome.POD_FENCED
    assert await bench.status(10) == "queued"
    assert await bench.ledger.fences.lift(fence, by="stamped Pods", why="it works after all")
    assert not await bench.ledger.fences.lift(fence, by="stamped Pods", why="again")
    await bench.claimed(1)


async def test_a_pod_with_a_claim_cannot_be_fenced(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    held = await bench.ledger.fences.raise_fence(pod(1), by="stamped Pods", why="stamped")
    assert isinstance(held, HeldPod)
    assert held.generation == claim.generation


async def test_a_reaper_that_died_finds_its_fence_standing(bench: Bench):
    first = await bench.ledger.fences.raise_fence(pod(1), by="stamped Pods", why="stamped")
    bench.clock.advance(60)
    assert await bench.ledger.fences.raise_fence(pod(1), by="stamped Pods", why="next pass") == first
    assert await bench.ledger.fences.standing() == [first]
    assert await bench.ledger.fences.of_pod("uid-1") == first


async def test_a_fence_counts_for_nobody_and_is_no_claim(bench: Bench):
    await bench.accounts(ACME, vcpus=6, memory_mb=14_336)
    await bench.queue(job(10))
    fence = await bench.ledger.fences.raise_fence(pod(1), by="stamped Pods", why="stamped")
    assert isinstance(fence, Fence)
    assert await bench.ledger.claims.all() == []
    assert await bench.ledger.claims.of_pod("uid-1") is None
    assert await bench.ledger.recovery.note_pods([], claimed_before=bench.clock.now() + timedelta(days=1)) == 0
    stopped = await bench.ledger.recovery.pod_stopped("uid-1", bench.clock.now(), by="controller", why="Pod stopped")
    assert stopped.released == ()
    assert await bench.ledger.fences.of_pod("uid-1") == fence
    await bench.claimed(2)
