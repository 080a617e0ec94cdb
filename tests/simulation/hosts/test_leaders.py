"""Two operators: elected ones whose leader is killed or cut off at every effect, and two that both believe to lead."""

import pytest
from simulation.hosts.interrupting import (
    Cut,
    FleetInvariants,
    effects,
    from_here,
    interrupt_everywhere,
    small_fleet,
    who_has_it,
)

from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.simulator.faults import Crash, Fail, FaultMoment, Late, LoseAnswer
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def change_of_tenant(fleet: FleetWorld) -> None:
    """One machine goes, another comes, and there is one host for both."""
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    from_here(fleet.world)
    await fleet.api.delete(Machine, "m-1", "default")
    await fleet.machine("m-2")

    async def changed() -> bool:
        return [m.metadata.name for m in await fleet.machines() if m.status.ready] == ["m-2"]

    await fleet.eventually("the second machine has the host", changed, within=1200)
    await FleetInvariants(fleet).healthy()


async def _change_of_tenant_under_two_candidates(world: World) -> None:
    await change_of_tenant(small_fleet(world, hosts=1, operators=2))


def test_a_leader_that_is_killed_at_any_effect_leaves_nothing_that_the_next_cannot_finish() -> None:
    interrupt_everywhere(_change_of_tenant_under_two_candidates, kinds=[Crash(FaultMoment.AFTER)], only=who_has_it)


@pytest.mark.slow
def test_a_leader_that_is_cut_off_at_any_effect_harms_nobody() -> None:
    interrupt_everywhere(
        _change_of_tenant_under_two_candidates, kinds=[Cut(LoseAnswer("timeout"), 20.0)], only=who_has_it
    )


@pytest.mark.slow
def test_a_call_of_a_deposed_leader_that_arrives_under_the_next_one_harms_nobody() -> None:
    """The call arrives after the lease may have passed on, and within the time that a host needs to settle."""
    interrupt_everywhere(_change_of_tenant_under_two_candidates, kinds=[Cut(Late(8.0), 20.0)], only=who_has_it)


@simulated(seeds=6)
async def test_two_leaders_that_do_not_know_of_each_other_never_share_a_host(world: World) -> None:
    fleet = small_fleet(world, hosts=2, operators=2, elect=False)
    world.faults.inject(
        LoseAnswer(), Late(3.0), Fail(), Crash(FaultMoment.AFTER), where=effects, probability=0.08, until=120.0
    )
    ward = FleetInvariants(fleet)
    for name in ("m-1", "m-2", "m-3"):
        await fleet.machine(name)
    for _ in range(40):
        await world.clock.sleep(1.0)
        ward.safe()
    await fleet.api.delete(Machine, "m-1", "default")
    await world.clock.sleep(90.0)
    await fleet.all_ready(2, within=1800)
    await ward.healthy()


@simulated(seeds=4)
async def test_two_leaders_that_do_not_know_of_each_other_change_tenants_safely(world: World) -> None:
    await change_of_tenant(small_fleet(world, hosts=1, operators=2, elect=False))


async def _change_of_tenant_with_a_stale_cache(world: World) -> None:
    await change_of_tenant(small_fleet(world, hosts=1, lag=4.0))


@pytest.mark.slow
def test_a_change_of_tenants_survives_interruptions_with_a_cache_that_shows_the_past() -> None:
    interrupt_everywhere(
        _change_of_tenant_with_a_stale_cache, kinds=[Crash(FaultMoment.AFTER), LoseAnswer()], only=who_has_it
    )


@simulated(seeds=4)
async def test_machines_that_choose_from_a_stale_cache_never_share_a_host(world: World) -> None:
    fleet = small_fleet(world, hosts=3, lag=6.0)
    ward = FleetInvariants(fleet)
    for name in ("m-1", "m-2", "m-3", "m-4"):
        await fleet.machine(name)
    await fleet.all_ready(3, within=900)
    await ward.healthy()
    # A cache that offers taken hosts again and again must not make anybody write again and again.
    assert sum(effects(call) for call in world.faults.calls) < 250
