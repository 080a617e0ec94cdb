"""Macs that do not answer SSH hold up nobody else: claims and deletions go on beside their bootstraps."""

import pytest
from simulation.hosts.interrupting import quick, small_fleet

from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

SILENT = 50


async def _fifty_silent_macs(world: World) -> FleetWorld:
    """One machine is ready; fifty more have Macs that answer nothing; two Macs are free."""
    fleet = small_fleet(world, hosts=SILENT + 3, settings=quick(bootstrap_spread=1.0))
    await fleet.machine("ready")
    await fleet.all_ready(1, within=900)
    (ready,) = await fleet.machines()
    fleet.macs.silent |= {host.id for host in fleet.cloud.hosts()} - {ready.status.server_id}
    for number in range(SILENT):
        await fleet.machine(f"silent-{number:02}")

    async def all_tried() -> bool:
        return sum(machine.status.phase == "Bootstrapping" for machine in await fleet.machines()) == SILENT

    await fleet.eventually("all fifty are dialled", all_tried, within=1200)
    return fleet


@simulated(seeds=1)
@pytest.mark.slow
async def test_claims_deletions_and_bootstraps_go_on_while_fifty_macs_do_not_answer(world: World) -> None:
    fleet = await _fifty_silent_macs(world)
    fleet.macs.silent &= {machine.status.server_id for machine in await fleet.machines()}
    began = fleet.clock.monotonic()
    await fleet.machine("newcomer")
    # One that works, one that is dialled, and the last one to be dialled: nobody waits for a Mac that does not answer.
    for name in ("ready", "silent-07", "silent-49"):
        await fleet.api.delete(Machine, name, "default")

    async def claimed_and_gone() -> bool:
        there = {machine.metadata.name: machine for machine in await fleet.machines()}
        return len(there) == SILENT - 1 and bool(there["newcomer"].status.server_id)

    await fleet.eventually("the one is claimed and the others are gone", claimed_and_gone, within=60)

    async def ready() -> bool:
        return any(m.metadata.name == "newcomer" and m.status.ready for m in await fleet.machines())

    await fleet.eventually("a Mac that answers is bootstrapped", ready, within=200)
    assert fleet.clock.monotonic() - began < fleet.macs.patience, "before a single attempt has ended"
