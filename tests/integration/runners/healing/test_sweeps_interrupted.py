"""The sweeps of missing Pods, of ServiceAccounts and of immortal Pods die before or after each of their effects."""

from collections.abc import Awaitable, Callable

import pytest
from integration.runners.healing.healing_rig import MINUTE, NAMESPACE, ORGANISATION, Crash, HealingRig, runner_of

from paddock.kube.builtin import Container, Node, Pod, PodSpec, ServiceAccount
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.healing.worker import Worker

Healed = Callable[[HealingRig], Awaitable[bool]]
Leak = Callable[[HealingRig, int], Awaitable[Healed]]


async def _missing(healing_rig: HealingRig, number: int) -> Healed:
    """A claim that was never minted, and one with an open session, of Pods that are gone without a word."""
    early, claim = await healing_rig.claimed()
    late, job_id = await healing_rig.busy()
    for pod in (early, late):
        healing_rig.github.hide(ORGANISATION, runner_of(pod))  # it ended with its VM
        await healing_rig.vanish(pod)

    async def healed(healing_rig: HealingRig) -> bool:
        claims = {each.pod_uid for each in await healing_rig.ledger.claims.all()}
        session = await healing_rig.ledger.sessions.of_pod(late.metadata.uid)
        gone = not claims & {early.metadata.uid, late.metadata.uid}
        # What was never minted waits again; what was handed over is GitHub's to speak about, and not lost meanwhile.
        waits = await healing_rig.bench.status(claim.job_id) == "queued"
        kept = await healing_rig.bench.status(job_id) in ("queued", "running")
        return gone and waits and kept and session is not None and session.ended_at is not None

    return healed


async def _orphan(healing_rig: HealingRig, number: int) -> Healed:
    name = f"orphan-{number}"
    await healing_rig.hands.create(
        ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels={POOL_LABEL: "mac-m4"}))
    )

    async def healed(healing_rig: HealingRig) -> bool:
        try:
            await healing_rig.hands.get(ServiceAccount, name, NAMESPACE)
        except NotFoundError:
            return True
        return False

    return healed


async def _immortal(healing_rig: HealingRig, number: int) -> Healed:
    name = f"dying-{number}"
    made = await healing_rig.hands.create(
        Pod(
            metadata=ObjectMeta(
                name=name,
                namespace=NAMESPACE,
                labels={RUNNER_LABEL: "true", POOL_LABEL: "mac-m4"},
                finalizers=("tart-kubelet.tuist.dev/vm-cleanup",),
            ),
            spec=PodSpec(node_name="gone", containers=(Container(name=RUNNER, image="img"),)),
        )
    )
    await healing_rig.hands.delete(Pod, name, NAMESPACE, uid=made.metadata.uid)

    async def healed(healing_rig: HealingRig) -> bool:
        return name not in {pod.metadata.name for pod in (await healing_rig.hands.list(Pod, NAMESPACE)).items}

    return healed


SWEEPS: dict[str, tuple[Leak, str]] = {
    "presence": (_missing, "pod_missing_claim"),
    "service_accounts": (_orphan, "orphan_service_account"),
    "immortal_pods": (_immortal, "immortal_pod"),
}


def _watch(healing_rig: HealingRig) -> None:
    """The effects on the ledger count, too; those on the cluster do already."""
    ledger = healing_rig.ledger
    healing_rig.interruptions.around(ledger.recovery, "note_pods", "release_missing", "pod_stopped")
    healing_rig.interruptions.around(ledger.sessions, "end_absent")
    healing_rig.interruptions.around(ledger.heals, "record")


async def _half_an_hour(healing_rig: HealingRig, sweep: str) -> bool:
    """Passes two minutes apart; where the process dies, the next one goes on. Gives whether it died."""
    died = False
    for _ in range(15):
        healing_rig.clock.advance(2 * MINUTE)
        worker: Worker = next(each for each in healing_rig.healer.workers if each.name == sweep)
        try:
            await healing_rig.healer.once(worker)
        except Crash:
            died = True
            healing_rig.interruptions.arm(None)
            healing_rig.start()
    return died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("sweep", SWEEPS)
async def test_whatever_of_a_sweep_is_interrupted_is_finished_by_the_next_process(
    healing_rig: HealingRig, sweep: str, after: bool
) -> None:
    leak, kind = SWEEPS[sweep]
    bystander, running = await healing_rig.busy()
    idle = await healing_rig.idle()
    await healing_rig.hands.create(Node(metadata=ObjectMeta(name="other")))
    healed = await leak(healing_rig, 0)
    _watch(healing_rig)
    healing_rig.interruptions.arm(None)
    assert not await _half_an_hour(healing_rig, sweep)
    assert await healed(healing_rig)
    effects = list(healing_rig.interruptions.effects)
    # What is repeated in every pass is interrupted in the first two of them.
    points = [place for place, name in enumerate(effects) if effects[:place].count(name) < 2]
    assert len(points) >= 2, effects
    for number, point in enumerate(points, start=1):
        healed = await leak(healing_rig, number)
        healing_rig.interruptions.arm(point, after=after)
        where = f"died {'after' if after else 'before'} {effects[point]} ({point})"
        assert await _half_an_hour(healing_rig, sweep), where
        assert await healed(healing_rig), where
    assert (await healing_rig.kinds())[kind] >= 1
    for innocent in (bystander, idle):
        assert await healing_rig.there(innocent)
        assert await healing_rig.account_there(innocent)
    assert await healing_rig.bench.status(running) == "running"
    assert await healing_rig.ledger.claims.of_pod(bystander.metadata.uid) is not None
