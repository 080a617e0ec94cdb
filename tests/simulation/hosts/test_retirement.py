"""Macs that are retired: terminated when they are free, never under a machine, one at a time."""

from datetime import timedelta

import pytest
from simulation.hosts.interrupting import quick, small_fleet
from simulation.hosts.test_reputation import _life

from paddock.clients.scaleway.model import next_anniversary
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _retire(fleet: FleetWorld, server: str) -> None:
    (host,) = [host for host in (await fleet.hosts()).values() if host.spec.server_id == server]
    change = {"spec": {"retire": "its fan is loud"}}
    await fleet.api.merge_patch(Host, host.metadata.name, change, namespace="default")


def _there(fleet: FleetWorld) -> set[str]:
    return {host.id for host in fleet.cloud.hosts()}


@pytest.mark.slow
@simulated(seeds=1)
async def test_free_macs_go_one_after_the_other_and_one_with_a_machine_goes_with_it(world: World) -> None:
    fleet = small_fleet(world, hosts=3, settings=quick(inventory_interval=90.0))
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    mine = (await fleet.machines())[0].status.server_id
    free = _there(fleet) - {mine}
    for server in (*sorted(free), mine):
        await _retire(fleet, server)

    async def one_left() -> bool:
        return len(_there(fleet)) == 2

    await fleet.eventually("the first is gone", one_left, within=600)
    await world.clock.sleep(1800.0)
    assert len(_there(fleet)) == 2, "an hour apart"

    async def both_gone() -> bool:
        return _there(fleet) == {mine}

    await fleet.eventually("the second is gone", both_gone, within=3600)
    await world.clock.sleep(600.0)
    assert (await fleet.machines())[0].status.ready, "a machine keeps its host"
    await fleet.api.delete(Machine, "m-1", "default")

    async def all_gone() -> bool:
        return not _there(fleet)

    await fleet.eventually("its host goes for good", all_gone, within=900)
    assert [wipe.how for wipe in fleet.wipes] == ["delete"] * 3
    assert not any(wipe.victim for wipe in fleet.wipes)


@simulated(seeds=1)
async def test_a_mac_under_a_monthly_commitment_goes_at_its_anniversary_and_says_so_until_then(world: World) -> None:
    fleet = small_fleet(world, hosts=1, settings=quick(inventory_interval=90.0))
    (server,) = fleet.cloud.hosts()
    server.commitment, server.created_at = "renewed_monthly", world.clock.now() - timedelta(days=31, hours=-5)
    end = next_anniversary(server.created_at, world.clock.now())
    await _retire_when_there(fleet, server.id)

    async def scheduled() -> bool:
        return fleet.cloud.host(server.id).deletion_scheduled

    await fleet.eventually("its deletion is scheduled", scheduled, within=900)
    await world.clock.sleep(300.0)
    (host,) = (await fleet.hosts()).values()
    assert host.status.committed_until == end.replace(microsecond=0)
    assert host.status.paid_until == host.status.deletable_at == end
    said = {each.type: each.message for each in host.status.conditions}
    assert any(f"monthly commitment ends on {end:%Y-%m-%d %H:%M} UTC" in message for message in said.values()), said
    patches = [entry for entry in fleet.cloud.audit if entry.effect and entry.method in ("PATCH", "DELETE")]
    assert len(patches) <= 2, "the name and the schedule, and nothing again and again"

    async def gone() -> bool:
        return server.id not in _there(fleet)

    await fleet.eventually("the cloud deletes it by itself", gone, within=6 * 3600, every=60)
    assert world.clock.now() >= end


async def _retire_when_there(fleet: FleetWorld, server: str) -> None:
    async def there() -> bool:
        return bool(await fleet.hosts())

    await fleet.eventually("it is in the inventory", there, within=300)
    await _retire(fleet, server)


@simulated(seeds=1)
async def test_a_mac_of_a_pool_that_a_machine_names_is_retired_from_it(world: World) -> None:
    fleet = small_fleet(world, hosts=0)
    free = fleet.cloud.add_host("lab-pool-1", server_type="M2-L").id
    fleet.cloud.add_host("lab-pool-2", server_type="M2-L")
    await fleet.machine("m-1", adopt_pool_prefix="lab-pool-")
    await fleet.all_ready(1, within=900)
    (taken,) = {machine.status.server_id for machine in await fleet.machines()}
    free = (_there(fleet) - {taken}).pop()
    await _retire(fleet, free)

    async def gone() -> bool:
        return free not in _there(fleet)

    await fleet.eventually("it is given back to the cloud", gone, within=600)


@simulated(seeds=1)
async def test_a_retired_mac_that_a_rival_takes_in_the_last_moment_is_left_alone(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    await fleet.ready.wait()
    server = fleet.pool[0].id

    async def seen() -> bool:
        return any(host.status.state == "pooled" for host in (await fleet.hosts()).values())

    await fleet.eventually("it is pooled", seen, within=120)
    await _retire(fleet, server)

    async def marked() -> bool:
        return fleet.cloud.host(server).name.startswith("tuist-release-pending-")

    await fleet.eventually("it has our marker", marked, within=120)
    fleet.cloud.foreign_rename(server, "rivals-machine")
    await world.clock.sleep(1800.0)
    assert _there(fleet) == {server}
    assert fleet.cloud.host(server).name == "rivals-machine"


@pytest.mark.slow
@simulated(seeds=1)
async def test_the_policy_retires_a_mac_that_was_quarantined(world: World) -> None:
    fleet = small_fleet(world, hosts=1, settings=quick(retire_after_quarantines=1))
    fleet.macs.broken = {fleet.pool[0].id}
    for number in (1, 2):
        await _life(fleet, number, number)
    (host,) = (await fleet.hosts()).values()
    assert not host.spec.retire
    await fleet.machine("m-3")

    async def retired() -> bool:
        return any(host.spec.retire for host in (await fleet.hosts()).values())

    await fleet.eventually("the third life puts it aside, and the policy retires it", retired, within=3600)

    async def gone() -> bool:
        return not _there(fleet)

    await fleet.eventually("it is gone", gone, within=3600)
