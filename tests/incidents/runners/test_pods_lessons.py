"""Incidents of Pods that leaked, and of reapers that killed live jobs, one sentence each."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio
from integration.runners.healing.healing_rig import MINUTE, ORGANISATION, HealingRig, as_ledger, healing_of, runner_of
from integration.runners.ledger.rig import ACME, Bench, attempt, job

from paddock.kube.builtin import Pod
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.pod_snapshot import PodSnapshot
from paddock.runners.ledger import Outcome


@pytest_asyncio.fixture
async def healing_rig(bench: Bench) -> AsyncIterator[HealingRig]:
    async with healing_of(bench) as healing_rig:
        yield healing_rig
        assert healing_rig.counted("paddock_live_kills_total", path="reap") == 0


async def _minutes(healing_rig: HealingRig, number: int, *also: LeftClaims | OrphanedJobs) -> None:
    """Everybody's passes, a minute apart."""
    for _ in range(number):
        healing_rig.clock.advance(MINUTE)
        for worker in (*also, *healing_rig.healer.workers):
            await healing_rig.healer.once(worker)


async def test_11060_a_deploy_in_the_midst_of_dispatching_leaks_no_pod_for_good(healing_rig: HealingRig) -> None:
    """28 assigned Pods pinned 448 GiB for hours: the dispatcher died between assignment and mint."""
    dispatcher = await healing_rig.ledger.dispatchers.register("before the deploy")
    warm = [await healing_rig.idle() for _ in range(12)]
    leaked: list[Pod] = []
    for number in range(1, 29):
        pod = await healing_rig.idle()
        await healing_rig.ledger.jobs.enqueue(job(5000 + number, ACME))
        claim = await attempt(healing_rig.ledger, 5000 + number, as_ledger(pod), dispatcher=dispatcher)
        assert claim.outcome is Outcome.CLAIMED
        leaked.append(await healing_rig.label(pod, owner="org1"))
    github: Any = healing_rig.github
    claims = LeftClaims(healing_rig.ledger, github, healing_rig.settings, healing_rig.clock)
    await _minutes(healing_rig, 2, claims)
    assert {await healing_rig.bench.status(5000 + number) for number in range(1, 29)} == {"queued"}, (
        "no job waits for a Pod"
    )
    await _minutes(healing_rig, 30, claims)
    assert not any([await healing_rig.there(pod) for pod in leaked])
    assert all([await healing_rig.there(pod) for pod in warm])
    assert (await healing_rig.kinds())["orphaned_stamped_pod"] == 28


async def test_11133_a_claim_that_ends_early_does_not_kill_the_job(healing_rig: HealingRig) -> None:
    """The reaper of the incident above took "assigned, without a claim" for proof, and killed live builds."""
    alive: list[Pod] = []
    for linux in (True, False):
        for heard in (True, False):
            pod, _ = await healing_rig.busy(linux=linux, heard=heard)
            held = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
            assert held is not None
            await healing_rig.ledger.claims.release(held, by="somebody", why="by mistake")
            alive.append(pod)
    await _minutes(healing_rig, 60)
    assert all([await healing_rig.there(pod) for pod in alive])
    assert await healing_rig.kinds() == {}


async def test_12789_a_runner_that_died_inside_a_living_pod_gives_it_back(healing_rig: HealingRig) -> None:
    """No space was left in the guest, the container never ended: nine Pods were pinned for five hours behind the guards."""
    pods = [(await healing_rig.finished())[0] for _ in range(9)]
    await _minutes(healing_rig, 14)
    assert all([await healing_rig.there(pod) for pod in pods])
    await _minutes(healing_rig, 14)
    assert not any([await healing_rig.there(pod) for pod in pods])
    assert (await healing_rig.kinds()) == {"finished_job_pod": 9}


async def test_11988_claims_and_sessions_without_pods_are_seen_from_either_side(healing_rig: HealingRig) -> None:
    """For ten days claims were held that no sweep could see, because each looked into another store.

    The VM of a Pod that was deleted by force may live on: while GitHub has its runner busy, the slot is rightly held.
    """
    await healing_rig.idle()
    pod, job_id = await healing_rig.busy()
    await healing_rig.vanish(pod)
    await _minutes(healing_rig, 30)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is not None
    assert healing_rig.listed(pod), "no runner is unregistered under its job"
    healing_rig.row(pod, online=False)  # GitHub has heard nothing of it, and has failed its job
    await _minutes(healing_rig, 1)
    assert not healing_rig.listed(pod)
    assert await healing_rig.ledger.claims.of_pod(pod.metadata.uid) is None
    assert ([job_id], pod.metadata.uid) in healing_rig.asked, "GitHub says what became of the job that it was handed"
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None


async def test_12295_a_reap_always_closes_the_session(healing_rig: HealingRig) -> None:
    """A fifth of all sessions stayed open, because the report raced the delete."""
    pod, _ = await healing_rig.finished()
    await healing_rig.reports(pod, still_for=4 * MINUTE)
    await healing_rig.healer.once(healing_rig.pods)
    session = await healing_rig.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None
    assert not await healing_rig.there(pod)


async def test_arc_4197_a_runner_does_not_stay_running_after_its_node_was_drained(healing_rig: HealingRig) -> None:
    """Also ARC#4138, #3821: the ledger went on saying "running" for Pods that were gone."""
    pod, job_id = await healing_rig.busy()
    await healing_rig.vanish(pod)
    healing_rig.at_github(job_id, "queued")

    async def snapshot() -> PodSnapshot:
        return PodSnapshot(alive=frozenset({"uid-other"}))

    github = healing_rig.github
    orphans = OrphanedJobs(healing_rig.ledger, github, snapshot, healing_rig.settings, healing_rig.clock)  # pyright: ignore[reportArgumentType]
    await healing_rig.healer.pod_gone(pod.metadata.uid)
    assert healing_rig.asked == [([job_id], pod.metadata.uid)]
    healing_rig.row(pod, online=False)
    await healing_rig.healer.note("orphans", await orphans.check([job_id], pod.metadata.uid))
    assert await healing_rig.bench.status(job_id) == "queued", "at once, not after a sweep"


async def test_arc_300_an_outage_of_github_restarts_nobody(healing_rig: HealingRig) -> None:
    """Every runner looks offline for an hour, and nothing they run can be asked about for the half of it."""
    pods: list[Pod] = []
    for _ in range(12):
        pod, _ = await healing_rig.busy(linux=True)
        healing_rig.row(pod, online=False)
        pods.append(pod)
    for minute in range(60):
        healing_rig.github.broken = minute % 2 == 0
        for pod in pods:
            await healing_rig.ledger.progress.note(pod.metadata.uid, "a long quiet step")
        await _minutes(healing_rig, 1)
    assert all([await healing_rig.there(pod) for pod in pods])


async def test_garm_814_one_bad_pod_does_not_end_the_pass(healing_rig: HealingRig) -> None:
    bad, good = await healing_rig.leaked(pool="first"), await healing_rig.leaked(pool="second")
    healing_rig.wire.refuse = lambda request: (
        httpx2.Response(500) if request.url.path.endswith(f"/pods/{bad.metadata.name}") else None
    )
    await _minutes(healing_rig, 1)
    assert await healing_rig.there(bad)
    assert not await healing_rig.there(good)


async def test_terraform_3802_an_active_runner_is_no_orphan_because_a_list_says_so(healing_rig: HealingRig) -> None:
    """Also #4391 and #167: runners were ended because one list did not show them."""
    pod, _ = await healing_rig.busy()
    held = await healing_rig.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await healing_rig.ledger.claims.release(held, by="somebody", why="by mistake")
    healing_rig.github.hide(ORGANISATION, runner_of(pod))
    await healing_rig.reports(pod, still_for=60 * MINUTE)
    await _minutes(healing_rig, 20)
    assert await healing_rig.there(pod)


async def test_a_service_account_does_not_outlive_its_pod(healing_rig: HealingRig) -> None:
    await healing_rig.idle()
    pod = await healing_rig.idle()
    await healing_rig.vanish(pod)
    await _minutes(healing_rig, 7)
    assert not await healing_rig.account_there(pod)
