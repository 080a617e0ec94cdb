"""A name that comes back: as the same machine under a new uid, or as another machine with an older tenant's host."""

from msgspec.structs import replace

from paddock.hosts.api import MachineStatus
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.settings import HostSettings
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _force_delete(fleet: FleetWorld, name: str) -> None:
    """Past the finalizer, while the controllers are down: what a move does, and what people do in a hurry."""
    for process in fleet.operators:
        process.crash()
    await fleet.api.merge_patch(Machine, name, {"metadata": {"finalizers": []}}, namespace="default")
    await fleet.api.delete(Machine, name, "default")


@simulated(seeds=3)
async def test_a_machine_that_was_restored_without_its_status_takes_its_own_host_up_again(world: World) -> None:
    fleet = FleetWorld(world, hosts=2)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    (before,) = await fleet.machines()
    await _force_delete(fleet, "m-1")
    await fleet.api.create(
        replace(before, metadata=ObjectMeta(name="m-1", namespace="default"), status=MachineStatus())
    )

    await fleet.all_ready(1, within=900)

    (after,) = await fleet.machines()
    assert after.metadata.uid != before.metadata.uid
    assert after.status.server_id == before.status.server_id
    host = (await fleet.hosts())[after.status.server_id]
    assert host.spec.claim is not None
    assert host.spec.claim.machine_uid == after.metadata.uid
    assert [entry for entry in fleet.cloud.audit if "reinstall" in entry.path] == []


@simulated(seeds=3)
async def test_the_host_of_an_older_machine_of_the_same_name_is_wiped_before_anybody_uses_it(world: World) -> None:
    settings = HostSettings(default_adopt_pool_prefix="tuist-pool-", claim_name_prefix="m-", reclaim_interval=30.0)
    fleet = FleetWorld(world, hosts=1, settings=settings)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    (before,) = await fleet.machines()
    installs = fleet.cloud.host(before.status.server_id).install
    await _force_delete(fleet, "m-1")
    await fleet.machine("m-1")

    await fleet.all_ready(1, within=7200)

    (after,) = await fleet.machines()
    assert after.metadata.uid != before.metadata.uid
    assert after.status.server_id == before.status.server_id
    assert fleet.cloud.host(after.status.server_id).install == installs + 1
