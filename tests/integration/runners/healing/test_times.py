"""How long a leak lasts: every worker at its own pace, on a clock that the test moves. docs/design/healing.md has the table."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from integration.runners.healing.healing_rig import MINUTE, NAMESPACE, HealingRig, runner_of
from integration.runners.healing_jobs.scripted import attempt as delivery
from integration.runners.ledger.rig import ACME, POOL, attempt, job

from paddock.kube.builtin import Container, Node, Pod, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import POOL_LABEL, RUNNER, RUNNER_LABEL
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.observations import count_pods
from paddock.runners.healing.offline_runners import OfflineRunners
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.redelivery import Redelivery
from paddock.runners.ledger import Pod as LedgerPod

STEP = 5.0


class Paced:
    """Runs each worker when it is due, as the Healer does, in steps of five seconds."""

    def __init__(self, rig: HealingRig, *workers: Any) -> None:
        self.rig, self.workers = rig, workers
        self.due = {worker.name: worker.every for worker in workers}
        """At their latest: each has just had a turn when the fault begins."""

    async def until(self, done: Callable[[], Any], at_most: float) -> float:
        """Seconds until `done`; fails after `at_most`."""
        passed = 0.0
        while not await done():
            assert passed < at_most, f"not healed after {passed} s"
            self.rig.clock.advance(STEP)
            passed += STEP
            for worker in self.workers:
                if passed >= self.due[worker.name]:
                    await self.rig.healer.once(worker)
                    self.due[worker.name] = passed + worker.every
        return passed


def claims(rig: HealingRig) -> LeftClaims:
    return LeftClaims(rig.ledger, rig.github, rig.settings, rig.clock)


def orphans(rig: HealingRig) -> OrphanedJobs:
    return OrphanedJobs(rig.ledger, rig.github, count_pods(rig.pods._reader, NAMESPACE), rig.settings, rig.clock)


@pytest.mark.parametrize(("leaked", "size"), [pytest.param(28, 40, marks=pytest.mark.slow), (28, 28), (3, 3)])
async def test_the_pods_of_a_dispatcher_that_died_are_healed_within_five_minutes(
    healing_rig: HealingRig, leaked: int, size: int
) -> None:
    """A burst with one proven cause: each pass is still capped, and no more than a fifth of the pool goes at once."""
    rig = healing_rig
    died = await rig.ledger.dispatchers.register("dispatch-a")
    pods: list[Pod] = []
    for number in range(1, leaked + 1):
        pod = await rig.idle()
        await rig.ledger.jobs.enqueue(job(number, ACME))
        claim = await attempt(rig.ledger, number, LedgerPod(pod.metadata.uid, pod.metadata.name), dispatcher=died)
        assert claim.won
        pods.append(await rig.label(pod, owner="org1"))
    for _ in range(size - leaked):
        await rig.idle()
    most = 0

    async def healed() -> bool:
        nonlocal most
        report = rig.healer.last_reports.get(rig.pods.name)
        most = max(most, len(report.healed) if report is not None else 0)
        return not any([await rig.there(pod) for pod in pods])

    await Paced(rig, claims(rig), rig.pods).until(healed, 300)
    assert most <= max(1, size // 5)
    assert (await rig.kinds())["orphaned_stamped_pod"] == leaked
    assert rig.pods.every == rig.settings.every, "nothing is put off any more"


async def test_a_runner_that_never_registers_gives_its_job_back_within_two_minutes(healing_rig: HealingRig) -> None:
    rig = healing_rig
    _, job_id = await rig.busy(heard=False)
    rig.at_github(job_id, "queued")
    rig.github.places = {place: [] for place in rig.github.places}

    async def waits_again() -> bool:
        return await rig.bench.status(job_id) == "queued"

    assert await Paced(rig, orphans(rig)).until(waits_again, 120) <= 120


@pytest.mark.parametrize(
    "last", ["finishing", "running"], ids=["the guest says that it is over", "its mark stands still"]
)
async def test_the_end_of_a_job_that_nobody_announces_is_found_within_two_minutes(
    healing_rig: HealingRig, last: str
) -> None:
    """The event is lost, GitHub's log knows of no failure, and the Pod does not end: only the guest's mark says something."""
    rig = healing_rig
    pod, job_id = await rig.busy()
    worker = orphans(rig)
    for minute in range(20):
        await rig.reports(pod, f"{minute} running")
        rig.clock.advance(MINUTE / 2)
        await rig.healer.once(worker)
        rig.clock.advance(MINUTE / 2)
    assert rig.github.asked("job") == 0, "a worker that lives is not asked about"
    await rig.reports(pod, f"20 {last}")
    rig.at_github(job_id, "completed", runner_of(pod))

    async def settled() -> bool:
        await rig.reports(pod, f"20 {last}")
        return await rig.bench.status(job_id) == "completed"

    assert await Paced(rig, worker).until(settled, 120) <= 120
    assert rig.github.asked("job") == 1
    assert await rig.there(pod), "the job is settled; its Pod is another worker's, with proofs of its own"


async def test_the_end_of_a_job_that_github_could_not_deliver_is_heard_within_two_minutes(
    healing_rig: HealingRig,
) -> None:
    """GitHub's log says so: the announcement is asked for again, and nobody has to ask about the job."""
    rig = healing_rig
    pod, job_id = await rig.busy()
    worker = Redelivery(rig.ledger, {"app": rig.github}, rig.settings, rig.clock)
    await rig.healer.once(worker)
    rig.at_github(job_id, "completed", runner_of(pod))
    rig.github.attempts = [delivery(1, "lost", 502, ago=0)]

    async def heard() -> bool:
        if rig.github.redelivered:
            await rig.ledger.jobs.completed(
                job_id,
                account_id=ACME,
                conclusion="success",
                completed_at=rig.clock.now(),
                runner_name=runner_of(pod),
            )
        return await rig.bench.status(job_id) == "completed"

    assert await Paced(rig, worker).until(heard, 120) <= 120
    assert rig.github.asked("job") == 0


async def test_an_immortal_pod_is_let_go_within_three_minutes(healing_rig: HealingRig) -> None:
    rig = healing_rig
    await rig.hands.create(Node(metadata=ObjectMeta(name="another")))
    pod = await rig.hands.create(
        Pod(
            metadata=ObjectMeta(
                name="runner-dying",
                namespace=NAMESPACE,
                labels={RUNNER_LABEL: "true", POOL_LABEL: POOL},
                finalizers=("tuist.dev/vm",),
            ),
            spec=PodSpec(node_name="gone", containers=(Container(name=RUNNER, image="img"),)),
        )
    )
    await rig.hands.delete(Pod, pod.metadata.name, NAMESPACE, grace_period=90)

    async def gone() -> bool:
        return not any(each.metadata.name == pod.metadata.name for each in (await rig.hands.list(Pod, NAMESPACE)).items)

    assert await Paced(rig, rig.immortal).until(gone, 180) <= 180


async def test_an_offline_runner_row_is_unregistered_within_three_minutes(healing_rig: HealingRig) -> None:
    rig = healing_rig
    await rig.idle()
    pod, job_id = await rig.finished()
    rig.row(pod, online=False)
    await rig.ledger.recovery.pod_stopped(pod.metadata.uid, rig.clock.now(), by="test", why="ended")
    await rig.vanish(pod)

    rows = OfflineRunners(
        rig.ledger, rig.github, count_pods(rig.pods._reader, NAMESPACE), replace(rig.settings), rig.clock
    )

    async def unregistered() -> bool:
        return not rig.listed(pod)

    assert runner_of(pod)
    assert job_id
    assert await Paced(rig, rows).until(unregistered, 180) <= 180
