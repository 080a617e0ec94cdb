"""A claim that is interrupted at every effect: one host, one tenant, and the machine gets there."""

from collections.abc import Sequence

from simulation.hosts.interrupting import (
    FleetInvariants,
    Kind,
    from_here,
    interrupt_everywhere,
    interrupted_by,
    small_fleet,
)

from paddock.simulator.process import World


async def _a_machine_claims_one_of_two_hosts(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    from_here(world)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    await FleetInvariants(fleet).healthy()


@interrupted_by
def test_a_claim_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_machine_claims_one_of_two_hosts, kinds=kinds) >= 20
