"""Reconciliation of claims and sessions with Pods, in its numbers: one list a pass, the right end, the occupancy after it."""

from integration.healing.ward import MINUTE, Ward, runner_of
from integration.ledger.rig import ACME, POOL, job


async def _pass(ward: Ward) -> list[str]:
    report = await ward.healer.once(ward.presence)
    assert report is not None, ward.healer.last_reports
    return [heal.kind for heal in report.healed]


async def test_however_many_claims_and_sessions_there_are_pods_are_listed_once_a_pass(ward: Ward) -> None:
    for _ in range(12):
        await ward.busy()
    gone, _ = await ward.busy()
    await ward.vanish(gone)
    ward.clock.advance(30 * MINUTE)
    ward.wire.requests.clear()
    await _pass(ward)
    lists = [path for method, path in ward.wire.requests if method == "GET" and path.endswith("/pods")]
    assert len(lists) == 1
    assert len(ward.wire.requests) == 1, "and nothing else is asked before an absence is confirmed"


async def test_a_session_ends_with_the_job_that_its_runner_really_ran(ward: Ward) -> None:
    """Minted for one job, given another: the end of the first says nothing about when the Pod ended."""
    await ward.idle()
    pod, minted_for = await ward.busy(heard=False)
    other = 900_010
    await ward.ledger.jobs.enqueue(job(other, ACME))
    await ward.ledger.jobs.started(job(other, ACME), runner_name=runner_of(pod), started_at=ward.clock.now())
    ward.clock.advance(2 * MINUTE)
    for number, runner in ((minted_for, "another-runner"), (other, None)):
        await ward.ledger.jobs.completed(
            number, account_id=ACME, conclusion="success", completed_at=ward.clock.now(), runner_name=runner
        )
        over = ward.clock.now()
        ward.clock.advance(3 * MINUTE)
    await ward.vanish(pod)
    kinds: list[str] = []
    for _ in range(30):
        ward.clock.advance(MINUTE)
        kinds += await _pass(ward)
    assert "orphaned_runner_session" in kinds
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert (session.job_id, session.executed_job_id) == (minted_for, other)
    assert session.ended_at == over, "with the job that it ran"


async def test_a_pod_that_is_gone_stops_counting_as_occupied(ward: Ward) -> None:
    await ward.idle()
    pod, job_id = await ward.busy()
    await ward.ledger.jobs.completed(
        job_id, account_id=ACME, conclusion="success", completed_at=ward.clock.now(), runner_name=runner_of(pod)
    )
    signals = await ward.ledger.signals.of_pool(POOL)
    assert (signals.claimed, signals.occupied) == (0, 1), "the Pod is still tearing down"
    await ward.vanish(pod)
    for _ in range(22):
        ward.clock.advance(MINUTE)
        await _pass(ward)
    signals = await ward.ledger.signals.of_pool(POOL)
    assert (signals.claimed, signals.occupied) == (0, 0)


async def test_the_longest_missing_claims_go_first_and_the_overflow_is_said(ward: Ward) -> None:
    ward.start(cap=2)
    for _ in range(5):
        await ward.claimed()
    gone = []
    for _ in range(4):
        pod, _ = await ward.claimed()
        gone.append(pod)
    ward.clock.advance(11 * MINUTE)
    for pod in gone:
        await ward.vanish(pod)
        ward.clock.advance(MINUTE)
        await _pass(ward)
    ward.clock.advance(10 * MINUTE)
    report = await ward.healer.once(ward.presence)
    assert report is not None
    assert [heal.subject for heal in report.healed] == [pod.metadata.name for pod in gone[:2]]
    assert report.deferred == 2
