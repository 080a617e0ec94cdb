"""A release and a termination that are interrupted at every effect: nothing live is wiped, nothing is lost."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from simulation.hosts.interrupting import (
    FleetInvariants,
    Kind,
    from_here,
    interrupt_everywhere,
    interrupted_by,
    small_fleet,
    who_has_it,
)

from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.delete import RELEASE_POLICY
from paddock.simulator.faults import Crash, FaultMoment, LoseAnswer
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World


async def _ready_then_deleted(fleet: FleetWorld) -> str:
    """A machine that got ready and is then deleted; its server."""
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    from_here(fleet.world)
    await fleet.api.delete(Machine, "m-1", "default")
    return machine.status.server_id


async def _gone(fleet: FleetWorld, within: float) -> None:
    async def none_left() -> bool:
        return not await fleet.machines()

    await fleet.eventually("the machine is gone", none_left, within)


async def _a_deleted_machine_gives_its_host_back(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    server = await _ready_then_deleted(fleet)
    await _gone(fleet, within=60)
    await FleetInvariants(fleet).healthy()
    assert fleet.cloud.host(server).install >= 2


@interrupted_by
def test_a_release_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_deleted_machine_gives_its_host_back, kinds=kinds) >= 10


async def _the_host_of_one_serves_the_next(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    server = await _ready_then_deleted(fleet)
    await fleet.machine("m-2")

    async def served() -> bool:
        return [(m.metadata.name, m.status.server_id) for m in await fleet.machines() if m.status.ready] == [
            ("m-2", server)
        ]

    await fleet.eventually("the second machine has the host", served, within=900)
    await FleetInvariants(fleet).healthy()


@pytest.mark.slow
def test_the_next_tenant_gets_a_clean_host_whatever_interrupts_the_change() -> None:
    """The second machine waits for the host from the moment the first lets go: it is never early."""
    kinds = (Crash(FaultMoment.AFTER), LoseAnswer())
    assert interrupt_everywhere(_the_host_of_one_serves_the_next, kinds=kinds, only=who_has_it) >= 10


def _terminated(*, below_floor: bool, shape: str = "typed"):
    async def scenario(world: World) -> None:
        fleet = small_fleet(world, hosts=1)
        fleet.cloud.behaviour.floor_shape = shape  # pyright: ignore[reportAttributeAccessIssue]
        if below_floor:
            fleet.pool[0].deletable_at = world.clock.now() + timedelta(seconds=90)
        else:
            fleet.pool[0].deletable_at = world.clock.now()
        await fleet.machine("m-1")
        await fleet.api.merge_patch(
            Machine, "m-1", {"metadata": {"annotations": {RELEASE_POLICY: "terminate"}}}, "default"
        )
        await fleet.all_ready(1, within=900)
        from_here(world)
        await fleet.api.delete(Machine, "m-1", "default")
        await _gone(fleet, within=60)

        async def cloud_is_empty() -> bool:
            return not fleet.cloud.hosts() and not await fleet.hosts()

        await fleet.eventually("server and Host are gone", cloud_is_empty, within=900, every=5.0)
        FleetInvariants(fleet).safe()
        assert all(wipe.how == "delete" for wipe in fleet.wipes)

    return scenario


@interrupted_by
def test_a_termination_survives_every_interruption_of_every_effect(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_terminated(below_floor=False), kinds=kinds) >= 5


@pytest.mark.parametrize("shape", ["typed", pytest.param("bare", marks=pytest.mark.slow)])
@interrupted_by
def test_a_termination_below_the_billing_floor_is_scheduled_whatever_interrupts_it(
    shape: str, kinds: Sequence[Kind]
) -> None:
    assert interrupt_everywhere(_terminated(below_floor=True, shape=shape), kinds=kinds) >= 5
