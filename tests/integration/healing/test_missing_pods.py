"""Claims and sessions whose Pod is gone: ended on a watch's word at once, or after five minutes of complete lists."""

from datetime import timedelta

import httpx2
import pytest
from integration.healing.ward import MINUTE, Ward, as_ledger, runner_of
from integration.ledger.rig import ACME

from paddock.kube.builtin import Pod
from paddock.runners.healing.worker import Report


async def _pass(ward: Ward) -> Report:
    report = await ward.healer.once(ward.presence)
    assert report is not None, ward.healer.last_reports
    return report


async def _passes(ward: Ward, minutes: int) -> list[str]:
    """Kinds that were healed in that many passes, a minute apart."""
    kinds: list[str] = []
    for _ in range(minutes):
        ward.clock.advance(MINUTE)
        kinds += [heal.kind for heal in (await _pass(ward)).healed]
    return kinds


async def test_a_claim_whose_pod_is_missing_for_five_minutes_is_released_and_its_job_waits_again(ward: Ward) -> None:
    await ward.idle()
    pod, claim = await ward.claimed()
    await ward.vanish(pod)
    ward.clock.advance(10 * MINUTE)
    assert await _passes(ward, 5) == [], "the first absence only marks it"
    assert await _passes(ward, 2) == ["pod_missing_claim"]
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is None
    assert await ward.bench.status(claim.job_id) == "queued"
    assert (await ward.kinds())["pod_missing_claim"] == 1


async def test_the_job_of_a_missing_pod_is_asked_about_before_it_waits_again(ward: Ward) -> None:
    """Deleted by force, a Pod leaves its machine running: GitHub alone knows whether the job still does."""
    await ward.idle()
    pod, job_id = await ward.busy()
    await ward.vanish(pod)
    ward.clock.advance(10 * MINUTE)
    assert await _passes(ward, 7) == ["pod_missing_claim"]
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is None
    assert await ward.bench.status(job_id) == "running"
    assert ward.asked == [([job_id], pod.metadata.uid)]


async def test_young_claims_need_no_cluster(ward: Ward) -> None:
    pod, _ = await ward.claimed()
    await ward.vanish(pod)
    ward.wire.requests.clear()
    await _pass(ward)
    assert ward.wire.requests == []


@pytest.mark.parametrize("broken", ["failing", "empty"])
async def test_a_list_that_fails_or_is_empty_changes_nothing(ward: Ward, broken: str) -> None:
    pod, _ = await ward.claimed()
    await ward.vanish(pod)
    if broken == "failing":
        ward.wire.refuse = lambda _: httpx2.Response(503)
    for _ in range(20):
        ward.clock.advance(MINUTE)
        await ward.healer.once(ward.presence)
    claim = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.missing_since is None, "not even the absence is remembered"


async def test_most_pods_missing_at_once_is_a_wrong_list(ward: Ward) -> None:
    await ward.idle()
    for _ in range(12):
        pod, _ = await ward.claimed()
        await ward.vanish(pod)
    ward.clock.advance(20 * MINUTE)
    assert await _passes(ward, 10) == []
    assert any("wrong read" in sentence for sentence in ward.healer.last_reports["presence"].refused)
    assert all(claim.missing_since is None for claim in await ward.ledger.claims.all())


async def test_a_pod_that_is_seen_again_starts_its_time_anew(ward: Ward) -> None:
    await ward.idle()
    pod, _ = await ward.claimed()
    ward.clock.advance(11 * MINUTE)
    hidden = {"on": True}

    def hide(request: httpx2.Request) -> httpx2.Response | None:
        if hidden["on"] and request.method == "GET" and request.url.path.endswith("/pods"):
            request.url = request.url.copy_merge_params({"fieldSelector": f"metadata.name!={pod.metadata.name}"})
        return None

    ward.wire.refuse = hide
    assert await _passes(ward, 4) == []
    claim = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.missing_since is not None
    hidden["on"] = False
    assert await _passes(ward, 1) == []
    claim = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.missing_since is None
    hidden["on"] = True
    assert await _passes(ward, 5) == []
    # Even at the end of its time, the very Pod is asked for: it is there, whatever the lists say.
    assert await _passes(ward, 5) == []
    assert any("is there" in sentence for sentence in ward.healer.last_reports["presence"].refused)
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is not None


async def test_at_most_twenty_five_claims_are_released_in_a_pass(ward: Ward) -> None:
    for _ in range(28):
        await ward.claimed()
    gone = [(await ward.claimed())[0] for _ in range(27)]
    for pod in gone:
        await ward.vanish(pod)
    ward.clock.advance(11 * MINUTE)
    await _pass(ward)
    ward.clock.advance(6 * MINUTE)
    first = await _pass(ward)
    assert (len(first.healed), first.deferred) == (25, 2)
    assert len((await _pass(ward)).healed) == 2
    assert ward.counted("paddock_heal_refused_total", reason="cap") == 2


async def test_report_only_releases_nothing(ward: Ward) -> None:
    ward.start(report_only=frozenset({"pod_missing_claim", "orphaned_runner_session"}))
    await ward.idle()
    pod, _ = await ward.busy()
    await ward.vanish(pod)
    assert await _passes(ward, 30) == []
    kinds = {heal.kind for heal in ward.healer.last_reports["presence"].reported}
    assert kinds == {"pod_missing_claim", "orphaned_runner_session"}
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is not None


async def test_a_session_without_pod_ends_when_its_job_did(ward: Ward) -> None:
    await ward.idle()
    pod, job_id = await ward.busy()
    ward.clock.advance(4 * MINUTE)
    over = ward.clock.now()
    await ward.ledger.jobs.completed(
        job_id, account_id=ACME, conclusion="success", completed_at=over, runner_name=runner_of(pod)
    )
    await ward.vanish(pod)
    assert await _passes(ward, 30) == ["orphaned_runner_session"]
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == over, "not when it was noticed"


async def test_a_session_that_nobody_knows_the_end_of_lasts_six_hours_at_most(ward: Ward) -> None:
    await ward.idle()
    pod, _ = await ward.busy()
    await ward.vanish(pod)
    ward.clock.advance(24 * 3600)
    kinds = await _passes(ward, 8)
    assert "orphaned_runner_session" in kinds
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == session.started_at + timedelta(hours=6)


async def test_a_report_that_came_meanwhile_knows_better(ward: Ward) -> None:
    await ward.idle()
    pod, _ = await ward.busy()
    ward.clock.advance(MINUTE)
    told = ward.clock.now()
    await ward.ledger.recovery.pod_stopped(pod.metadata.uid, told, by="operator", why="ended")
    await ward.vanish(pod)
    assert await _passes(ward, 30) == []
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == told


# At once, on the word of a watch


async def test_a_pod_that_a_watch_saw_go_is_healed_at_once(ward: Ward) -> None:
    pod, job_id = await ward.busy()
    await ward.vanish(pod)
    await ward.healer.pod_gone(pod.metadata.uid)
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is None
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == ward.clock.now()
    assert ward.asked == [([job_id], pod.metadata.uid)], "GitHub is asked about what ran on it"
    assert await ward.kinds() == {"pod_missing_claim": 1, "orphaned_runner_session": 1}
    await ward.healer.pod_gone(pod.metadata.uid)
    assert await ward.kinds() == {"pod_missing_claim": 1, "orphaned_runner_session": 1}, "twice is once"


async def test_a_job_that_was_never_minted_waits_again_when_its_pod_goes(ward: Ward) -> None:
    pod, claim = await ward.claimed()
    await ward.vanish(pod)
    await ward.healer.pod_gone(pod.metadata.uid)
    assert await ward.bench.status(claim.job_id) == "queued"


async def test_a_fence_is_lifted_when_its_pod_goes(ward: Ward) -> None:
    pod = await ward.idle()
    await ward.ledger.fences.raise_fence(as_ledger(pod), by="operator", why="scale down")
    await ward.vanish(pod)
    await ward.healer.pod_gone(pod.metadata.uid)
    assert await ward.ledger.fences.standing() == []


async def test_a_watch_that_is_mistaken_ends_nothing(ward: Ward) -> None:
    pod, _ = await ward.busy()
    await ward.healer.pod_gone(pod.metadata.uid)
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is not None
    assert await ward.kinds() == {}


async def test_a_watch_that_cannot_be_checked_leaves_it_to_the_sweep(ward: Ward) -> None:
    pod, _ = await ward.busy()
    await ward.vanish(pod)
    ward.wire.refuse = lambda _: httpx2.Response(503)
    await ward.healer.pod_gone(pod.metadata.uid)
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is not None
    assert ward.counted("paddock_heal_failed_total", worker="presence") == 1


async def test_pods_that_nobody_heard_of_cost_nothing(ward: Ward) -> None:
    pod = await ward.idle()
    ward.wire.requests.clear()
    await ward.healer.pod_gone(pod.metadata.uid)
    assert ward.wire.requests == []
    assert isinstance(pod, Pod)
