"""A Mac that fails in one life after the other is put aside; one that ends well has a clean record again."""

import pytest
from simulation.hosts.interrupting import small_fleet

from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.why import _record
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _life(fleet: FleetWorld, number: int, lives: int) -> None:
    """A machine fails on the only host, gives it up, and goes."""
    await fleet.machine(f"m-{number}")

    async def given_up() -> bool:
        return any(host.status.history.failed_lives == lives for host in (await fleet.hosts()).values())

    await fleet.eventually(f"life {number} was given up", given_up, within=3600)
    await fleet.api.delete(Machine, f"m-{number}", "default")

    async def home() -> bool:
        return all(host.spec.release is None and host.spec.claim is None for host in (await fleet.hosts()).values())

    await fleet.eventually("the host is wiped", home, within=3600)


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_mac_that_is_given_up_in_three_lives_in_a_row_is_quarantined(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    fleet.macs.broken = {fleet.pool[0].id}
    for number in (1, 2):
        await _life(fleet, number, number)
        (host,) = (await fleet.hosts()).values()
        assert not host.spec.quarantine
    await _life(fleet, 3, 3)
    (host,) = (await fleet.hosts()).values()
    assert host.spec.quarantine.startswith("given up in 3 lives in a row, the last time because: 3 bootstraps failed")
    assert "given up in 3 lives in a row, so it is chosen last" in _record(host)
    await fleet.machine("m-4")
    await fleet.clock.sleep(600)
    assert not (await fleet.machines())[0].status.server_id


@simulated(seeds=1)
async def test_an_ordinary_end_clears_the_record(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    fleet.macs.broken = {fleet.pool[0].id}
    await _life(fleet, 1, 1)
    fleet.macs.broken.clear()
    await fleet.machine("m-2")
    await fleet.all_ready(1, within=900)
    await fleet.api.delete(Machine, "m-2", "default")

    async def clean() -> bool:
        (host,) = fleet.store.present(Host)
        return host.spec.release is None and host.spec.claim is None and host.status.history.failed_lives == 0

    await fleet.eventually("its record is clean", clean, within=1800)
