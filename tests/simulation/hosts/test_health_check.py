"""A MachineHealthCheck asks for remediation: the same tiers behind the same gate, and in the end Cluster API replaces the Machine.

The test plays the health check and the MachineSet, as the real core does them (`tests/kube/test_cluster_api.py` has that one).
"""

from collections.abc import Sequence
from typing import Any

import pytest
from simulation.hosts.interrupting import (
    CRASHES,
    Kind,
    effects,
    from_here,
    interrupt_everywhere,
    quick,
    small_fleet,
    until_here,
)
from simulation.hosts.work import Work, node_ready, node_says

from paddock.base.clock import rfc3339
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec, RemediationSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.api import ScalewayAppleSiliconRemediation as Asking
from paddock.hosts.cluster_api import cluster_resource, machine_resource
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, is_true
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.kube.resource import Resource
from paddock.simulator.cloud import ServerHealth
from paddock.simulator.faults import EffectCall, Fail, LoseAnswer
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

VERSION = "v1beta2"
MACHINES = machine_resource(VERSION)
CORES_FINALIZER = "machine.cluster.x-k8s.io"
SETS = Resource("cluster.x-k8s.io", VERSION, "MachineSet", "machinesets")


def _owner(made: dict[str, Any], kind: str) -> dict[str, Any]:
    meta = made["metadata"]
    name, uid = meta["name"], meta["uid"]
    return {"apiVersion": f"cluster.x-k8s.io/{VERSION}", "kind": kind, "name": name, "uid": uid, "controller": True}


async def _under_core(world: World, *, of_a_set: bool = True) -> tuple[FleetWorld, Work]:
    """A machine below Cluster API's, whose Node is ready, with a spare host beside it."""
    settings = quick(expect_nodes=True, inventory_interval=60.0)
    fleet = small_fleet(world, hosts=2, settings=settings, cluster_api=True)
    await fleet.ready.wait()
    cluster: dict[str, Any] = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}}
    await fleet.api.create(cluster, cluster_resource(VERSION))
    provisioned = {"status": {"initialization": {"infrastructureProvisioned": True}}}
    await fleet.api.merge_patch(cluster_resource(VERSION), "c", provisioned, "default", subresource="status")
    above = await fleet.api.create({"metadata": {"name": "s", "namespace": "default"}}, SETS)
    infra = {"kind": Machine.RESOURCE.kind, "name": "m-1"}
    named: dict[str, Any] = {"name": "m-1", "namespace": "default", "finalizers": [CORES_FINALIZER]}
    named["ownerReferences"] = [_owner(above, "MachineSet")] * of_a_set
    core = await fleet.api.create(
        {"metadata": named, "spec": {"clusterName": "c", "infrastructureRef": infra}}, MACHINES
    )
    await fleet.machine("m-1")
    owned = {"metadata": {"ownerReferences": [_owner(core, "Machine")]}}
    await fleet.api.merge_patch(Machine, "m-1", owned, "default")
    return fleet, await node_ready(fleet)


async def _unhealthy(fleet: FleetWorld, strategy: Any = "Replace") -> None:
    """What the health check does when it finds the Machine unhealthy."""
    now = rfc3339(fleet.clock.now())
    check = {"type": "HealthCheckSucceeded", "status": "False", "reason": "UnhealthyNode", "lastTransitionTime": now}
    conditions = {"status": {"conditions": [{**check, "message": "Node.Custom is False"}]}}
    core = await fleet.api.merge_patch(MACHINES, "m-1", conditions, "default", subresource="status")
    uid = core["metadata"]["uid"]
    owner = OwnerReference(api_version=f"cluster.x-k8s.io/{VERSION}", kind="Machine", name="m-1", uid=uid)
    meta = ObjectMeta(name="m-1", namespace="default", owner_references=(owner,))
    await fleet.create(Asking(metadata=meta, spec=RemediationSpec(strategy=strategy)))


async def _told(fleet: FleetWorld, name: str = "m-1") -> str:
    found = await fleet.api.get(Asking, name, "default")
    said = get_condition(found.status.conditions, "Progressing")
    return f"{found.status.phase} {said.reason}: {said.message}" if said is not None else ""


async def _until_told(fleet: FleetWorld, what: str, within: float, name: str = "m-1") -> None:
    async def said() -> bool:
        return what in await _told(fleet, name)

    await fleet.eventually(f"its status says: {what}", said, within)


async def _owner_remediates(fleet: FleetWorld) -> bool:
    """Whether the owner of the Machine is asked to replace it."""
    try:
        found = await fleet.api.get(MACHINES, "m-1", "default")
    except NotFoundError:
        return False
    asked = [each for each in found["status"]["conditions"] if each["type"] == "OwnerRemediated"]
    return [each["status"] for each in asked] == ["False"]


async def _core_deletes_it(fleet: FleetWorld) -> None:
    """What the MachineSet and core do: the Machine is deleted, its Node drained, our object deleted, and then it may go."""
    await fleet.api.delete(MACHINES, "m-1", "default")
    await fleet.clock.sleep(150)
    assert (await fleet.api.get(Node, "m-1")).spec.unschedulable, "what core drains is not opened again"
    await fleet.api.delete(Machine, "m-1", "default")

    async def gone() -> bool:
        return not await fleet.machines()

    await fleet.eventually("our machine is gone", gone, within=600)
    await fleet.api.merge_patch(MACHINES, "m-1", {"metadata": {"finalizers": None}}, "default")


def _reboots(fleet: FleetWorld) -> int:
    return sum(1 for entry in fleet.cloud.audit if entry.path.endswith("/reboot") and entry.effect)


@simulated(seeds=1)
async def test_a_request_goes_through_the_tiers_and_ends_when_it_is_taken_back(world: World) -> None:
    fleet, work = await _under_core(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await _unhealthy(fleet)
    await _until_told(fleet, "Waiting TierNotDue: a MachineHealthCheck asks for remediation (Node.Custom is False)", 60)
    assert "next: its agent is started anew after " in await _told(fleet)
    await fleet.clock.sleep(240)
    assert (fleet.macs.updates, fleet.macs.soft_reboots) == ([], [])
    (machine,) = await fleet.machines()
    assert machine.status.ready, "to our own eyes it is well, and what is judged by that must be able to become well"
    await fleet.clock.sleep(240)
    assert (fleet.macs.updates, fleet.macs.soft_reboots) == ([first], []), "its agent was started anew"

    async def rebooted() -> bool:
        return fleet.macs.soft_reboots == [first]

    await fleet.eventually("it is rebooted over SSH", rebooted, within=900)
    assert (await fleet.api.get(Node, "m-1")).spec.unschedulable, "fenced before"
    await fleet.api.delete(Asking, "m-1", "default")
    with pytest.raises(NotFoundError):
        await fleet.api.get(Asking, "m-1", "default")

    async def well() -> bool:
        (one,) = await fleet.machines()
        open_ = not (await fleet.api.get(Node, "m-1")).spec.unschedulable
        return one.status.ready and one.status.remediation is None and open_

    await fleet.eventually("it is well, and takes work", well, within=600)
    await fleet.clock.sleep(3 * 3600)
    assert (fleet.macs.soft_reboots, _reboots(fleet), fleet.wipes) == ([first], 0, [])
    assert not await _owner_remediates(fleet)
    assert not work.killed


@simulated(seeds=1)
async def test_a_request_is_no_way_around_the_gate(world: World) -> None:
    """A job runs, and the provider's diagnosis, which is wrong, says that the server is dead: its agent reports."""
    fleet, work = await _under_core(world)
    await work.pod("job-1", "m-1")
    wrong = ServerHealth(server_alive=False, agent_alive=False, mdm_alive=False, ssh_port_up=False, vnc_port_up=False)
    fleet.cloud.health_of = lambda _: wrong
    await _unhealthy(fleet)
    await _until_told(fleet, "Waiting Draining: reboot waits for 1 job: job-1 (of acme)", 3600)
    await fleet.clock.sleep(2 * 3600)
    assert not work.seen, "nothing was taken"
    assert not await _owner_remediates(fleet)
    await work.end("job-1")

    async def rebooted() -> bool:
        return bool(fleet.macs.soft_reboots) or _reboots(fleet) > 0

    await fleet.eventually("it is rebooted when its job has ended", rebooted, within=300)
    assert not work.killed


async def _replaced(world: World) -> None:
    """No tier helps, so that the owner of the Machine is asked to replace it, and does."""
    fleet, work = await _under_core(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await _unhealthy(fleet)

    async def reinstalled() -> bool:
        (one,) = await fleet.machines()
        done = one.status.remediation
        settled = one.status.reinstalled_at is not None and is_true(one.status.conditions, "Bootstrapped")
        return settled and done is not None and done.tier == 4

    await fleet.eventually("it was reinstalled in place", reinstalled, within=4 * 3600, every=10)
    await work.node((await fleet.machines())[0])
    await node_says(fleet, "True")
    await fleet.all_ready(1, within=600)
    from_here(world)

    async def given_up() -> bool:
        return await _owner_remediates(fleet)

    await fleet.eventually("its owner is asked to replace it", given_up, within=2 * 3600, every=10)
    (machine,) = await fleet.machines()
    assert machine.status.server_id == first, "its host is given back with the Machine, and not before"
    assert (await fleet.api.get(Node, "m-1")).spec.unschedulable, "no work comes any more"
    await _until_told(fleet, "Replacing OwnerRemediates: no tier helped", 120)
    await _core_deletes_it(fleet)

    async def gone() -> bool:
        return not await fleet.machines() and not fleet.store.present(Asking)

    await fleet.eventually("machine and remediation are gone", gone, within=600)

    async def pooled() -> bool:
        host = (await fleet.hosts())[first]
        return host.spec.claim is None and host.spec.release is None

    await fleet.eventually("its host is wiped and free", pooled, within=900)
    until_here(world)
    history = (await fleet.hosts())[first].status.history
    assert history.failed_lives <= 1, "a count may be lost, never doubled"
    assert not work.killed
    assert not [wipe for wipe in fleet.wipes if wipe.victim]
    assert len(fleet.macs.soft_reboots) <= 1


@simulated(seeds=1)
async def test_when_no_tier_helps_cluster_api_is_asked_to_replace_the_machine(world: World) -> None:
    await _replaced(world)


@simulated(seeds=1)
async def test_a_host_that_was_replaced_so_is_chosen_last(world: World) -> None:
    fleet, _ = await _under_core(world)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await _unhealthy(fleet)

    async def given_up() -> bool:
        await _stays_well(fleet)
        return await _owner_remediates(fleet)

    await fleet.eventually("its owner is asked to replace it", given_up, within=6 * 3600, every=30)
    await _core_deletes_it(fleet)

    async def counted() -> bool:
        host = (await fleet.hosts())[first]
        return host.spec.release is None and host.status.history.failed_lives == 1

    await fleet.eventually("its life has failed", counted, within=900)


async def _stays_well(fleet: FleetWorld) -> None:
    """The agent of a reinstalled Mac registers anew, and reports."""
    (machine,) = await fleet.machines()
    if not fleet.store.present(Node) and is_true(machine.status.conditions, "Bootstrapped"):
        await Work(fleet).node(machine)
        await node_says(fleet, "True")


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(CRASHES, id="a crash"),
        pytest.param((LoseAnswer(), Fail()), id="a lost answer or an error", marks=pytest.mark.slow),
    ],
)
def test_the_end_of_the_tiers_survives_every_interruption(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_replaced, only=_decisions, kinds=kinds) >= 6


def _decisions(call: EffectCall) -> bool:
    """All effects but what the inventory mirrors into a Host's status."""
    return effects(call) and not ("siliconhosts/" in call.path and call.path.endswith("/status"))


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_strategy_says_how_far_it_goes(world: World) -> None:
    fleet, _ = await _under_core(world)
    await _unhealthy(fleet, "Reboot")
    await _until_told(fleet, "Exhausted Exhausted: a MachineHealthCheck asks", 2 * 3600)
    await fleet.clock.sleep(2 * 3600)
    assert _reboots(fleet) == 1
    assert fleet.wipes == []
    assert not await _owner_remediates(fleet)


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_machine_that_nobody_would_replace_gets_another_host(world: World) -> None:
    fleet, work = await _under_core(world, of_a_set=False)
    (machine,) = await fleet.machines()
    first = machine.status.server_id
    await _unhealthy(fleet)

    async def elsewhere() -> bool:
        await _stays_well(fleet)
        return (await fleet.machines())[0].status.server_id not in ("", first)

    await fleet.eventually("it has another host", elsewhere, within=6 * 3600, every=30)
    assert not await _owner_remediates(fleet)
    assert not work.killed


@pytest.mark.slow
@simulated(seeds=1)
async def test_objects_that_concern_no_machine_of_ours_do_nothing_and_say_so(world: World) -> None:
    fleet, work = await _under_core(world)
    spec = MacFleetSpec(replicas=1, template=MacFleetTemplate(spec=MachineSpec(zone="fr-par-1")))
    minis = await fleet.create(MacFleet(metadata=ObjectMeta(name="minis", namespace="default"), spec=spec))
    await fleet.clock.sleep(60)
    of_fleet = next(each for each in await fleet.machines() if each.metadata.name != "m-1")
    by_fleet = OwnerReference(
        api_version=MacFleet.RESOURCE.api_version, kind="MacFleet", name="minis", uid=minis.metadata.uid
    )
    foreign = await fleet.api.create(
        {
            "metadata": {"name": "x", "namespace": "default"},
            "spec": {"clusterName": "c", "infrastructureRef": {"kind": "Metal3Machine", "name": "x"}},
        },
        MACHINES,
    )
    by_x = OwnerReference(api_version=MACHINES.api_version, kind="Machine", name="x", uid=foreign["metadata"]["uid"])
    for name, owners in (("m-1", ()), (of_fleet.metadata.name, (by_fleet,)), ("x", (by_x,))):
        meta = ObjectMeta(name=name, namespace="default", owner_references=owners)
        await fleet.create(Asking(metadata=meta))
    await _until_told(fleet, "Refused NoMachine: no Cluster API Machine owns this object", 60)
    await _until_told(fleet, "Macs of a MacFleet need none", 60, of_fleet.metadata.name)
    await _until_told(fleet, "Refused NotOurs: the infrastructure of Machine x is Metal3Machine x", 60, "x")
    await fleet.clock.sleep(2 * 3600)
    assert (fleet.macs.soft_reboots, _reboots(fleet), fleet.wipes) == ([], 0, [])
    assert not work.killed
