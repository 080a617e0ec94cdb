"""A host that cannot be bootstrapped is rebooted once, given back and replaced, whatever interrupts that."""

from collections.abc import Sequence

from simulation.hosts.interrupting import (
    FleetInvariants,
    Kind,
    effects,
    from_here,
    interrupt_everywhere,
    interrupted_by,
    small_fleet,
    until_here,
)

from paddock.simulator.faults import EffectCall
from paddock.simulator.process import World


async def _a_broken_host_is_replaced(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    fleet.macs.seconds = 1.0
    first = min(fleet.pool, key=lambda host: host.id).id
    fleet.macs.broken.add(first)
    await fleet.machine("m-1")

    async def failed_once() -> bool:
        return any(machine.status.bootstrap_attempts for machine in await fleet.machines())

    await fleet.eventually("the first bootstrap failed", failed_once, within=300, every=0.1)
    from_here(world)

    async def elsewhere() -> bool:
        return any(machine.status.server_id not in ("", first) for machine in await fleet.machines())

    await fleet.eventually("another host is bound", elsewhere, within=900)
    until_here(world)
    await fleet.all_ready(1, within=900)
    ward = FleetInvariants(fleet)
    await ward.healthy()
    (machine,) = await fleet.machines()
    assert machine.status.server_id != first
    assert (machine.status.bootstrap_attempts, machine.status.bootstrap_reboot_issued) == (0, False)
    assert fleet.cloud.host(first).install >= 2
    reboots = [entry for entry in fleet.cloud.audit if entry.operation == "reboot" and entry.effect]
    # Once; an answer that was lost may cost a second one, never a third.
    assert 1 <= len(reboots) <= 2


@interrupted_by
def test_giving_a_broken_host_back_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_broken_host_is_replaced, only=_decisions, kinds=kinds) >= 12


def _decisions(call: EffectCall) -> bool:
    """All effects but what the inventory mirrors into a Host's status, which the claim's test interrupts."""
    return effects(call) and not ("siliconhosts/" in call.path and call.path.endswith("/status"))
