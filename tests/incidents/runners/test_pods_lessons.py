"""Incidents of Pods that leaked, and of reapers that killed live jobs, one sentence each."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest_asyncio
from integration.healing.ward import MINUTE, Ward, as_ledger, runner_of, ward_of
from integration.ledger.rig import ACME, Bench, job

from paddock.kube.builtin import Pod
from paddock.runners.healing.census import Census
from paddock.runners.healing.claims import LeftClaims
from paddock.runners.healing.orphans import OrphanedJobs
from paddock.runners.ledger import Outcome


@pytest_asyncio.fixture
async def ward(bench: Bench) -> AsyncIterator[Ward]:
    async with ward_of(bench) as ward:
        yield ward
        assert ward.counted("paddock_live_kills_total") == 0


async def _minutes(ward: Ward, number: int, *also: LeftClaims | OrphanedJobs) -> None:
    """Everybody's passes, a minute apart."""
    for _ in range(number):
        ward.clock.advance(MINUTE)
        for worker in (*also, *ward.healer.workers):
            await ward.healer.once(worker)


async def test_11060_a_deploy_in_the_midst_of_dispatching_leaks_no_pod_for_good(ward: Ward) -> None:
    """28 stamped Pods pinned 448 GiB for hours: the dispatcher died between stamp and mint."""
    dispatcher = await ward.ledger.dispatchers.register("before the deploy")
    warm = [await ward.idle() for _ in range(12)]
    leaked: list[Pod] = []
    for number in range(1, 29):
        pod = await ward.idle()
        await ward.ledger.jobs.enqueue(job(5000 + number, ACME))
        claim = await ward.ledger.claims.attempt(5000 + number, as_ledger(pod), dispatcher=dispatcher)
        assert claim.outcome is Outcome.CLAIMED
        leaked.append(await ward.label(pod, owner="org1"))
    forge: Any = ward.forge
    claims = LeftClaims(ward.ledger, forge, ward.settings, ward.clock)
    await _minutes(ward, 2, claims)
    assert {await ward.bench.status(5000 + number) for number in range(1, 29)} == {"queued"}, "no job waits for a Pod"
    await _minutes(ward, 30, claims)
    assert not any([await ward.there(pod) for pod in leaked])
    assert all([await ward.there(pod) for pod in warm])
    assert (await ward.kinds())["orphaned_stamped_pod"] == 28


async def test_11133_a_claim_that_ends_early_does_not_kill_the_job(ward: Ward) -> None:
    """The reaper of the incident above held "stamped without a claim" for proof, and killed live builds."""
    alive: list[Pod] = []
    for linux in (True, False):
        for heard in (True, False):
            pod, _ = await ward.busy(linux=linux, heard=heard)
            held = await ward.ledger.claims.of_pod(pod.metadata.uid)
            assert held is not None
            await ward.ledger.claims.release(held, by="somebody", why="by mistake")
            alive.append(pod)
    await _minutes(ward, 60)
    assert all([await ward.there(pod) for pod in alive])
    assert await ward.kinds() == {}


async def test_12789_a_runner_that_died_inside_a_living_pod_gives_it_back(ward: Ward) -> None:
    """No space was left in the guest, the container never ended: nine Pods were pinned for five hours behind the guards."""
    pods = [(await ward.finished())[0] for _ in range(9)]
    await _minutes(ward, 14)
    assert all([await ward.there(pod) for pod in pods])
    await _minutes(ward, 14)
    assert not any([await ward.there(pod) for pod in pods])
    assert (await ward.kinds()) == {"finished_job_pod": 9}


async def test_11988_claims_and_sessions_without_pods_are_seen_from_either_side(ward: Ward) -> None:
    """For ten days claims were held that no sweep could see, because each looked into another store."""
    await ward.idle()
    pod, job_id = await ward.busy()
    await ward.vanish(pod)
    await _minutes(ward, 30)
    assert await ward.ledger.claims.of_pod(pod.metadata.uid) is None
    assert ([job_id], pod.metadata.uid) in ward.asked, "GitHub says what became of the job that it was handed"
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None


async def test_12295_a_reap_always_closes_the_session(ward: Ward) -> None:
    """A fifth of all sessions stayed open, because the report raced the delete."""
    pod, _ = await ward.finished()
    await ward.reports(pod, still_for=4 * MINUTE)
    await ward.healer.once(ward.pods)
    session = await ward.ledger.sessions.of_pod(pod.metadata.uid)
    assert session is not None
    assert session.ended_at is not None
    assert not await ward.there(pod)


async def test_arc_4197_a_runner_does_not_stay_running_after_its_node_was_drained(ward: Ward) -> None:
    """Also ARC#4138, #3821: the books went on saying "running" for Pods that were gone."""
    pod, job_id = await ward.busy()
    await ward.vanish(pod)
    ward.at_github(job_id, "queued")

    async def census() -> Census:
        return Census(alive=frozenset({"uid-other"}))

    forge = ward.forge
    orphans = OrphanedJobs(ward.ledger, forge, census, ward.settings, ward.clock)  # pyright: ignore[reportArgumentType]
    await ward.healer.pod_gone(pod.metadata.uid)
    assert ward.asked == [([job_id], pod.metadata.uid)]
    ward.row(pod, online=False)
    await ward.healer.note("orphans", await orphans.check([job_id], pod.metadata.uid))
    assert await ward.bench.status(job_id) == "queued", "at once, not after a sweep"


async def test_arc_300_an_outage_of_github_restarts_nobody(ward: Ward) -> None:
    """Every runner looks offline for an hour, and nothing they run can be asked about for the half of it."""
    pods: list[Pod] = []
    for _ in range(12):
        pod, _ = await ward.busy(linux=True)
        ward.row(pod, online=False)
        pods.append(pod)
    for minute in range(60):
        ward.forge.broken = minute % 2 == 0
        for pod in pods:
            await ward.ledger.progress.note(pod.metadata.uid, "a long quiet step")
        await _minutes(ward, 1)
    assert all([await ward.there(pod) for pod in pods])


async def test_garm_814_one_bad_pod_does_not_end_the_pass(ward: Ward) -> None:
    bad, good = await ward.leaked(pool="first"), await ward.leaked(pool="second")
    ward.wire.refuse = lambda request: (
        httpx2.Response(500) if request.url.path.endswith(f"/pods/{bad.metadata.name}") else None
    )
    await _minutes(ward, 1)
    assert await ward.there(bad)
    assert not await ward.there(good)


async def test_terraform_3802_an_active_runner_is_no_orphan_because_a_list_says_so(ward: Ward) -> None:
    """Also #4391 and #167: runners were ended because one list did not show them."""
    pod, _ = await ward.busy()
    held = await ward.ledger.claims.of_pod(pod.metadata.uid)
    assert held is not None
    await ward.ledger.claims.release(held, by="somebody", why="by mistake")
    ward.forge.rows.pop(runner_of(pod))
    await ward.reports(pod, still_for=60 * MINUTE)
    await _minutes(ward, 20)
    assert await ward.there(pod)


async def test_a_service_account_does_not_outlive_its_pod(ward: Ward) -> None:
    await ward.idle()
    pod = await ward.idle()
    await ward.vanish(pod)
    await _minutes(ward, 7)
    assert not await ward.account_there(pod)
