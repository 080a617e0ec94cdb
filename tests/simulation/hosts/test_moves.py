"""The first minutes after a move or a restore: nobody in the new cluster knows who works on a Mac before its agent has said so."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from simulation.hosts.interrupting import (
    CRASHES,
    from_here,
    interrupt_everywhere,
    quick,
    small_fleet,
)

from paddock.base.clock import rfc3339
from paddock.hosts.api import FINALIZER, MachineStatus
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.disruption import FORCE
from paddock.kube.builtin import Node, NodeSpec
from paddock.kube.conditions import get_condition, is_true
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _reports(fleet: FleetWorld, *, other_cluster: bool = False) -> None:
    """What the agent says of itself: the Node is there, and each condition has its heartbeat."""
    now = rfc3339(fleet.clock.now())
    (machine,) = await fleet.machines()
    if not fleet.store.present(Node):
        provider = NodeSpec(provider_id=machine.spec.provider_id)
        await fleet.api.create(Node(metadata=ObjectMeta(name="m-1"), spec=provider))
    said = {
        "Ready": ("True", "AgentReady"),
        "OtherClusterVMs": (str(other_cluster), "OneJob" if other_cluster else "NoJob"),
    }
    conditions = [
        {"type": kind, "status": status, "reason": reason, "lastHeartbeatTime": now, "lastTransitionTime": now}
        for kind, (status, reason) in said.items()
    ]
    await fleet.api.merge_patch(Node, "m-1", {"status": {"conditions": conditions}}, subresource="status")


async def _moved(world: World, *, stale_node: bool = False, drain_timeout: int = 0) -> FleetWorld:
    """A machine that has just come from another cluster, with the finalizer that it had there; its Mac is at work."""
    fleet = small_fleet(world, hosts=1, settings=quick(expect_nodes=True, inventory_interval=30.0))
    await fleet.machine("m-1")

    async def bootstrapped() -> bool:
        return is_true((await fleet.machines())[0].status.conditions, "Bootstrapped")

    await fleet.eventually("it is bootstrapped", bootstrapped, within=900)
    await _reports(fleet)
    await fleet.all_ready(1, within=300)
    (before,) = await fleet.machines()
    for process in fleet.operators:
        process.crash()
    if not stale_node:
        await fleet.api.delete(Node, "m-1")
    await fleet.force_delete("m-1")
    meta = ObjectMeta(name="m-1", namespace="default", annotations=before.metadata.annotations, finalizers=(FINALIZER,))
    spec = replace(before.spec, drain_timeout_seconds=drain_timeout)
    await fleet.clock.sleep(5.0)
    await fleet.api.create(replace(before, metadata=meta, spec=spec, status=MachineStatus()))
    return fleet


async def _drained(fleet: FleetWorld) -> str:
    (machine,) = await fleet.machines()
    said = get_condition(machine.status.conditions, "Drained")
    return f"{said.reason}: {said.message}" if said is not None else ""


def _wiped(fleet: FleetWorld) -> int:
    return sum(1 for entry in fleet.cloud.audit if "reinstall" in entry.path)


async def _gone(fleet: FleetWorld, within: float = 300) -> None:
    async def gone() -> bool:
        return not await fleet.machines()

    await fleet.eventually("the machine is gone", gone, within)


@simulated(seeds=2)
async def test_a_machine_that_is_deleted_right_after_a_move_waits_until_its_agent_has_said_who_works(
    world: World,
) -> None:
    fleet = await _moved(world)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(900)
    said = await _drained(fleet)
    assert said.startswith("Draining: deletion waits, because who works there is not known: its agent has not reported")
    assert len(fleet.macs.updates) == 1, "its agent was told of this cluster, once"
    assert _wiped(fleet) == 0

    await _reports(fleet, other_cluster=True)
    await fleet.clock.sleep(1800)
    assert "waits for 1 job: a VM that another cluster started" in await _drained(fleet)
    assert _wiped(fleet) == 0

    await _reports(fleet)
    await _gone(fleet)

    async def wiped() -> bool:
        return _wiped(fleet) == 1

    await fleet.eventually("its host is wiped", wiped, within=300)


@simulated(seeds=1)
async def test_a_node_that_came_with_a_backup_is_no_report(world: World) -> None:
    fleet = await _moved(world, stale_node=True)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(600)
    assert "its agent has not reported to this cluster" in await _drained(fleet)
    assert _wiped(fleet) == 0
    await _reports(fleet)
    await _gone(fleet)


@simulated(seeds=1)
async def test_a_moved_machine_is_ready_only_when_its_agent_was_heard_of(world: World) -> None:
    fleet = await _moved(world, stale_node=True)
    await fleet.clock.sleep(600)
    (machine,) = await fleet.machines()
    assert not machine.status.ready
    assert len(fleet.macs.updates) == 1
    await _reports(fleet)
    await fleet.all_ready(1, within=120)
    assert len(fleet.macs.bootstraps) == 1
    assert _wiped(fleet) == 0


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_person_ends_the_wait_for_a_mac_that_says_nothing(world: World) -> None:
    fleet = await _moved(world)
    (machine,) = await fleet.machines()
    fleet.cloud.set_power(machine.spec.provider_id.rpartition("/")[2], on=False)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(1800)
    assert f"if the Mac is dead, annotate the machine with {FORCE}=true" in await _drained(fleet)
    await fleet.api.merge_patch(Machine, "m-1", {"metadata": {"annotations": {FORCE: "true"}}}, namespace="default")
    await _gone(fleet)


@pytest.mark.slow
@simulated(seeds=1)
async def test_the_machines_own_limit_ends_the_wait_for_a_mac_that_says_nothing(world: World) -> None:
    fleet = await _moved(world, drain_timeout=1200)
    (machine,) = await fleet.machines()
    fleet.cloud.set_power(machine.spec.provider_id.rpartition("/")[2], on=False)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.clock.sleep(900)
    assert "UTC at most" in await _drained(fleet)
    await _gone(fleet, within=900)


async def _deleted_at_once(world: World) -> None:
    fleet = await _moved(world)
    from_here(world)
    await fleet.api.delete(Machine, "m-1", "default")

    async def told() -> bool:
        return bool(fleet.macs.updates)

    await fleet.eventually("its agent was told of this cluster", told, within=600)
    assert _wiped(fleet) == 0
    began = fleet.clock.now()
    await _reports(fleet)
    await _gone(fleet, within=600)
    assert fleet.clock.now() - began < timedelta(minutes=10)


def test_a_deletion_right_after_a_move_survives_every_crash() -> None:
    assert interrupt_everywhere(_deleted_at_once, kinds=CRASHES) >= 5


def _reboots(fleet: FleetWorld) -> int:
    return sum(1 for entry in fleet.cloud.audit if entry.path.endswith("/reboot") and entry.effect)


@pytest.mark.parametrize("stale_node", [False, True])
@simulated(seeds=1)
async def test_a_mac_that_died_with_the_move_goes_through_the_tiers_as_any_other(
    world: World, stale_node: bool
) -> None:
    fleet = await _moved(world, stale_node=stale_node)
    (server,) = (host.id for host in fleet.cloud.hosts())
    fleet.cloud.set_power(server, on=False)

    async def rebooted() -> bool:
        return _reboots(fleet) >= 1

    await fleet.eventually("it is rebooted by the cloud", rebooted, within=2 * 3600)
    await fleet.clock.sleep(120)
    await _reports(fleet)
    await fleet.all_ready(1, within=900)
    assert len(fleet.macs.bootstraps) == 1, "it was told of this cluster, and not set up anew"


@simulated(seeds=1)
async def test_a_moved_mac_that_only_refuses_ssh_is_not_rebooted(world: World) -> None:
    fleet = await _moved(world)
    (server,) = (host.id for host in fleet.cloud.hosts())
    fleet.macs.broken = {server}
    await fleet.clock.sleep(4 * 3600)
    assert (_reboots(fleet), fleet.macs.soft_reboots, _wiped(fleet)) == (0, [], 0), "it may be at work"


@simulated(seeds=1)
async def test_a_mac_that_died_after_it_was_told_of_this_cluster_is_not_waited_for_for_ever(world: World) -> None:
    fleet = await _moved(world, stale_node=True)

    async def told() -> bool:
        return bool(fleet.macs.updates)

    await fleet.eventually("it is told of this cluster", told, within=600)
    await fleet.clock.sleep(30)
    (server,) = (host.id for host in fleet.cloud.hosts())
    fleet.cloud.set_power(server, on=False)

    async def rebooted() -> bool:
        return _reboots(fleet) >= 1

    await fleet.eventually("it is rebooted by the cloud", rebooted, within=2 * 3600)
