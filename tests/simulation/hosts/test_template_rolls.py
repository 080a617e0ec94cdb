"""A changed template of a MacFleet: nothing by default, one drained machine after the other on request."""

import pytest
from simulation.hosts.interrupting import small_fleet
from simulation.hosts.work import Work

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.conditions import get_condition
from paddock.kube.errors import InvalidError
from paddock.kube.objects import Condition, ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

SIZE = 3


async def _fleet(world: World, *, spare: int = 1) -> tuple[FleetWorld, Work]:
    fleet = small_fleet(world, hosts=SIZE + spare)
    wanted = MacFleetSpec(replicas=SIZE, template=MacFleetTemplate(spec=MachineSpec(zone="fr-par-1")))
    await fleet.create(MacFleet(metadata=ObjectMeta(name="mini", namespace="default"), spec=wanted))
    await fleet.all_ready(SIZE, within=1800)
    work = Work(fleet)
    for machine in await fleet.machines():
        await work.node(machine)
    return fleet, work


async def _change(fleet: FleetWorld, **spec: object) -> None:
    await fleet.api.merge_patch(MacFleet, "mini", {"spec": spec}, namespace="default")


async def _said(fleet: FleetWorld) -> str:
    said = get_condition((await fleet.api.get(MacFleet, "mini", "default")).status.conditions, "Ready")
    return said.message if said is not None else ""


async def _template(fleet: FleetWorld) -> Condition | None:
    return get_condition((await fleet.api.get(MacFleet, "mini", "default")).status.conditions, "TemplateValid")


@simulated(seeds=1)
async def test_a_changed_template_leaves_machines_alone_until_they_are_deleted(world: World) -> None:
    fleet, _ = await _fleet(world)
    before = {machine.metadata.name for machine in await fleet.machines()}
    await _change(fleet, template={"spec": {"hostCPU": 4}})
    await world.clock.sleep(600.0)
    assert {machine.metadata.name for machine in await fleet.machines()} == before
    assert "3 of an older template stay as they are" in await _said(fleet)
    await fleet.api.delete(Machine, min(before), "default")

    async def replaced() -> bool:
        there = [machine for machine in await fleet.machines() if machine.status.ready]
        return len(there) == SIZE and sum(machine.spec.host_cpu == 4 for machine in there) == 1

    await fleet.eventually("the one that was deleted came back of the new template", replaced, within=1800)


@simulated(seeds=1)
async def test_a_roll_replaces_one_machine_at_a_time_and_waits_for_its_jobs(world: World) -> None:
    fleet, work = await _fleet(world)
    names = sorted(machine.metadata.name for machine in await fleet.machines())
    await work.pod("job-1", names[0])
    work.watch()
    await _change(fleet, strategy="RollingUpdate", template={"spec": {"hostCPU": 4}})
    fewest = SIZE

    async def all_but_the_busy_one() -> bool:
        nonlocal fewest
        machines = await fleet.machines()
        ready = [m for m in machines if m.status.ready and m.metadata.deletion_timestamp is None]
        fewest = min(fewest, len(ready))
        return {m.metadata.name for m in machines if m.spec.host_cpu != 4} == {names[0]}

    await fleet.eventually("only the busy one is left", all_but_the_busy_one, within=3600)
    assert fewest >= SIZE - 1, "never two at once"
    await world.clock.sleep(900.0)
    assert names[0] in {machine.metadata.name for machine in await fleet.machines()}, "it waits for its job"
    await work.end("job-1")

    async def rolled() -> bool:
        machines = await fleet.machines()
        return len(machines) == SIZE and all(m.spec.host_cpu == 4 and m.status.ready for m in machines)

    await fleet.eventually("all are of the new template", rolled, within=3600)
    assert work.seen
    assert not work.killed


@pytest.mark.slow
@simulated(seeds=1)
async def test_a_template_that_cannot_be_applied_is_held_with_its_reason_and_costs_nothing(world: World) -> None:
    fleet, work = await _fleet(world)
    before = {machine.metadata.uid for machine in await fleet.machines()}
    work.watch()
    for field, value, named in (
        ("zone", "mars-1", "template.spec.zone 'mars-1' has no Macs: use one of fr-par-1"),
        ("type", "M9-XXL", "template.spec.type 'M9-XXL' is not rented out in fr-par-1"),
        ("os", "26.1", "template.spec.os"),
    ):
        await _change(fleet, strategy="RollingUpdate", template={"spec": {field: value}})
        await world.clock.sleep(900.0)
        machines = await fleet.machines()
        assert {machine.metadata.uid for machine in machines if machine.status.ready} == before, "nobody was replaced"
        assert "3 of an older template stay as they are, because the template of now cannot work" in await _said(fleet)
        assert named in await _said(fleet)
        refused = await _template(fleet)
        assert refused is not None
        assert (refused.status, refused.reason, named in refused.message) == ("False", "InvalidTemplate", True)
        await _change(fleet, template={"spec": {field: getattr(MachineSpec(), field)}})
        await world.clock.sleep(60.0)
        assert await _template(fleet) is None
    assert not work.seen, "nothing was wiped"
    assert len(fleet.cloud.hosts()) == SIZE + 1, "nothing was bought"


@simulated(seeds=1)
async def test_a_template_whose_fault_only_shows_at_work_costs_one_machine_and_is_named(world: World) -> None:
    fleet, _ = await _fleet(world, spare=0)
    await _change(fleet, strategy="RollingUpdate", template={"spec": {"adoptPoolPrefix": "nothing-here-"}})
    await world.clock.sleep(1800.0)
    machines = await fleet.machines()
    assert sum(not machine.spec.adopt_pool_prefix and machine.status.ready for machine in machines) == SIZE - 1
    assert "2 of an older template are replaced one after the other; the next one waits for" in await _said(fleet)


@simulated(seeds=1)
async def test_an_impossible_drain_timeout_is_refused_by_its_field(world: World) -> None:
    fleet, _ = await _fleet(world)
    before = {machine.metadata.uid for machine in await fleet.machines()}
    name = (await fleet.machines())[0].metadata.name
    for seconds in (-1, 2_592_001, "soon"):
        with pytest.raises(InvalidError, match="drainTimeoutSeconds"):
            await _change(fleet, template={"spec": {"drainTimeoutSeconds": seconds}})
        with pytest.raises(InvalidError, match="drainTimeoutSeconds"):
            await fleet.api.merge_patch(Machine, name, {"spec": {"drainTimeoutSeconds": seconds}}, "default")
    assert {machine.metadata.uid for machine in await fleet.machines()} == before
