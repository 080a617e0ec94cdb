"""A machine's life in virtual time: claimed, bootstrapped, ready, deleted, wiped, pooled again."""

import pytest
from simulation.hosts.interrupting import quick, small_fleet

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.simulator.faults import Delay, EffectCall, Fail, Late
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(seeds=3)
async def test_a_machine_gets_a_host_and_its_host_comes_back_wiped_when_it_is_deleted(world: World) -> None:
    fleet = FleetWorld(world, hosts=2)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=600)
    (machine,) = await fleet.machines()
    assert machine.spec.provider_id == f"scw-applesilicon://fr-par-1/{machine.status.server_id}"
    assert fleet.cloud.host(machine.status.server_id).name == "m-1"
    installs = fleet.cloud.host(machine.status.server_id).install

    await fleet.api.delete(Machine, "m-1", "default")

    async def gone() -> bool:
        return not await fleet.machines()

    await fleet.eventually("the machine is gone long before the wipe is done", gone, within=30)

    async def free() -> bool:
        host = (await fleet.hosts())[machine.status.server_id]
        return host.spec.claim is None and host.spec.release is None and host.status.state == "pooled"

    await fleet.eventually("the host is free again", free, within=3600)
    server = fleet.cloud.host(machine.status.server_id)
    assert server.name.startswith("tuist-pool-")
    assert server.install == installs + 1


@simulated(seeds=2)
async def test_a_machine_that_orders_its_host_pays_for_exactly_one_and_gives_it_back_for_good(world: World) -> None:
    fleet = FleetWorld(world, hosts=0)
    await fleet.machine("own", source="Order")
    await fleet.all_ready(1, within=5400)
    (machine,) = await fleet.machines()
    assert [host.name for host in fleet.cloud.hosts()] == ["own"]

    await fleet.api.delete(Machine, "own", "default")

    async def scheduled() -> bool:
        server = fleet.cloud.host(machine.status.server_id)
        return server.deletion_scheduled

    await fleet.eventually("below its billing floor, its deletion is scheduled", scheduled, within=600)
    assert not await fleet.machines()


@simulated(seeds=2)
async def test_an_order_names_no_image_where_the_default_of_its_type_is_of_the_family(world: World) -> None:
    """Whatever image an order names, the cloud installs it after the delivery, which takes about an hour."""
    fleet = FleetWorld(world, hosts=0)
    fleet.cloud.publish_image("macos-tahoe-26.9", "Tahoe", "26.9")
    fleet.cloud.set_default_image("M2-L", "macos-tahoe-26.3")
    await fleet.machine("own", source="Order")
    await fleet.all_ready(1, within=900)
    (host,) = fleet.cloud.hosts()
    assert host.image == fleet.cloud.image_named("macos-tahoe-26.3").id


@pytest.mark.parametrize("prefix", ["tuist-pool-", ""])
@simulated(seeds=1)
async def test_a_broken_mac_that_was_ordered_is_given_back_for_good_and_another_is_ordered(
    world: World, prefix: str
) -> None:
    fleet = small_fleet(world, hosts=0, settings=quick(default_adopt_pool_prefix=prefix))
    await fleet.machine("own", source="Order")

    async def bound() -> bool:
        return bool((await fleet.machines())[0].status.server_id)

    await fleet.eventually("its server is delivered", bound, within=1800)
    broken = (await fleet.machines())[0].status.server_id
    fleet.macs.broken = {broken}
    await fleet.all_ready(1, within=3600)
    assert (await fleet.machines())[0].status.server_id != broken

    async def scheduled() -> bool:
        return fleet.cloud.host(broken).deletion_scheduled

    await fleet.eventually("nobody pays for it after its billing floor", scheduled, within=600)


def _writes_of_a_hosts_status(call: EffectCall) -> bool:
    return call.method == "PATCH" and "scalewayapplesiliconhosts" in call.path and call.path.endswith("/status")


@simulated(seeds=1)
async def test_a_server_that_was_ordered_is_given_back_though_its_host_says_nothing_yet(world: World) -> None:
    fleet = small_fleet(world, hosts=0)
    await fleet.machine("own", source="Order")
    # The inventory makes the Host first, and writes what it saw after it: here that fails for a while.
    world.faults.inject(Fail(500), where=_writes_of_a_hosts_status, until=world.clock.monotonic() + 300)

    async def listed() -> bool:
        return bool(await fleet.hosts())

    await fleet.eventually("its Host is made", listed, within=300)
    ((server, host),) = (await fleet.hosts()).items()
    assert not host.status.cloud_name
    await fleet.api.delete(Machine, "own", "default")

    async def scheduled() -> bool:
        return fleet.cloud.host(server).deletion_scheduled

    await fleet.eventually("it is not paid for after its billing floor", scheduled, within=1200)
    assert not await fleet.machines()


@simulated(seeds=1)
async def test_a_deleted_machine_waits_for_what_the_inventory_says_of_a_host_that_was_forgotten(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=600)
    (server,) = await fleet.hosts()
    world.faults.inject(Fail(500), where=_writes_of_a_hosts_status, until=world.clock.monotonic() + 120)
    await fleet.api.delete(Host, server, "default")
    await fleet.api.delete(Machine, "m-1", "default")

    async def free() -> bool:
        states = [host.status.state for host in (await fleet.hosts()).values() if host.spec.claim is None]
        return not await fleet.machines() and states == ["pooled"]

    await fleet.eventually("the host is wiped and free", free, within=3600)
    assert fleet.cloud.host(server).name.startswith("tuist-pool-")


@simulated(seeds=2)
async def test_a_machine_that_is_deleted_before_its_server_is_delivered_gives_it_back_for_good(world: World) -> None:
    fleet = small_fleet(world, hosts=0)
    await fleet.machine("own", source="Order")

    async def ordered() -> bool:
        return bool(fleet.cloud.hosts())

    await fleet.eventually("a server is ordered", ordered, within=300)
    (server,) = fleet.cloud.hosts()
    await fleet.api.delete(Machine, "own", "default")

    async def scheduled() -> bool:
        return fleet.cloud.host(server.id).deletion_scheduled

    await fleet.eventually("it is not paid for after its billing floor", scheduled, within=1200)
    assert not await fleet.machines()


@simulated(seeds=1)
async def test_orders_that_waited_for_their_turn_in_an_outage_are_not_sent_twice(world: World) -> None:
    fleet = FleetWorld(world, hosts=0)
    outage = world.clock.monotonic() + 160
    await fleet.ready.wait()
    world.faults.inject(Delay(60), where=lambda call: call.method == "GET" and _of_servers(call), until=outage)
    # The cloud comes back slowly: what it is asked for then, it does a minute later, and answers nobody.
    slow = outage + 60
    world.faults.inject(Late(60), where=lambda call: call.method == "POST" and _of_servers(call), until=slow)
    for number in range(6):
        await fleet.machine(f"own-{number}", source="Order")
    await fleet.all_ready(6, within=7200)
    assert len(fleet.cloud.hosts()) == 6, "each pays for one"


def _of_servers(call: EffectCall) -> bool:
    return call.path.startswith("/apple-silicon/") and call.path.endswith("/servers")
