"""Claims and sessions whose Pod is gone: ended on a watch's word at once, or after five minutes of complete lists."""

from datetime import timedelta

import httpx2
import pytest
from integration.runners.healing.healing_rig import MINUTE, HealingRig, as_ledger, runner_of
from integration.runners.ledger.rig import ACME

from paddock.kube.builtin import Pod
from paddock.runners.healing.worker import Report


async def _pass(healing_rig: HealingRig) -> Report:
    report = await healing_rig.healer.once(healing_rig.heartbeat)
    assert report is not None, healing_rig.healer.last_reports
    return report


async def _passes(healing_rig: HealingRig, minutes: int) -> list[str]:
    """Kinds that were healed in that many passes, a minute apart."""
    kinds: list[str] = []
    for _ in range(minutes):
        healing_rig.clock.advance(MINUTE)
        kinds += [heal.kind for heal in (await _pass(healing_rig)).healed]
    return kinds


async def test_a_claim_whose_pod_is_missing_for_five_minutes_is_released_and_its_job_waits_again(
    healing_rig: HealingRig,
) -> None:
    await healing_rig.idle()
    pod, claim = await healing_rig.claimed()
    await healing_rig.vanish(pod)
    healing_rig.clock.advance(10 * MINUTE)
    assert await _passes(healing_rig, 5) == [], "the first absence only marks it"
    assert await _passes(healing_rig, 2) == ["pod_missing_claim"]
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None
    assert await healing_rig.bench.status(claim.job_id) == "queued"
    assert (await healing_rig.kinds())["pod_missing_claim"] == 1


async def test_the_job_of_a_missing_pod_is_asked_about_before_it_waits_again(healing_rig: HealingRig) -> None:
    """Deleted by force, a Pod leaves its machine running: GitHub alone knows whether the job still does."""
    await healing_rig.idle()
    pod, job_id = await healing_rig.busy()
    await healing_rig.vanish(pod)
    healing_rig.clock.advance(10 * MINUTE)
    assert await _passes(healing_rig, 7) == [], "its runner is busy: the slot is rightly held"
    healing_rig.row(pod, online=False)
    assert await _passes(healing_rig, 1) == ["pod_missing_claim"]
    assert not healing_rig.listed(pod), "it may come back, so that it was unregistered first"
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None
    assert await healing_rig.bench.status(job_id) == "running"
    assert healing_rig.asked == [([job_id], pod.metadata.uid)]


async def test_young_claims_need_no_cluster(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.claimed()
    await healing_rig.vanish(pod)
    healing_rig.wire.requests.clear()
    await _pass(healing_rig)
    assert healing_rig.wire.requests == []


@pytest.mark.parametrize("broken", ["failing", "empty"])
async def test_a_list_that_fails_or_is_empty_changes_nothing(healing_rig: HealingRig, broken: str) -> None:
    pod, _ = await healing_rig.claimed()
    await healing_rig.vanish(pod)
    if broken == "failing":
        healing_rig.wire.refuse = lambda _: httpx2.Response(503)
    for _ in range(4):
        healing_rig.clock.advance(5 * MINUTE)
        await healing_rig.healer.once(healing_rig.heartbeat)
    claim = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.missing_since is None, "not even the absence is remembered"


async def test_most_pods_missing_at_once_is_a_wrong_list(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    for _ in range(12):
        pod, _ = await healing_rig.claimed()
        await healing_rig.vanish(pod)
    healing_rig.clock.advance(20 * MINUTE)
    assert await _passes(healing_rig, 10) == []
    assert any("wrong read" in sentence for sentence in healing_rig.healer.last_reports["presence"].refused)
    assert all(claim.missing_since is None for claim in await healing_rig.ledger.claims.all())


async def test_a_pod_that_is_seen_again_starts_its_time_anew(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    pod, _ = await healing_rig.claimed()
    healing_rig.clock.advance(11 * MINUTE)
    hidden = {"on": True}

    def hide(request: httpx2.Request) -> httpx2.Response | None:
        if hidden["on"] and request.method == "GET" and request.url.path.endswith("/pods"):
            request.url = request.url.copy_merge_params({"fieldSelector": f"metadata.name!={pod.metadata.name}"})
        return None

    healing_rig.wire.refuse = hide
    assert await _passes(healing_rig, 4) == []
    claim = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.missing_since is not None
    hidden["on"] = False
    assert await _passes(healing_rig, 1) == []
    claim = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert claim.missing_since is None
    hidden["on"] = True
    assert await _passes(healing_rig, 5) == []
    # Even at the end of its time, the very Pod is asked for: it is there, whatever the lists say.
    assert await _passes(healing_rig, 5) == []
    assert any("is there" in sentence for sentence in healing_rig.healer.last_reports["presence"].refused)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is not None


async def test_at_most_twenty_five_claims_are_released_in_a_pass(healing_rig: HealingRig) -> None:
    for _ in range(28):
        await healing_rig.claimed()
    gone = [(await healing_rig.claimed())[0] for _ in range(27)]
    for pod in gone:
        await healing_rig.vanish(pod)
    healing_rig.clock.advance(11 * MINUTE)
    await _pass(healing_rig)
    healing_rig.clock.advance(6 * MINUTE)
    first = await _pass(healing_rig)
    assert (len(first.healed), first.deferred) == (25, 2)
    assert len((await _pass(healing_rig)).healed) == 2
    assert healing_rig.counted("paddock_heal_refused_total", reason="cap") == 2


async def test_a_claim_that_is_rightly_held_does_not_take_the_turn_of_others(healing_rig: HealingRig) -> None:
    healing_rig.start(cap=1)
    await healing_rig.idle()
    held, _ = await healing_rig.busy()
    other, _ = await healing_rig.claimed()
    await healing_rig.vanish(held)
    healing_rig.clock.advance(10 * MINUTE)
    await _passes(healing_rig, 1)
    await healing_rig.vanish(other)
    assert await _passes(healing_rig, 9) == ["pod_missing_claim"]
    assert await healing_rig.ledger.claims.of_pod(other.metadata.uid) is None
    assert await healing_rig.ledger.claims.of_pod(held.metadata.uid) is not None


async def test_report_only_releases_nothing(healing_rig: HealingRig) -> None:
    healing_rig.start(report_only=frozenset({"pod_missing_claim", "orphaned_runner_session"}))
    await healing_rig.idle()
    pod, _ = await healing_rig.busy()
    await healing_rig.vanish(pod)
    assert await _passes(healing_rig, 30) == []
    kinds = {heal.kind for heal in healing_rig.healer.last_reports["presence"].reported}
    assert kinds == {"pod_missing_claim", "orphaned_runner_session"}
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is not None


async def test_a_session_without_pod_ends_when_its_job_did(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    pod, job_id = await healing_rig.busy()
    healing_rig.clock.advance(4 * MINUTE)
    over = healing_rig.clock.now()
    await healing_rig.ledger.jobs.completed(
        job_id, account_id=ACME, conclusion="success", completed_at=over, runner_name=runner_of(pod)
    )
    await healing_rig.vanish(pod)
    assert await _passes(healing_rig, 30) == ["orphaned_runner_session"]
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == over, "not when it was noticed"


async def test_a_session_that_nobody_knows_the_end_of_lasts_six_hours_at_most(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    pod, _ = await healing_rig.busy()
    await healing_rig.vanish(pod)
    healing_rig.clock.advance(24 * 3600)
    kinds = await _passes(healing_rig, 8)
    assert "orphaned_runner_session" in kinds
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == session.started_at + timedelta(hours=6)


async def test_a_report_that_came_meanwhile_knows_better(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    pod, _ = await healing_rig.busy()
    healing_rig.clock.advance(MINUTE)
    told = healing_rig.clock.now()
    await healing_rig.ledger.recovery.pod_stopped(pod.metadata.uid, told, by="operator", why="ended")
    await healing_rig.vanish(pod)
    assert await _passes(healing_rig, 30) == []
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == told


# At once, on the word of a watch


async def test_a_pod_that_a_watch_saw_go_is_healed_at_once(healing_rig: HealingRig) -> None:
    pod, job_id = await healing_rig.busy()
    healing_rig.row(pod, online=False)
    await healing_rig.vanish(pod)
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == healing_rig.clock.now()
    assert healing_rig.asked == [([job_id], pod.metadata.uid)], "GitHub is asked about what ran on it"
    assert await healing_rig.kinds() == {"pod_missing_claim": 1, "orphaned_runner_session": 1}
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert await healing_rig.kinds() == {"pod_missing_claim": 1, "orphaned_runner_session": 1}, "twice is once"


async def test_a_pod_that_went_before_its_grace_was_over_did_not_end_in_the_future(healing_rig: HealingRig) -> None:
    """The moment of a deletion in a Pod contains the grace that it was given, and most Pods do not need it."""
    pod, _ = await healing_rig.finished()
    await healing_rig.vanish(pod)
    now = healing_rig.clock.now()
    await healing_rig.healer.pod_gone(pod.metadata.uid, ended_at=now + timedelta(seconds=85))
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at == now


async def test_a_pod_that_went_while_its_runner_works_on_keeps_its_slot(healing_rig: HealingRig) -> None:
    """Deleted by force: its VM lives on, and GitHub would count one runner more than the account may have."""
    pod, job_id = await healing_rig.busy()
    await healing_rig.vanish(pod)
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    claim = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert claim is not None
    assert (claim.job_id, healing_rig.listed(pod)) == (job_id, True)
    assert await healing_rig.kinds() == {"orphaned_runner_session": 1}


async def test_a_job_that_was_never_minted_waits_again_when_its_pod_goes(healing_rig: HealingRig) -> None:
    pod, claim = await healing_rig.claimed()
    await healing_rig.vanish(pod)
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert await healing_rig.bench.status(claim.job_id) == "queued"


async def test_a_fence_is_lifted_when_its_pod_goes(healing_rig: HealingRig) -> None:
    pod = await healing_rig.idle()
    await healing_rig.ledger.fences.raise_fence(as_ledger(pod), by="operator", why="scale down")
    await healing_rig.vanish(pod)
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert await healing_rig.ledger.fences.standing() == []


async def test_a_watch_that_is_mistaken_ends_nothing(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.busy()
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is not None
    assert await healing_rig.kinds() == {}


async def test_a_watch_that_cannot_be_checked_leaves_it_to_the_sweep(healing_rig: HealingRig) -> None:
    pod, _ = await healing_rig.busy()
    await healing_rig.vanish(pod)
    healing_rig.wire.refuse = lambda _: httpx2.Response(503)
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is not None
    assert healing_rig.counted("paddock_heal_failed_total", worker="presence") == 1


async def test_pods_that_nobody_heard_of_cost_nothing(healing_rig: HealingRig) -> None:
    pod = await healing_rig.idle()
    healing_rig.wire.requests.clear()
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert healing_rig.wire.requests == []
    assert isinstance(pod, Pod)
