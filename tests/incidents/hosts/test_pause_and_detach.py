"""An operator's cleanup must not race the claim. The test of that, and the recipe that it makes safe."""

from incidents.hosts.story import Machine, asked, cloud_host, mutations, one, settings, until_gone
from msgspec.structs import replace
from unit.hosts.made import machine

from paddock.cli.detach import detach, plan
from paddock.hosts.cluster_api import PAUSED, Go, Hold, may_delete, may_reconcile
from paddock.kube.objects import ObjectMeta
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

READS = ("get_server", "get", "rename")


@simulated(seeds=2)
async def test_a_paused_machine_claims_no_host(world: World) -> None:
    """`TestReconcile_PausedAnnotationSkipsAdoption`: no call about a server, no requeue, of the status only that it is paused."""
    fleet = FleetWorld(world, hosts=2, settings=settings())
    paused = ObjectMeta(name="m-1", namespace="default", annotations={PAUSED: "true"})
    await fleet.create(Machine(metadata=paused))
    before = await one(fleet, "m-1")
    await fleet.clock.sleep(1800)
    after = await one(fleet, "m-1")
    assert (after.spec, [condition.type for condition in after.status.conditions]) == (before.spec, ["Paused"])
    assert replace(after.status, conditions=()) == replace(before.status, conditions=())
    assert mutations(fleet) == []
    assert asked(fleet, *READS) == 0


@simulated(seeds=1)
async def test_a_machine_that_is_resumed_goes_on_where_it_was(world: World) -> None:
    fleet = FleetWorld(world, hosts=1, settings=settings())
    paused = ObjectMeta(name="m-1", namespace="default", annotations={PAUSED: "true"})
    await fleet.create(Machine(metadata=paused))
    await fleet.clock.sleep(120)
    await fleet.api.merge_patch(Machine, "m-1", {"metadata": {"annotations": {PAUSED: None}}}, namespace="default")
    await fleet.all_ready(1)


def test_the_gate_is_below_the_deletion_and_above_everything_else() -> None:
    """`reconcileDelete is intentionally above the pause gate so teardown still progresses on paused CRs`."""
    paused = machine(annotations={PAUSED: "true"})
    assert isinstance(may_reconcile(paused, None, None), Hold)
    assert may_delete(paused, None) == Go()


@simulated(seeds=1)
async def test_a_paused_machine_without_a_host_can_be_deleted(world: World) -> None:
    """`PausedAnnotationDoesNotBlockDelete`: the finalizer drops with an empty serverID."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    patch = {"metadata": {"annotations": {PAUSED: "true"}}}
    await fleet.api.merge_patch(Machine, "m-1", patch, namespace="default")
    await fleet.api.merge_patch(
        Machine, "m-1", {"status": {"serverID": None}}, namespace="default", subresource="status"
    )
    await fleet.api.delete(Machine, "m-1", "default")
    await until_gone(fleet, "m-1", within=30)


@simulated(seeds=2)
async def test_the_command_takes_a_machine_off_its_host_and_touches_neither_it_nor_the_pool(world: World) -> None:
    """`Operators set the annotation first, then patch, then delete`: what `paddock detach` does, against a running
    operator. Nothing is renamed, wiped or deleted, and no host leaves the pool for the doomed machine.
    """
    fleet = FleetWorld(world, hosts=3, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    before = mutations(fleet)
    names = {each.id: each.name for each in fleet.cloud.hosts()}
    said: list[str] = []
    intended = await plan(fleet.api, "m-1", "default")
    assert await detach(fleet.api, intended, fleet.clock, 30.0, said.append)
    await fleet.clock.sleep(600)
    assert mutations(fleet) == before
    assert {each.id: each.name for each in fleet.cloud.hosts()} == names
    assert said == [
        "paused m-1",
        f"cleared its server {server_id}",
        "deleted machine m-1",
        f"done; host {server_id} (m-1) was not touched",
    ]
    assert (await fleet.hosts())[server_id].status.state == "stranded"


@simulated(seeds=2)
async def test_a_machine_that_is_detached_while_its_bootstrap_fails_does_not_release_its_host(world: World) -> None:
    """The race that remains when a pass is already under way: it must notice the pause before it gives the host back."""
    fleet = FleetWorld(world, hosts=1, settings=settings())
    server_id = fleet.pool[0].id
    fleet.macs.broken.add(server_id)
    await fleet.machine("m-1")

    async def nearly() -> bool:
        return (await one(fleet, "m-1")).status.bootstrap_attempts == 7

    await fleet.eventually("seven bootstraps failed", nearly, within=3600)
    touched = len(fleet.macs.touched)

    async def at_it() -> bool:
        return len(fleet.macs.touched) > touched

    await fleet.eventually("the eighth is under way", at_it, within=300)
    before = mutations(fleet)
    intended = await plan(fleet.api, "m-1", "default")
    await detach(fleet.api, intended, fleet.clock, 300.0, lambda _: None)
    await until_gone(fleet, "m-1", within=600)
    await fleet.clock.sleep(600)
    host = (await fleet.hosts())[server_id]
    assert host.spec.release is None
    assert mutations(fleet) == before
    assert cloud_host(fleet, server_id).install == 1


@simulated(seeds=2)
async def test_duplicate_claims_on_one_server_are_resolved_without_touching_it(world: World) -> None:
    """The incident: three objects bound to one host for five days. Two let go by themselves and get hosts of their own."""
    fleet = FleetWorld(world, hosts=3, settings=settings())
    await fleet.machine("m-1")
    await fleet.all_ready(1)
    server_id = (await one(fleet, "m-1")).status.server_id
    install = cloud_host(fleet, server_id).install
    for name in ("m-2", "m-3"):
        await fleet.create(Machine(metadata=ObjectMeta(name=name, namespace="default", annotations={PAUSED: ""})))
        status = {"serverID": server_id, "hostName": server_id}
        await fleet.api.merge_patch(Machine, name, {"status": status}, namespace="default", subresource="status")
        patch = {"metadata": {"annotations": {PAUSED: None}}}
        await fleet.api.merge_patch(Machine, name, patch, namespace="default")

    async def apart() -> bool:
        machines = await fleet.machines()
        return len({each.status.server_id for each in machines if each.status.ready}) == 3

    await fleet.eventually("each has a host of its own", apart, within=3600)
    assert (await one(fleet, "m-1")).status.server_id == server_id
    assert cloud_host(fleet, server_id).name == "m-1"
    assert cloud_host(fleet, server_id).install == install
    assert {touch.machine_uid for touch in fleet.macs.touched if touch.server_id == server_id} == {
        (await one(fleet, "m-1")).metadata.uid
    }
