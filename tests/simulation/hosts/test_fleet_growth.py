"""A fleet grows in steps: a wrong number of replicas that is corrected within seconds costs a handful of Machines."""

from collections.abc import Sequence
from typing import Literal

import pytest
from simulation.hosts.interrupting import quick

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.builtin import Event
from paddock.kube.objects import Condition, ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

_AT_A_TIME = 10
_ORDERED_AT_A_TIME = 3


async def _fleet(
    fleet: FleetWorld, replicas: int, source: Literal["Pool", "Order"] = "Pool", name: str = "minis"
) -> None:
    spec = MacFleetSpec(replicas=replicas, template=MacFleetTemplate(spec=MachineSpec(source=source)))
    await fleet.create(MacFleet(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))


async def _replicas(fleet: FleetWorld, replicas: int) -> None:
    await fleet.api.merge_patch(MacFleet, "minis", {"spec": {"replicas": replicas}}, "default")


def _living(fleet: FleetWorld) -> Sequence[Machine]:
    return [each for each in fleet.store.present(Machine) if each.metadata.deletion_timestamp is None]


def _said(fleet: FleetWorld) -> Condition:
    (seen,) = fleet.store.present(MacFleet)
    return next(each for each in seen.status.conditions if each.type == "Ready")


async def _most(fleet: FleetWorld, seconds: float) -> int:
    """The most Machines that were there at once."""
    most, until = 0, fleet.clock.monotonic() + seconds
    while fleet.clock.monotonic() < until:
        most = max(most, len(fleet.store.present(Machine)))
        await fleet.clock.sleep(0.05)
    return most


@simulated(2)
async def test_ten_thousand_replicas_by_mistake_make_ten_surplus_machines_at_most(world: World) -> None:
    fleet = FleetWorld(world, hosts=12, settings=quick())
    await _fleet(fleet, 10)
    await fleet.all_ready(10, within=900)
    await _replicas(fleet, 10_000)
    most = await _most(fleet, 5.0)
    await _replicas(fleet, 10)
    most = max(most, await _most(fleet, 60.0))
    # Two Macs were free, and were claimed; beyond those, ten Machines may wait for a host.
    assert 10 < most <= 10 + 2 + _AT_A_TIME
    await fleet.eventually("all surplus is gone", lambda: _is(len(fleet.store.present(Machine)) == 10), within=900)
    await fleet.all_ready(10, within=900)
    assert _said(fleet).reason == "AllReady"


@simulated(2)
async def test_a_number_that_is_corrected_in_the_middle_of_a_pass_stops_that_pass(world: World) -> None:
    fleet = FleetWorld(world, hosts=0, settings=quick())
    await _fleet(fleet, 10_000)
    await fleet.eventually("it began", lambda: _is(len(_living(fleet)) >= 3), every=0.005)
    before = len(_living(fleet))
    await _replicas(fleet, 1)
    # What was on its way when the number changed: one creation, whose look at the fleet came before.
    assert await _most(fleet, 30.0) <= before + 2
    assert len(fleet.store.present(Machine)) == 1


@simulated(2)
async def test_a_fleet_shrunk_by_mistake_keeps_what_was_not_deleted_yet(world: World) -> None:
    fleet = FleetWorld(world, hosts=0, settings=quick())
    await _fleet(fleet, _AT_A_TIME)
    await fleet.eventually("all are made", lambda: _is(len(_living(fleet)) == _AT_A_TIME))
    kept = {each.metadata.uid for each in _living(fleet)}
    await _replicas(fleet, 0)
    await fleet.eventually("it began", lambda: _is(len(_living(fleet)) < _AT_A_TIME), within=5, every=0.005)
    left = len(_living(fleet))
    await _replicas(fleet, _AT_A_TIME)
    await world.clock.sleep(30.0)
    assert len(kept & {each.metadata.uid for each in _living(fleet)}) >= left - 2


@simulated(1)
async def test_a_fleet_without_hosts_waits_with_ten_machines_and_says_why(world: World) -> None:
    fleet = FleetWorld(world, hosts=3, settings=quick())
    await _fleet(fleet, 500)
    await world.clock.sleep(300.0)
    assert len(fleet.store.present(Machine)) == 3 + _AT_A_TIME
    said = _said(fleet)
    assert (said.status, said.reason) == ("False", "WaitingForHosts")
    assert "3 of 500 ready; 13 are made, 10 of them wait for a host" in said.message
    events = [each for each in (await fleet.api.list(Event, "default")).items if each.reason == "WaitingForHosts"]
    assert [(each.type, each.count) for each in events] == [("Warning", 1)]


@simulated(1)
@pytest.mark.slow
async def test_no_more_than_three_macs_are_on_order_at_once(world: World) -> None:
    """Each is paid for a day: a mistake that is corrected before the first is delivered rents three."""
    fleet = FleetWorld(world, hosts=0, settings=quick())
    fleet.cloud.behaviour.order_of_another_image = 900.0
    await _fleet(fleet, 1000, "Order")
    until = world.clock.monotonic() + 1800
    while world.clock.monotonic() < until:
        assert sum(not each.status.server_id for each in _living(fleet)) <= _ORDERED_AT_A_TIME
        await world.clock.sleep(5.0)
    assert len(_living(fleet)) > _ORDERED_AT_A_TIME, "those that were delivered made room for the next"


@pytest.mark.slow
@simulated(1)
async def test_a_fleet_of_thirty_is_ready_as_soon_as_if_all_were_made_at_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Growth is limited by what happens on the Macs, not by the steps."""
    fleet = FleetWorld(world, hosts=60, settings=quick(workers=16))
    await world.clock.sleep(30.0)  # the inventory has seen them all
    took: list[float] = []
    for name, at_a_time in (("minis", _AT_A_TIME), ("others", 1000)):
        monkeypatch.setattr("paddock.hosts.fleet._AT_A_TIME", at_a_time)
        before, began = sum(m.status.ready for m in _living(fleet)), world.clock.monotonic()
        await _fleet(fleet, 30, name=name)
        await fleet.all_ready(before + 30, within=1800)
        took.append(world.clock.monotonic() - began)
    assert took[0] <= 1.1 * took[1] + 5.0, took


async def _is(holds: bool) -> bool:
    return holds
