"""Reconciliation of claims and sessions with Pods, in its numbers: one list a pass, the right end, the occupancy after it."""

from integration.runners.healing.healing_rig import MINUTE, HealingRig, runner_of
from integration.runners.ledger.rig import ACME, POOL, job


async def _pass(healing_rig: HealingRig) -> list[str]:
    report = await healing_rig.healer.once(healing_rig.heartbeat)
    assert report is not None, healing_rig.healer.last_reports
    return [heal.kind for heal in report.healed]


async def test_however_many_claims_and_sessions_there_are_pods_are_listed_once_a_pass(healing_rig: HealingRig) -> None:
    for _ in range(12):
        await healing_rig.busy()
    gone, _ = await healing_rig.busy()
    await healing_rig.vanish(gone)
    healing_rig.clock.advance(30 * MINUTE)
    healing_rig.wire.requests.clear()
    await _pass(healing_rig)
    lists = [path for method, path in healing_rig.wire.requests if method == "GET" and path.endswith("/pods")]
    assert len(lists) == 1
    assert len(healing_rig.wire.requests) == 1, "and nothing else is asked before an absence is confirmed"


async def test_a_session_ends_with_the_job_that_its_runner_really_ran(healing_rig: HealingRig) -> None:
    """Minted for one job, given another: the end of the first says nothing about when the Pod ended."""
    await healing_rig.idle()
    pod, minted_for = await healing_rig.busy(heard=False)
    other = 900_010
    await healing_rig.ledger.jobs.enqueue(job(other, ACME))
    await healing_rig.ledger.jobs.started(
        job(other, ACME), runner_name=runner_of(pod), started_at=healing_rig.clock.now()
    )
    healing_rig.clock.advance(2 * MINUTE)
    for number, runner in ((minted_for, "another-runner"), (other, None)):
        await healing_rig.ledger.jobs.completed(
            number, account_id=ACME, conclusion="success", completed_at=healing_rig.clock.now(), runner_name=runner
        )
        over = healing_rig.clock.now()
        healing_rig.clock.advance(3 * MINUTE)
    await healing_rig.vanish(pod)
    kinds: list[str] = []
    for _ in range(30):
        healing_rig.clock.advance(MINUTE)
        kinds += await _pass(healing_rig)
    assert "orphaned_runner_session" in kinds
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert (session.job_id, session.executed_job_id) == (minted_for, other)
    assert session.ended_at == over, "with the job that it ran"


async def test_a_pod_that_is_gone_stops_counting_as_occupied(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    pod, job_id = await healing_rig.busy()
    await healing_rig.ledger.jobs.completed(
        job_id, account_id=ACME, conclusion="success", completed_at=healing_rig.clock.now(), runner_name=runner_of(pod)
    )
    signals = await healing_rig.ledger.signals.of_pool(POOL)
    assert (signals.claimed, signals.occupied) == (0, 1), "the Pod is still tearing down"
    await healing_rig.vanish(pod)
    for _ in range(22):
        healing_rig.clock.advance(MINUTE)
        await _pass(healing_rig)
    signals = await healing_rig.ledger.signals.of_pool(POOL)
    assert (signals.claimed, signals.occupied) == (0, 0)


async def test_the_longest_missing_claims_go_first_and_the_overflow_is_said(healing_rig: HealingRig) -> None:
    healing_rig.start(cap=2)
    for _ in range(5):
        await healing_rig.claimed()
    gone = []
    for _ in range(4):
        pod, _ = await healing_rig.claimed()
        gone.append(pod)
    healing_rig.clock.advance(11 * MINUTE)
    for pod in gone:
        await healing_rig.vanish(pod)
        healing_rig.clock.advance(MINUTE)
        await _pass(healing_rig)
    healing_rig.clock.advance(10 * MINUTE)
    report = await healing_rig.healer.once(healing_rig.heartbeat)
    assert report is not None
    assert [heal.subject for heal in report.healed] == [pod.metadata.name for pod in gone[:2]]
    assert report.deferred == 2
