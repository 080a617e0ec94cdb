"""The sweeps of missing Pods, of ServiceAccounts and of immortal Pods die before or after each of their effects."""

from collections.abc import Awaitable, Callable

import pytest
from integration.healing.ward import MINUTE, NAMESPACE, Crash, Ward

from paddock.kube.builtin import Container, Node, Pod, PodSpec, ServiceAccount
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.healing.worker import Worker

Healed = Callable[[Ward], Awaitable[bool]]
Leak = Callable[[Ward, int], Awaitable[Healed]]


async def _missing(ward: Ward, number: int) -> Healed:
    """A claim that was never minted, and one with an open session, of Pods that are gone without a word."""
    early, claim = await ward.claimed()
    late, job_id = await ward.busy()
    for pod in (early, late):
        await ward.vanish(pod)

    async def healed(ward: Ward) -> bool:
        claims = {each.pod_uid for each in await ward.ledger.claims.all()}
        session = await ward.ledger.sessions.of_pod(late.metadata.uid)
        gone = not claims & {early.metadata.uid, late.metadata.uid}
        # What was never minted waits again; what was handed over is GitHub's to speak about, and not lost meanwhile.
        waits = await ward.bench.status(claim.job_id) == "queued"
        kept = await ward.bench.status(job_id) in ("queued", "running")
        return gone and waits and kept and session is not None and session.ended_at is not None

    return healed


async def _orphan(ward: Ward, number: int) -> Healed:
    name = f"orphan-{number}"
    await ward.hands.create(
        ServiceAccount(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels={POOL_LABEL: "mac-m4"}))
    )

    async def healed(ward: Ward) -> bool:
        try:
            await ward.hands.get(ServiceAccount, name, NAMESPACE)
        except NotFoundError:
            return True
        return False

    return healed


async def _immortal(ward: Ward, number: int) -> Healed:
    name = f"dying-{number}"
    made = await ward.hands.create(
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
    await ward.hands.delete(Pod, name, NAMESPACE, uid=made.metadata.uid)

    async def healed(ward: Ward) -> bool:
        return name not in {pod.metadata.name for pod in (await ward.hands.list(Pod, NAMESPACE)).items}

    return healed


SWEEPS: dict[str, tuple[Leak, str]] = {
    "presence": (_missing, "pod_missing_claim"),
    "service_accounts": (_orphan, "orphan_service_account"),
    "immortal_pods": (_immortal, "immortal_pod"),
}


def _watch(ward: Ward) -> None:
    """The effects on the ledger count, too; those on the cluster do already."""
    ledger = ward.ledger
    ward.interruptions.around(ledger.recovery, "note_pods", "release_missing", "pod_stopped")
    ward.interruptions.around(ledger.sessions, "end_absent")
    ward.interruptions.around(ledger.heals, "record")


async def _half_an_hour(ward: Ward, sweep: str) -> bool:
    """Passes two minutes apart; where the process dies, the next one goes on. Gives whether it died."""
    died = False
    for _ in range(15):
        ward.clock.advance(2 * MINUTE)
        worker: Worker = next(each for each in ward.healer.workers if each.name == sweep)
        try:
            await ward.healer.once(worker)
        except Crash:
            died = True
            ward.interruptions.arm(None)
            ward.start()
    return died


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("sweep", SWEEPS)
async def test_whatever_of_a_sweep_is_interrupted_is_finished_by_the_next_process(
    ward: Ward, sweep: str, after: bool
) -> None:
    leak, kind = SWEEPS[sweep]
    bystander, running = await ward.busy()
    idle = await ward.idle()
    await ward.hands.create(Node(metadata=ObjectMeta(name="other")))
    healed = await leak(ward, 0)
    _watch(ward)
    ward.interruptions.arm(None)
    assert not await _half_an_hour(ward, sweep)
    assert await healed(ward)
    effects = list(ward.interruptions.effects)
    # What is repeated in every pass is interrupted in the first two of them.
    points = [place for place, name in enumerate(effects) if effects[:place].count(name) < 2]
    assert len(points) >= 2, effects
    for number, point in enumerate(points, start=1):
        healed = await leak(ward, number)
        ward.interruptions.arm(point, after=after)
        where = f"died {'after' if after else 'before'} {effects[point]} ({point})"
        assert await _half_an_hour(ward, sweep), where
        assert await healed(ward), where
    assert (await ward.kinds())[kind] >= 1
    for innocent in (bystander, idle):
        assert await ward.there(innocent)
        assert await ward.account_there(innocent)
    assert await ward.bench.status(running) == "running"
    assert await ward.ledger.claims.of_pod(bystander.metadata.uid) is not None
