"""While something is paused, moved or taken off its host by hand, nothing is touched."""

from typing import Any

from simulation.hosts.interrupting import FleetInvariants, quick, small_fleet

from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.cluster_api import BLOCK_MOVE, DELETE_FOR_MOVE, PAUSED, cluster_resource, machine_resource
from paddock.kube.conditions import get_condition
from paddock.simulator.fleet_world import POOL, FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

VERSION = "v1beta1"


def _mutations(fleet: FleetWorld) -> list[tuple[str, str]]:
    return [(entry.operation, entry.server_id) for entry in fleet.cloud.audit if entry.effect]


async def _annotate(fleet: FleetWorld, name: str, annotation: str) -> None:
    await fleet.api.merge_patch(Machine, name, {"metadata": {"annotations": {annotation: "true"}}}, "default")


async def _take_off_its_host(fleet: FleetWorld, name: str) -> None:
    """The recipe for a person with kubectl: pause, clear, delete."""
    await _annotate(fleet, name, PAUSED)
    await fleet.clock.sleep(1.0)  # whatever ran when it was paused has ended
    await fleet.api.merge_patch(Machine, name, {"status": {"serverID": None}}, "default", subresource="status")
    await fleet.api.merge_patch(Machine, name, {"spec": {"providerID": None}}, "default")
    await fleet.api.delete(Machine, name, "default")


async def _gone(fleet: FleetWorld, name: str) -> None:
    async def left() -> bool:
        return all(machine.metadata.name != name for machine in await fleet.machines())

    await fleet.eventually(f"{name} is gone", left, within=120)


@simulated(seeds=3)
async def test_a_machine_that_is_taken_off_its_host_by_hand_touches_neither_it_nor_another(world: World) -> None:
    fleet = small_fleet(world, hosts=2)
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    server = (await fleet.machines())[0].status.server_id
    before = _mutations(fleet)
    await _take_off_its_host(fleet, "m-1")
    await _gone(fleet, "m-1")
    await world.clock.sleep(300.0)
    assert _mutations(fleet) == before
    assert fleet.cloud.host(server).name == "m-1"
    assert (await fleet.hosts())[server].status.state == "stranded", "nobody has it, and that is shown"


@simulated(seeds=2)
async def test_the_second_of_two_machines_on_one_host_can_be_taken_off_while_the_sweep_reclaims(world: World) -> None:
    fleet = small_fleet(world, hosts=1, settings=quick(claim_name_prefix="m-", reclaim_interval=20.0))
    await fleet.machine("m-1")
    await fleet.all_ready(1, within=900)
    server = (await fleet.machines())[0].status.server_id
    before = _mutations(fleet)
    await fleet.machine("m-2")
    await fleet.api.merge_patch(Machine, "m-2", {"status": {"serverID": server}}, "default", subresource="status")
    await _take_off_its_host(fleet, "m-2")
    await _gone(fleet, "m-2")
    await world.clock.sleep(120.0)
    assert _mutations(fleet) == before
    await FleetInvariants(fleet).healthy()


async def _owned_by_cluster_api(fleet: FleetWorld, **spec: str) -> None:
    """A Cluster, its Machine, and our machine below it, as Cluster API core makes them."""
    api = fleet.api
    await fleet.ready.wait()
    group = f"cluster.x-k8s.io/{VERSION}"
    cluster: dict[str, Any] = {
        "apiVersion": group,
        "kind": "Cluster",
        "metadata": {"name": "c-1", "namespace": "default"},
        "spec": {},
        "status": {"infrastructureReady": True},
    }
    await api.create(cluster, cluster_resource(VERSION))
    await api.merge_patch(
        cluster_resource(VERSION), "c-1", {"status": cluster["status"]}, "default", subresource="status"
    )
    made = await api.create(
        {
            "apiVersion": group,
            "kind": "Machine",
            "metadata": {"name": "m-1", "namespace": "default"},
            "spec": {"clusterName": "c-1", **spec},
        },
        machine_resource(VERSION),
    )
    await fleet.machine("m-1")
    owner = {"apiVersion": group, "kind": "Machine", "name": "m-1", "uid": made["metadata"]["uid"], "controller": True}
    await api.merge_patch(Machine, "m-1", {"metadata": {"ownerReferences": [owner]}}, "default")


async def _pause_cluster(fleet: FleetWorld, *, paused: bool) -> None:
    await fleet.api.merge_patch(cluster_resource(VERSION), "c-1", {"spec": {"paused": paused}}, "default")


@simulated(seeds=2)
async def test_nothing_is_touched_while_the_cluster_is_paused_not_even_by_a_deletion(world: World) -> None:
    fleet = small_fleet(world, hosts=1, cluster_api=True)
    await _owned_by_cluster_api(fleet)
    await fleet.all_ready(1, within=900)
    await _pause_cluster(fleet, paused=True)
    before = _mutations(fleet)
    await fleet.api.delete(Machine, "m-1", "default")
    await world.clock.sleep(200.0)
    assert _mutations(fleet) == before
    assert len(await fleet.machines()) == 1, "it waits, with its finalizer"
    await _pause_cluster(fleet, paused=False)
    await _gone(fleet, "m-1")
    await FleetInvariants(fleet).healthy()


@simulated(seeds=2)
async def test_a_machine_that_clusterctl_moves_away_leaves_its_host_alone(world: World) -> None:
    fleet = small_fleet(world, hosts=1, cluster_api=True)
    await _owned_by_cluster_api(fleet)
    await fleet.all_ready(1, within=900)
    server = (await fleet.machines())[0].status.server_id
    before = _mutations(fleet)
    # As clusterctl does it: pause, mark, delete, then take the finalizer away.
    await _pause_cluster(fleet, paused=True)
    await _annotate(fleet, "m-1", DELETE_FOR_MOVE)
    await fleet.api.delete(Machine, "m-1", "default")
    await world.clock.sleep(30.0)
    await fleet.api.merge_patch(Machine, "m-1", {"metadata": {"finalizers": None}}, "default")
    await _gone(fleet, "m-1")
    await world.clock.sleep(200.0)
    assert _mutations(fleet) == before
    assert fleet.cloud.host(server).name == "m-1"


@simulated(seeds=1)
async def test_a_pause_is_a_condition_and_so_is_its_end(world: World) -> None:
    fleet = small_fleet(world, hosts=1, cluster_api=True)
    await _owned_by_cluster_api(fleet)
    await fleet.all_ready(1, within=900)

    async def paused() -> str:
        said = get_condition((await fleet.machines())[0].status.conditions, "Paused")
        return f"{said.status} {said.reason}" if said is not None else ""

    assert await paused() == "", "one that never was paused has nothing to say"
    await _annotate(fleet, "m-1", PAUSED)

    async def is_said() -> bool:
        return await paused() == "True Paused"

    await fleet.eventually("the pause is said", is_said, within=60)
    assert (await fleet.machines())[0].status.ready, "a pause is no failure"
    await fleet.api.merge_patch(Machine, "m-1", {"metadata": {"annotations": {PAUSED: None}}}, "default")

    async def is_over() -> bool:
        return await paused() == "False NotPaused"

    await fleet.eventually("its end is said", is_over, within=60)


@simulated(seeds=1)
async def test_a_machine_takes_the_failure_domain_of_its_owner_for_its_zone(world: World) -> None:
    fleet = small_fleet(world, hosts=1, cluster_api=True)
    fleet.cloud.add_host(f"{POOL}of-zone-3", zone="fr-par-3", server_type="M2-L")
    await _owned_by_cluster_api(fleet, failureDomain="fr-par-3")
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    assert (machine.spec.zone, machine.status.failure_domain) == ("fr-par-3", "fr-par-3")
    assert machine.spec.provider_id.startswith("scw-applesilicon://fr-par-3/")


@simulated(seeds=2)
async def test_a_claim_that_is_under_way_holds_up_a_move_and_is_finished_under_the_pause(world: World) -> None:
    fleet = small_fleet(world, hosts=1, cluster_api=True)
    await _owned_by_cluster_api(fleet)

    async def claiming() -> bool:
        return bool((await fleet.machines())[0].metadata.annotations.get(BLOCK_MOVE))

    await fleet.eventually("clusterctl is asked to wait", claiming, within=300, every=0.05)
    assert not (await fleet.machines())[0].status.server_id
    await _pause_cluster(fleet, paused=True)
    for process in fleet.operators:
        process.crash()

    async def movable() -> bool:
        return not await claiming()

    await fleet.eventually("the move may go on", movable, within=600)
    (machine,) = await fleet.machines()
    assert machine.spec.provider_id, "so that the next cluster finds its host"
    assert fleet.cloud.host(machine.status.server_id).name == "m-1"
    await world.clock.sleep(600)
    assert fleet.macs.touched == [], "a pause is a pause"
    await _pause_cluster(fleet, paused=False)
    await fleet.all_ready(1, within=900)
    assert BLOCK_MOVE not in (await fleet.machines())[0].metadata.annotations


@simulated(seeds=1)
async def test_a_machine_that_waits_for_a_host_or_has_one_holds_up_no_move_and_foreign_marks_stay(world: World) -> None:
    fleet = small_fleet(world, hosts=0, cluster_api=True)
    await _owned_by_cluster_api(fleet)
    await world.clock.sleep(300)
    assert BLOCK_MOVE not in (await fleet.machines())[0].metadata.annotations
    fleet.cloud.seed_pool(1, server_type="M2-L", prefix=POOL)
    await fleet.all_ready(1, within=900)
    assert BLOCK_MOVE not in (await fleet.machines())[0].metadata.annotations
    await _annotate(fleet, "m-1", BLOCK_MOVE)
    await world.clock.sleep(900)
    assert (await fleet.machines())[0].metadata.annotations[BLOCK_MOVE] == "true", "somebody else's"


@simulated(seeds=1)
async def test_a_machine_of_a_fleet_without_cluster_api_is_not_marked(world: World) -> None:
    fleet = small_fleet(world, hosts=1)
    await fleet.machine("m-1")
    marked = set[str]()

    async def ready() -> bool:
        (machine,) = await fleet.machines()
        marked.update(machine.metadata.annotations)
        return machine.status.ready

    await fleet.eventually("it is ready", ready, within=900, every=0.05)
    assert BLOCK_MOVE not in marked
