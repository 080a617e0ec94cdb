"""Nothing is taken from under a running job: Macs that are given back wait for who works on them, and GitHub loses none."""

from collections.abc import Sequence

import pytest
from simulation.hosts.interrupting import (
    FleetInvariants,
    Kind,
    from_here,
    interrupt_everywhere,
    interrupted_by,
    small_fleet,
)
from simulation.hosts.work import JOB, RUNNER, Work

from paddock.base.clock import rfc3339
from paddock.hosts.api import BOOTSTRAPPED, EndedJob, MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.delete import RELEASE_POLICY
from paddock.hosts.disruption import CORDON_REASON, FORCE, WorkLedgerAwayError
from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import OWNER_LABEL
from paddock.simulator.faults import Fail
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated
from paddock.views.giving_back import give_back


async def _said(fleet: FleetWorld, name: str) -> str:
    machine = await fleet.api.get(Machine, name, "default")
    drained = get_condition(machine.status.conditions, "Drained")
    return f"{drained.status} {drained.reason}: {drained.message}" if drained is not None else ""


async def _gone(fleet: FleetWorld, count: int = 0, within: float = 120) -> None:
    async def left() -> bool:
        return len(await fleet.machines()) == count

    await fleet.eventually(f"{count} machines are left", left, within)


async def _force(fleet: FleetWorld, within: float = 120) -> None:
    """A person deletes the machine and gives up whatever runs there."""
    forced = {"metadata": {"annotations": {FORCE: "true"}}}
    await fleet.api.merge_patch(Machine, "m-1", forced, namespace="default")
    await fleet.api.delete(Machine, "m-1", "default")
    await _gone(fleet, within=within)


async def _at_work(world: World, dispatch: "Dispatch | None" = None) -> tuple[FleetWorld, Work]:
    """A machine whose Mac has a Node with a job."""
    fleet = dispatch.fleet if dispatch is not None else small_fleet(world, hosts=1)
    fleet.work = dispatch
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    work = Work(fleet)
    await work.node((await fleet.machines())[0])
    await work.pod("job-1", "m-1")
    work.watch()
    return fleet, work


@simulated(seeds=2)
@pytest.mark.slow
async def test_twenty_busy_macs_become_ten_and_no_job_is_lost(world: World) -> None:
    fleet = small_fleet(world, hosts=20)
    wanted = MacFleetSpec(replicas=20, template=MacFleetTemplate(spec=MachineSpec(zone="fr-par-1")))
    await fleet.create(MacFleet(metadata=ObjectMeta(name="mini", namespace="default"), spec=wanted))
    await fleet.all_ready(20, within=3600)
    work = Work(fleet)
    names = sorted(machine.metadata.name for machine in await fleet.machines())
    for machine in await fleet.machines():
        await work.node(machine)
    idle = set(names[::5])  # four of them have nothing to do
    for number, name in enumerate(name for name in names if name not in idle):
        await work.pod(f"job-{number}", name)
        if number % 2:
            await work.pod(f"other-{number}", name)
    work.watch()

    await fleet.api.merge_patch(MacFleet, "mini", {"spec": {"replicas": 10}}, namespace="default")
    await _gone(fleet, 16, within=120)
    left = {machine.metadata.name for machine in await fleet.machines()}
    assert not left & idle, "those who had nothing to do went first"
    await fleet.clock.sleep(1800)
    going = [machine for machine in await fleet.machines() if machine.metadata.deletion_timestamp is not None]
    assert len(going) == 6
    for machine in going:
        assert "waits for 1 job: " in await _said(fleet, machine.metadata.name)
    assert all(host.spec.release is None for host in (await fleet.hosts()).values() if host.spec.claim is not None)

    for pod in fleet.store.present(Pod):
        await work.end(pod.metadata.name)
        await fleet.clock.sleep(30)
    await _gone(fleet, 10, within=300)
    await FleetInvariants(fleet).healthy(within=3600)
    assert work.seen >= 10
    assert not work.killed
    assert {node.metadata.name for node in fleet.store.present(Node)} == {
        machine.metadata.name for machine in await fleet.machines()
    }, "a Node ends with its Mac"


@simulated(seeds=2)
async def test_a_deleted_machine_waits_for_its_job_and_goes_when_that_ends(world: World) -> None:
    fleet, work = await _at_work(world)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(7200)
    said = await _said(fleet, "m-1")
    assert said.startswith("False Draining: deletion waits for 1 job: job-1 (of acme), since ")
    assert said.endswith("for as long as that takes")
    node = await fleet.api.get(Node, "m-1")
    assert node.spec.unschedulable
    assert node.metadata.annotations[CORDON_REASON] == "deletion of machine m-1"
    assert not work.seen
    await work.end("job-1")
    await _gone(fleet, within=60)
    await FleetInvariants(fleet).healthy()
    assert work.seen
    assert not work.killed
    assert not fleet.store.present(Node)


@simulated(seeds=1)
@pytest.mark.slow
async def test_deleting_a_fleet_drains_its_macs(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    wanted = MacFleetSpec(replicas=2, template=MacFleetTemplate(spec=MachineSpec(zone="fr-par-1")))
    await fleet.create(MacFleet(metadata=ObjectMeta(name="mini", namespace="default"), spec=wanted))
    await fleet.all_ready(2, within=900)
    work = Work(fleet)
    busy, _ = sorted(await fleet.machines(), key=lambda machine: machine.metadata.name)
    for machine in await fleet.machines():
        await work.node(machine)
    await work.pod("job-1", busy.metadata.name)
    work.watch()
    await fleet.api.delete(MacFleet, "mini", "default")
    await _gone(fleet, 1, within=300)
    await fleet.clock.sleep(3600)
    assert [machine.metadata.name for machine in await fleet.machines()] == [busy.metadata.name]
    await work.end("job-1")
    await _gone(fleet, within=60)
    await FleetInvariants(fleet).healthy()
    assert not work.killed


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_pod_that_looks_idle_is_waited_for_until_its_pool_has_retired_it(world: World) -> None:
    fleet, work = await _at_work(world)
    await work.pod("warm", "m-1", RUNNER)
    await fleet.api.delete(Machine, "m-1", "default")
    await work.end("job-1")
    await fleet.clock.sleep(600)
    assert "waits for 1 idle runner to be retired by its pool: warm" in await _said(fleet, "m-1")
    await work.end("warm")
    await _gone(fleet, within=60)
    assert not work.killed


class Dispatch:
    """Dispatch's word, as a test wants it."""

    def __init__(self, world: FleetWorld, *, away: bool = False) -> None:
        self.fleet, self.away = world, away
        self.asked, self.ended_jobs = 0, dict[str, EndedJob]()
        """By key, as its ledger keeps them."""

    async def at_work(self, pod_uids: Sequence[str]) -> dict[str, str]:
        if self.away:
            raise WorkLedgerAwayError("dispatch answered 503")
        return {
            pod.metadata.uid: "acme"
            for pod in self.fleet.store.present(Pod)
            if pod.metadata.name.startswith("claimed") and pod.metadata.uid in pod_uids
        }

    async def ended(self, jobs: Sequence[EndedJob]) -> None:
        self.asked += 1
        if self.away:
            raise WorkLedgerAwayError("dispatch answered 503")
        self.ended_jobs = {job.key: job for job in jobs} | self.ended_jobs


@pytest.mark.slow
@pytest.mark.parametrize("away", [False, True])
@simulated(seeds=1)
async def test_a_job_that_only_dispatch_knows_is_named_and_counted(world: World, away: bool) -> None:
    fleet = small_fleet(world, hosts=1)
    fleet.work = Dispatch(fleet, away=away)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    work = Work(fleet)
    await work.node((await fleet.machines())[0])
    await work.pod("claimed-1", "m-1", RUNNER)  # claimed, and its assignment label was never written
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(60)
    waits = "waits for 1 idle runner" if away else "waits for 1 job: claimed-1 (of acme)"
    assert waits in await _said(fleet, "m-1")
    forced = {"metadata": {"annotations": {FORCE: "true"}}}
    await fleet.api.merge_patch(Machine, "m-1", forced, namespace="default")
    await _gone(fleet, within=60)
    (operator,) = fleet.running.values()
    assert operator.context.live_kills.labels("force")._value.get() == (0 if away else 1)


@simulated(seeds=1)
async def test_who_is_not_known_is_waited_for(world: World) -> None:
    fleet, work = await _at_work(world)
    await work.end("job-1")
    unreadable = world.clock.monotonic() + 600
    world.faults.inject(
        Fail(), where=lambda call: call.method == "GET" and call.path.endswith("/pods"), until=unreadable
    )
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(300)
    assert "who works there is not known: the Pods on Node m-1 could not be listed" in await _said(fleet, "m-1")
    assert not work.seen
    await _gone(fleet, within=900)


@simulated(seeds=1)
async def test_a_person_may_give_a_job_up_and_it_is_counted(world: World) -> None:
    fleet, work = await _at_work(world)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(60)
    forced = {"metadata": {"annotations": {FORCE: "true"}}}
    await fleet.api.merge_patch(Machine, "m-1", forced, namespace="default")
    await _gone(fleet, within=60)
    (operator,) = fleet.running.values()
    assert operator.context.live_kills.labels("force")._value.get() == 1
    await FleetInvariants(fleet).healthy()
    assert work.killed


@simulated(seeds=2)
async def test_a_job_that_a_person_gave_up_is_in_dispatchs_ledger(world: World) -> None:
    fleet, _ = await _at_work(world, dispatch := Dispatch(small_fleet(world, hosts=1)))
    (pod,) = fleet.store.present(Pod)
    await _force(fleet)
    await fleet.clock.sleep(60)
    (written,) = dispatch.ended_jobs.values()
    assert (written.key, written.path, written.pod, written.account, written.machine) == (
        pod.metadata.uid,
        "force",
        "job-1",
        "acme",
        "m-1",
    )
    assert not any(host.spec.ended_jobs for host in (await fleet.hosts()).values()), "handed over, and taken off"


@pytest.mark.parametrize("policy", ["pool", "terminate"])
@simulated(seeds=1)
async def test_a_forced_end_does_not_wait_for_dispatch_and_is_written_down_when_it_is_back(
    world: World, policy: str
) -> None:
    fleet, work = await _at_work(world, dispatch := Dispatch(small_fleet(world, hosts=1), away=True))
    if policy == "terminate":
        annotated = {"metadata": {"annotations": {RELEASE_POLICY: "terminate"}}}
        await fleet.api.merge_patch(Machine, "m-1", annotated, namespace="default")
    await _force(fleet)  # nobody waits for a count
    await fleet.clock.sleep(2 * 3600)
    assert work.killed
    assert dispatch.asked > 10
    assert not dispatch.ended_jobs
    assert len(await fleet.hosts()) == 1, "the Host is all that knows of it"
    dispatch.away = False
    await fleet.clock.sleep(120)
    assert [job.pod for job in dispatch.ended_jobs.values()] == ["job-1"]
    hosts = await fleet.hosts()
    assert not any(host.spec.ended_jobs for host in hosts.values())
    assert len(hosts) == (1 if policy == "pool" else 0)


async def _a_forced_end(world: World) -> None:
    fleet, _ = await _at_work(world, dispatch := Dispatch(small_fleet(world, hosts=1)))
    (pod,) = fleet.store.present(Pod)
    from_here(world)
    await _force(fleet, within=300)
    await fleet.clock.sleep(300)
    assert list(dispatch.ended_jobs) == [pod.metadata.uid]
    await FleetInvariants(fleet).healthy()
    assert not any(host.spec.ended_jobs for host in (await fleet.hosts()).values())


@interrupted_by
def test_a_job_that_is_given_up_is_written_down_once_whatever_is_interrupted(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_forced_end, kinds=kinds) >= 10


@simulated(seeds=1)
async def test_a_job_that_came_after_another_was_given_up_is_waited_for(world: World) -> None:
    fleet, work = await _at_work(world)
    (machine,) = await fleet.machines()
    (shown,) = fleet.store.present(Pod)
    # What the page and the command do; a moment later a waiting Pod of the same Mac gets a job that nobody was shown.
    await give_back(fleet.api, machine, shown={shown.metadata.uid})
    await work.pod("job-2", "m-1", {**JOB, OWNER_LABEL: "globex"})
    await fleet.clock.sleep(120)
    assert "waits for 1 job: job-2 (of globex)" in await _said(fleet, "m-1")
    assert not work.killed
    await work.end("job-2")
    await _gone(fleet, within=120)
    (operator,) = fleet.running.values()
    assert operator.context.live_kills.labels("force")._value.get() == 1


@simulated(seeds=1)
async def test_a_limit_ends_the_drain_and_what_it_ends_is_counted(world: World) -> None:
    fleet, _ = await _at_work(world)
    limit = {"spec": {"drainTimeoutSeconds": 600}}
    await fleet.api.merge_patch(Machine, "m-1", limit, namespace="default")
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(500)
    assert "UTC at most" in await _said(fleet, "m-1")
    await _gone(fleet, within=200)
    (operator,) = fleet.running.values()
    assert operator.context.live_kills.labels("drain_timeout")._value.get() == 1


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_mac_that_works_is_not_bootstrapped_anew_when_its_machine_lost_its_status(world: World) -> None:
    fleet, work = await _at_work(world)
    (machine,) = await fleet.machines()
    touched = len(fleet.macs.touched)
    conditions = [each for each in machine.status.conditions if each.type != "Bootstrapped"]
    lost = {
        "status": {
            "conditions": [
                {
                    "type": c.type,
                    "status": c.status,
                    "reason": c.reason,
                    "message": c.message,
                    "lastTransitionTime": rfc3339(c.last_transition_time),
                }
                for c in conditions
                if c.last_transition_time
            ]
        }
    }
    # Nor does it say anywhere else that it was bootstrapped: a machine of before there was such a note.
    noted = {"metadata": {"annotations": {BOOTSTRAPPED: None}}}
    await fleet.api.merge_patch(Machine, "m-1", noted, namespace="default")
    await fleet.api.merge_patch(Machine, "m-1", lost, namespace="default", subresource="status")
    await fleet.clock.sleep(1200)
    assert len(fleet.macs.touched) == touched
    assert "bootstrap waits for 1 job" in await _said(fleet, "m-1")
    await work.end("job-1")
    await fleet.all_ready(1, within=300)
    node = await fleet.api.get(Node, "m-1")
    assert not node.spec.unschedulable, "our own cordon is taken back"
    assert not work.seen


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_reclaim_leaves_a_mac_that_works(world: World) -> None:
    from simulation.hosts.interrupting import quick

    fleet = small_fleet(world, hosts=1, settings=quick(claim_name_prefix="m-", reclaim_interval=60.0))
    await fleet.machine("m-1")
    await fleet.machine("m-2")  # so that not every owner vanishes at once
    await fleet.all_ready(1, within=900)
    machine = next(each for each in await fleet.machines() if each.status.ready)
    work = Work(fleet)
    await work.node(machine)
    await work.pod("job-1", machine.metadata.name)
    work.watch()
    await fleet.force_delete(machine.metadata.name)
    await fleet.clock.sleep(3600)
    assert not work.seen
    await work.end("job-1")

    async def wiped() -> bool:
        return work.seen > 0

    await fleet.eventually("the stranded Mac is reclaimed when its job has ended", wiped, within=1800)
    assert not work.killed


async def _a_drain_that_ends(world: World) -> None:
    fleet, work = await _at_work(world)
    from_here(world)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(45)
    assert not work.seen
    await work.end("job-1")
    await _gone(fleet, within=120)
    await FleetInvariants(fleet).healthy()
    assert not work.killed
    assert not fleet.store.present(Node)


@interrupted_by
def test_a_drain_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_drain_that_ends, kinds=kinds) >= 20
