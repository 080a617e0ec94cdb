"""What is done to a host that may be at work: it needs no password, and no move or restore bootstraps it anew."""

import pytest
from msgspec.structs import replace
from simulation.hosts.interrupting import small_fleet

from paddock.hosts.adoption import Adopt, adoptions
from paddock.hosts.api import BOOTSTRAPPED, MachineStatus
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Node, NodeSpec, SecretObject
from paddock.kube.conditions import is_true
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _ready(world: World) -> tuple[FleetWorld, str]:
    fleet = small_fleet(world, hosts=2)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    return fleet, (await fleet.machines())[0].status.server_id


async def _updated(fleet: FleetWorld, config: str) -> None:
    async def carries() -> bool:
        return (await fleet.machines())[0].status.host_config_hash == config

    await fleet.eventually(f"the host carries {config}", carries, within=900)


@pytest.mark.slow
@simulated(seeds=2)
async def test_an_update_needs_no_password(world: World) -> None:
    fleet, server = await _ready(world)
    fleet.cloud.seal(server, 86_400.0)
    await fleet.api.delete(SecretObject, "m-1-bootstrap", "default")
    fleet.macs.config = "config-2"
    await _updated(fleet, "config-2")
    await fleet.clock.sleep(7200)
    (machine,) = await fleet.machines()
    assert is_true(machine.status.conditions, "Bootstrapped")
    assert machine.status.ready
    assert fleet.macs.bootstraps == [server]
    assert not [entry for entry in fleet.cloud.audit if "reboot" in entry.path or "reinstall" in entry.path]


def _moved(machine: Machine) -> Machine:
    """What clusterctl and backups carry over: spec, labels and annotations; neither uid nor status."""
    meta = ObjectMeta(name="m-1", namespace="default", annotations=machine.metadata.annotations)
    return replace(machine, metadata=meta, status=MachineStatus())


async def _move(fleet: FleetWorld) -> None:
    (before,) = await fleet.machines()
    for process in fleet.operators:
        process.crash()
    await fleet.force_delete("m-1")
    await fleet.api.create(_moved(before))


@simulated(seeds=3)
async def test_a_move_neither_bootstraps_a_host_anew_nor_wipes_it(world: World) -> None:
    fleet, server = await _ready(world)
    fleet.cloud.seal(server, 86_400.0)
    await _move(fleet)
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    assert machine.status.server_id == server
    assert machine.status.host_config_hash == "config-1"
    assert fleet.macs.bootstraps == [server]
    assert fleet.wipes == []


@simulated(seeds=2)
async def test_a_moved_machine_gets_the_update_that_it_missed(world: World) -> None:
    fleet, server = await _ready(world)
    fleet.macs.config = "config-2"
    await _move(fleet)
    await fleet.all_ready(1, within=900)
    await _updated(fleet, "config-2")
    assert fleet.macs.bootstraps == [server]
    assert fleet.macs.updates == [server]


@simulated(seeds=2)
async def test_another_host_is_bootstrapped_whatever_the_machine_says_of_the_last_one(world: World) -> None:
    fleet, first = await _ready(world)
    fleet.cloud.delete_host(first)
    (machine,) = await fleet.machines()
    assert machine.metadata.annotations[BOOTSTRAPPED].startswith(first)

    async def elsewhere() -> bool:
        (now,) = await fleet.machines()
        return now.status.server_id not in ("", first) and now.status.ready

    await fleet.eventually("it has another host", elsewhere, within=1800)
    (machine,) = await fleet.machines()
    assert fleet.macs.bootstraps == [first, machine.status.server_id]
    assert machine.metadata.annotations[BOOTSTRAPPED].startswith(machine.status.server_id)


@simulated(seeds=1)
async def test_a_cluster_that_lost_machines_and_ledger_takes_its_macs_up_again(world: World) -> None:
    fleet, server = await _ready(world)
    (before,) = await fleet.machines()
    meta = ObjectMeta(name="m-1")
    await fleet.api.create(Node(metadata=meta, spec=NodeSpec(provider_id=before.spec.provider_id)))
    for process in fleet.operators:
        process.crash()
    await fleet.force_delete("m-1")
    for host in fleet.store.present(Host):
        await fleet.api.delete(Host, host.metadata.name, "default")

    async def mirrored() -> bool:
        return any(host.status.cloud_name == "m-1" for host in fleet.store.present(Host))

    await fleet.eventually("the inventory shows it under its name", mirrored, within=300)
    (adopt,) = adoptions(fleet.store.present(Host), [], fleet.store.present(Node), [], "m-")
    assert isinstance(adopt, Adopt)
    await fleet.api.create(adopt.machine)
    await fleet.all_ready(1, within=900)
    (after,) = await fleet.machines()
    assert after.status.server_id == server
    assert fleet.macs.bootstraps == [server]
    assert fleet.wipes == []


@simulated(seeds=1)
async def test_the_node_of_a_server_that_is_gone_does_not_stay_in_the_way_of_the_next_one(world: World) -> None:
    fleet, first = await _ready(world)
    (before,) = await fleet.machines()
    await fleet.api.create(Node(metadata=ObjectMeta(name="m-1"), spec=NodeSpec(provider_id=before.spec.provider_id)))
    fleet.cloud.delete_host(first)

    async def elsewhere() -> bool:
        (now,) = await fleet.machines()
        return now.status.server_id not in ("", first) and now.status.ready

    await fleet.eventually("it has another host", elsewhere, within=1800)
    assert not fleet.store.present(Node), "the new Mac registers its own, with its own provider id"


@simulated(seeds=1)
async def test_an_update_that_fails_again_and_again_is_a_failed_machine_and_is_never_taken_for_done(
    world: World,
) -> None:
    fleet = small_fleet(world, hosts=1)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    fleet.macs.config = "config-2"
    fleet.macs.broken = {machine.status.server_id}

    async def failed() -> bool:
        (now,) = await fleet.machines()
        assert now.status.host_config_hash == "config-1", "what it carries"
        return now.status.phase == "Failed"

    await fleet.eventually("the updates are given up", failed, within=1800)
    (machine,) = await fleet.machines()
    assert (machine.status.failure_reason, machine.status.ready) == ("UpdateExceededRetries", True)
    fleet.macs.broken = set()
    await world.clock.sleep(1200.0)  # half an hour after the last failure it is tried again
    await _updated(fleet, "config-2")
    (machine,) = await fleet.machines()
    assert (machine.status.phase, machine.status.failure_reason) == ("Ready", "")
