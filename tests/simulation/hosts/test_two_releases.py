"""Two releases in one cluster: each works on its own machines, and neither takes the other's ledger for its own."""

from simulation.hosts.interrupting import quick, small_fleet

from paddock.hosts.api import HostClaim, HostSpec, MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


async def _with_a_neighbour(world: World) -> FleetWorld:
    settings = quick(watch_namespaces=("default",), claim_name_prefix="mini-", reclaim_interval=60.0)
    fleet = small_fleet(world, hosts=3, settings=settings)
    await fleet.ready.wait()
    await fleet.api.create({"metadata": {"name": "nightly"}}, NAMESPACES)
    return fleet


def _fleet(namespace: str) -> MacFleet:
    wanted = MacFleetSpec(replicas=1, template=MacFleetTemplate(spec=MachineSpec(zone="fr-par-1")))
    return MacFleet(metadata=ObjectMeta(name="mini", namespace=namespace), spec=wanted)


@simulated(seeds=2)
async def test_a_release_makes_and_claims_only_what_is_in_its_namespace(world: World) -> None:
    fleet = await _with_a_neighbour(world)
    await fleet.create(_fleet("nightly"))
    await fleet.create(Machine(metadata=ObjectMeta(name="alone", namespace="nightly")))
    await fleet.create(_fleet("default"))
    await fleet.clock.sleep(900)
    mine = [machine for machine in await fleet.machines() if machine.metadata.namespace == "default"]
    theirs = [machine for machine in await fleet.machines() if machine.metadata.namespace == "nightly"]
    assert [machine.status.ready for machine in mine] == [True]
    assert [machine.metadata.name for machine in theirs] == ["alone"], "their operator makes the fleet's machines"
    assert not theirs[0].metadata.finalizers
    assert not theirs[0].status.phase
    assert not (await fleet.api.get(MacFleet, "mini", "nightly")).status.conditions


@simulated(seeds=2)
async def test_the_ledger_of_the_other_release_is_not_taken_for_ours(world: World) -> None:
    fleet = await _with_a_neighbour(world)
    await fleet.create(_fleet("default"))
    await fleet.all_ready(1, within=900)
    (machine,) = await fleet.machines()
    # The neighbour mirrors the same servers; what its mirror says of them is about its own claims.
    for server in [each.id for each in fleet.cloud.hosts()]:
        claim = HostClaim(machine_namespace="nightly", machine_name="mini-gone", machine_uid="u-1", epoch=9)
        spec = HostSpec(zone="fr-par-1", server_id=server, claim=claim, epoch=9)
        await fleet.create(Host(metadata=ObjectMeta(name=server, namespace="nightly"), spec=spec))
    await fleet.clock.sleep(1800)
    (after,) = await fleet.machines()
    assert after.status.ready
    assert after.status.server_id == machine.status.server_id
    ours = [host for host in fleet.store.present(Host) if host.metadata.namespace == "default"]
    assert sorted(host.status.state for host in ours) == ["owned", "pooled", "pooled"]
    assert fleet.wipes == []
