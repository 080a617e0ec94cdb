"""Interrupt serving at every effect, in every way, heal as documented, and look at what is left.

After each: the job was run once by one Pod, and by no second one; no limit was exceeded (the bench checks that); and what
failed in a process that lives on was undone by it: neither claim nor assignment label is left behind on a Pod that got nothing.
"""

import asyncio
from datetime import timedelta

import pytest
from integration.runners.dispatch.effects import (
    DeadError,
    Disturbance,
    DisturbedLedger,
    DisturbedTransport,
    Effects,
    disturbed_github,
)
from integration.runners.dispatch.rig import Dispatcher, Rig, RunnerPod, until
from integration.runners.ledger.rig import ACME, job

from paddock.clients.github import errors as github
from paddock.runners.api import OWNER_LABEL
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.pod_snapshot import PodSnapshot
from paddock.runners.ledger import Pod
from paddock.runners.pools.retirement import LedgerRetirementApi

HEALING = HealingSettings()
SERVING = ["claim", "review", "stamp", "mint", "commit", "label"]
UNDOING = ["unstamp", "mint_failed"]


async def disturbed(rig: Rig, effects: Effects) -> Dispatcher:
    dispatcher = await rig.dispatcher(
        ledger=DisturbedLedger(rig.ledger, effects),  # pyright: ignore[reportArgumentType] - the same, disturbed
        github=disturbed_github(rig.github, effects),
        client=rig.cluster.connect(DisturbedTransport(rig.cluster.transport, effects)),
        beat=0.1,
    )

    def cancel() -> None:
        inner = dispatcher.service.dispatcher
        for task in [*inner._served] or [*inner._lines.values()]:
            task.cancel()

    effects.cancel = cancel
    return dispatcher


async def first_try(dispatcher: Dispatcher, effects: Effects, pod: RunnerPod) -> bool:
    """The Pod asks the disturbed process until it is answered for good, or the process is dead. True: it has its runner."""
    while not effects.dead:
        asking = dispatcher.asking(pod, wait=2)
        effects.hang_up = asking.cancel
        try:
            answer = await asking
        except asyncio.CancelledError:
            return False
        except Exception:
            if effects.dead:
                return False
            raise
        if effects.dead:
            return False  # whatever it said, it said it after its death
        if answer.status_code in (200, 410):
            return answer.status_code == 200
        if effects.fired:
            return False
    return False


async def idle(dispatcher: Dispatcher) -> None:
    """The living process has done all it wants to do."""
    await until(lambda: dispatcher.service.waiting.in_hand == 0 and not dispatcher.service.dispatcher._served)
    await until(lambda: len(dispatcher.service._pending_releases) == 0)


async def heal(rig: Rig) -> None:
    """Healing's own pass over claims that were left."""
    report = await LeftClaims(rig.ledger, rig.github, HEALING, rig.bench.clock).heal()
    assert not report.failed, report


async def stop_pod(rig: Rig, pod: RunnerPod) -> None:
    """The Pod ends without having run anything: the operator reports it, and healing asks GitHub about its job."""
    orphans = OrphanedJobs(rig.ledger, rig.github, _no_pods, HEALING, rig.bench.clock)
    told = LedgerRetirementApi(rig.ledger, rig.bench.clock, recheck=orphans.check)
    await told.stopped(Pod(pod.uid, pod.name), rig.bench.clock.now(), why="the Pod ended")
    await until(lambda: not told._checks)


async def _no_pods() -> PodSnapshot:
    raise AssertionError("whoever reports a Pod's end needs no list of Pods")


async def scenario(rig: Rig, number: int, effect: str, how: Disturbance, *, mint_fails: bool) -> None:
    effects = Effects(effect, how)
    dispatcher, pod = await disturbed(rig, effects), await rig.cluster.pod(number)
    rig.github.mint_failures = [github.Invalid("labels")] if mint_fails else []
    await rig.bench.queue(job(number))
    ran = await first_try(dispatcher, effects, pod)
    assert effects.fired, f"{effect} was never reached: {effects.seen}"
    if not how.crash:
        await idle(dispatcher)
        await dispatcher.service._pending_releases.settle()
        held = await rig.ledger.claims.of_pod(pod.uid)
        spent = await rig.ledger.sessions.of_pod(pod.uid) is not None
        labels = (await rig.cluster.seen(pod)).metadata.labels
        assert spent or held is None, f"a claim was left: {held}"
        assert spent or OWNER_LABEL not in labels, "an assignment label was left"
    await dispatcher.kill()

    # Time passes: the process is silent, or was stopped; rests are over; the rest of the world goes on.
    rig.github.mint_failures = []
    rig.bench.clock.advance(2 * HEALING.silent_dispatcher.total_seconds())
    await heal(rig)
    ran = await second_try(rig, number, pod, ran=ran)
    assert ran
    delivered = [session for session in await rig.ledger.sessions.of_job(number) if session.ended_at is None]
    assert len(delivered) == 1
    assert await rig.bench.status(number) == "running"
    await rig.bench.ledger.jobs.completed(
        number,
        account_id=ACME,
        conclusion="success",
        completed_at=rig.bench.clock.now(),
        runner_name=delivered[0].runner_name,
        job=job(number),
    )
    assert await rig.ledger.claims.all() == []


async def second_try(rig: Rig, number: int, pod: RunnerPod, *, ran: bool) -> bool:
    """The Pod goes on asking, another process answers; a Pod that is told to exit is replaced by the next."""
    if ran:
        return True
    dispatcher = await rig.dispatcher()
    for turn in range(3):
        async with asyncio.timeout(20):
            answer = await dispatcher.ask(pod, wait=5)
            while answer.status_code in (204, 503):
                answer = await dispatcher.ask(pod, wait=5)
        if answer.status_code == 200:
            assert answer.json()["workflow_job_id"] == number
            break
        assert answer.status_code == 410, answer.text
        await stop_pod(rig, pod)
        pod = await rig.cluster.pod(f"{number}-{turn}")
    else:
        return False
    await dispatcher.service.stop()
    return True


@pytest.mark.parametrize("effect", SERVING)
async def test_serving_is_interrupted_at(rig: Rig, effect: str):
    await rig.accounts(ACME, vcpus=6)
    for number, how in enumerate(Disturbance, 1):
        try:
            await scenario(rig, number, effect, how, mint_fails=False)
        except (Exception, DeadError) as error:
            error.add_note(f"disturbed: {how.value} {effect}")
            raise


@pytest.mark.parametrize("effect", UNDOING)
async def test_undoing_is_interrupted_at(rig: Rig, effect: str):
    await rig.accounts(ACME, vcpus=6)
    ways = [how for how in Disturbance if "hang_up" not in how.name.lower()]
    for number, how in enumerate(ways, 1):
        try:
            await scenario(rig, number, effect, how, mint_fails=True)
        except (Exception, DeadError) as error:
            error.add_note(f"disturbed: {how.value} {effect}")
            raise


def test_the_graces_are_those_of_the_document():
    assert HEALING.silent_dispatcher == timedelta(seconds=30)
    assert HEALING.claim_grace == timedelta(minutes=5)
