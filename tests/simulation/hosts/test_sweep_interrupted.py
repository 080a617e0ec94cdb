"""A reclaim that is interrupted at every effect: the orphaned host comes back, and only that one."""

from collections.abc import Sequence

from simulation.hosts.interrupting import (
    FleetInvariants,
    Kind,
    from_here,
    interrupt_everywhere,
    interrupted_by,
    quick,
    small_fleet,
)

from paddock.simulator.process import World


async def _a_stranded_host_is_reclaimed(world: World) -> None:
    fleet = small_fleet(world, hosts=2, settings=quick(claim_name_prefix="m-", reclaim_interval=20.0))
    await fleet.machine("m-1")
    await fleet.machine("m-2")
    await fleet.all_ready(2, within=900)
    orphaned = next(m.status.server_id for m in await fleet.machines() if m.metadata.name == "m-1")
    from_here(world)
    await fleet.force_delete("m-1")
    await FleetInvariants(fleet).healthy()
    assert fleet.cloud.host(orphaned).install >= 2
    assert {wipe.server_id for wipe in fleet.wipes} == {orphaned}


@interrupted_by
def test_a_reclaim_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_stranded_host_is_reclaimed, kinds=kinds) >= 5
