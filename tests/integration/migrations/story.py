"""One job after another through everything that dispatch and healing ask of the ledger, by its public methods alone."""

from datetime import timedelta

from integration.runners.ledger.rig import ACME, POOL, START, Bench, job, pod

from paddock.runners.ledger import Outcome

__all__ = ["story"]


async def story(bench: Bench, number: int) -> None:
    """Needs a ledger in which `number` was not told before. Asserts what a dispatcher relies on."""
    ledger, clock = bench.ledger, bench.clock
    now, long_ago = clock.now(), START - timedelta(days=400)
    await bench.accounts(ACME)
    account = await ledger.accounts.get(ACME)
    assert account is not None
    assert await ledger.accounts.of_installation(1000 + ACME) == account
    assert await ledger.accounts.of_login(account.login) == account
    mine = await ledger.dispatchers.register(f"dispatch-{number}")
    assert await ledger.dispatchers.beat(mine)

    assert await ledger.deliveries.store(f"delivery-{number}", "workflow_job", b"{}")
    taken = await ledger.deliveries.take()
    assert taken
    for delivery in taken:
        await ledger.deliveries.settle(delivery, "done")
    assert await ledger.deliveries.backlog() == 0
    assert await ledger.deliveries.newest() is not None
    assert await ledger.deliveries.known([f"delivery-{number}"])

    # One job runs and ends, the second is put back into the queue, the third is never minted.
    first, second, third = (job(10 * number + offset) for offset in (1, 2, 3))
    await bench.queue(first)
    claim = await ledger.claims.claim(POOL, pod(f"{number}-a"), dispatcher=mine)
    assert claim.outcome is Outcome.CLAIMED
    await ledger.claims.commit(claim, f"runner-{number}-a-mint")
    await bench.started(first, f"{number}-a")
    await ledger.progress.note(pod(f"{number}-a").uid, "1 running")
    assert await ledger.progress.of_pods([pod(f"{number}-a").uid])
    assert await ledger.jobs.running(started_before=now + timedelta(hours=1))
    assert await ledger.sessions.open()
    await bench.completed(first, f"{number}-a")
    assert await ledger.jobs.completion(first.job_id) is not None
    await ledger.sessions.end(pod(f"{number}-a").uid, now, by="test", why="the Pod ended")
    assert await ledger.sessions.of_pod(pod(f"{number}-a").uid) is not None
    assert await ledger.sessions.of_job(first.job_id)
    assert await ledger.unconfirmed.sessions([pod(f"{number}-a").uid])
    assert await ledger.unconfirmed.sessions_by_runner([ACME], [f"runner-{number}-a-mint"])

    await bench.queue(second)
    claim = await bench.claimed(f"{number}-b")
    assert await ledger.claims.of_pod(pod(f"{number}-b").uid) is not None
    assert await ledger.claims.all()
    ended = await ledger.claims.release(claim, by="test", why="the mint was refused")
    assert ended.requeued
    assert await ledger.jobs.queued(before=now + timedelta(hours=1), after=long_ago)
    assert await ledger.overview.queue()
    await bench.running(f"{number}-c")
    assert await bench.status(second.job_id) == "running"
    await bench.completed(second, f"{number}-c", "failure")
    await ledger.recovery.pod_stopped(pod(f"{number}-c").uid, now, by="test", why="the Pod ended")

    await bench.queue(third)
    claim = await bench.claimed(f"{number}-d")
    await ledger.claims.mint_failed(claim, by="test", why="GitHub refused", scope="repository")
    await bench.completed(third, None, "cancelled")

    fence = await ledger.fences.raise_fence(pod(f"{number}-e"), by="test", why="drained")
    assert await ledger.fences.of_pod(pod(f"{number}-e").uid) == fence
    assert await ledger.fences.standing()
    for one in await ledger.fences.standing():
        await ledger.fences.lift(one, by="test", why="the Pod is gone")

    await ledger.recovery.stale(claimed_before=now, silent_since=now)
    await ledger.recovery.note_pods([], claimed_before=now)
    await ledger.recovery.missing(since_before=now)
    about = {"pod_uid": pod(f"{number}-e").uid, "job_id": third.job_id}
    await ledger.heals.intend("LeakedPod", f"runner-{number}-e", "is deleted", **about)
    assert await ledger.heals.intended()
    await ledger.heals.record("LeakedPod", f"runner-{number}-e", "was deleted", **about)
    assert await ledger.heals.newest()
    await ledger.heals.count_by_kind(long_ago)
    await ledger.limits.usage()
    await ledger.signals.of_pool(POOL)
    await ledger.overview.summary()
    await ledger.overview.running()
    assert await ledger.overview.recent()
    await ledger.overview.latency()
    assert await ledger.overview.accounts()
    assert await ledger.transitions.of_job(first.job_id)
    assert await ledger.transitions.of_pod(pod(f"{number}-a").uid)
    assert await ledger.transitions.newest()
    await ledger.transitions.forget(long_ago)
    await ledger.history.forget_jobs(long_ago)
    await ledger.history.forget_sessions(long_ago)
    await ledger.deliveries.forget(long_ago)
    await ledger.progress.forget(long_ago)
    clock.advance(3600)  # whoever was left alone because of a failed mint is served again
