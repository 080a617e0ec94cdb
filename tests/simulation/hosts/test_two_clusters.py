"""Two clusters that share one project and one pool: the cloud's names are all they see of each other."""

from itertools import chain

from simulation.hosts.interrupting import FleetInvariants, quick, small_fleet
from simulation.hosts.invariants import Picture, unsafe

from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.simulator.faults import Delay, Late, LoseAnswer
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


def _two_clusters(world: World, hosts: int, prefix: str = "b-") -> tuple[FleetWorld, FleetWorld]:
    """Both reclaim orphans, each in its own namespace of names; one set of fake Macs serves both."""
    first = small_fleet(world, hosts=hosts, settings=quick(claim_name_prefix="a-", reclaim_interval=20.0))
    second = small_fleet(
        world,
        hosts=0,
        settings=quick(claim_name_prefix=prefix, reclaim_interval=20.0),
        cloud=first.cloud,
        name="second-",
    )
    second.macs = first.macs
    return first, second


def _safe(*clusters: FleetWorld) -> None:
    wrong = unsafe(
        Picture(
            clusters[0].cloud.hosts(),
            [],
            list(chain.from_iterable(fleet.store.present(Machine) for fleet in clusters)),
            list(chain.from_iterable(fleet.wipes for fleet in clusters)),
            clusters[0].macs,
        )
    )
    assert not wrong, "\n".join(wrong)


async def _settled(fleet: FleetWorld, rival: str) -> None:
    """Settled, whatever the rival has."""
    ward = FleetInvariants(fleet)

    async def holds() -> bool:
        ward.elsewhere = {host.id for host in fleet.cloud.hosts() if host.name.startswith(rival)}
        return not ward.wrong()

    await fleet.eventually(f"the cluster beside {rival} has settled: {ward.wrong()}", holds, within=1200, every=5.0)


@simulated(seeds=8)
async def test_two_clusters_that_reach_for_one_host_never_both_get_it(world: World) -> None:
    first, second = _two_clusters(world, hosts=1)
    # Late by as much as a request may be: so that one's renames arrive in the midst of the other's.
    world.faults.inject(Delay(0.5), Delay(1.2), LoseAnswer(), name="PATCH */servers/*", probability=0.6, until=40.0)
    await first.machine("a-1")
    await second.machine("b-1")
    for _ in range(60):
        await world.clock.sleep(1.0)
        _safe(first, second)
    ready = [m for fleet in (first, second) for m in await fleet.machines() if m.status.ready]

    async def one_is_ready() -> bool:
        ready[:] = [m for fleet in (first, second) for m in await fleet.machines() if m.status.ready]
        return len(ready) == 1

    await first.eventually("one of the two has the host", one_is_ready, within=1200)
    await _settled(first, "b-")
    await _settled(second, "a-")
    _safe(first, second)
    assert first.cloud.host(ready[0].status.server_id).name == ready[0].metadata.name
    assert not first.wipes, "nobody wiped what the other had"


@simulated(seeds=4)
async def test_a_rivals_rename_that_arrives_late_is_noticed_before_anything_is_done_to_the_host(world: World) -> None:
    """Both saw the host free; one's rename arrives when the other has long given it its name. This is why we settle."""
    first, second = _two_clusters(world, hosts=1)
    world.faults.inject(Late(8.0), name="PATCH */servers/*", process="second-operator-0", nth=1)
    await first.machine("a-1")
    await second.machine("b-1")
    for _ in range(120):
        await world.clock.sleep(1.0)
        _safe(first, second)

    async def one_is_ready() -> bool:
        return sum(machine.status.ready for machine in [*await first.machines(), *await second.machines()]) == 1

    # The marker that arrived late is nobody's any more: a sweep brings the host home before it serves one of them.
    await first.eventually("one of the two has the host", one_is_ready, within=1200)
    await _settled(first, "b-")
    await _settled(second, "a-")
    _safe(first, second)


@simulated(seeds=3)
async def test_a_host_that_one_cluster_gives_back_serves_the_other(world: World) -> None:
    first, second = _two_clusters(world, hosts=1)
    await first.machine("a-1")
    await first.all_ready(1, within=900)
    await second.machine("b-1")
    await world.clock.sleep(60.0)
    _safe(first, second)
    assert not first.wipes, "the other cluster's sweep leaves a host alone that is not named in its namespace"
    await first.api.delete(Machine, "a-1", "default")
    await second.all_ready(1, within=1200)
    await _settled(second, "a-")
    await _settled(first, "b-")
    _safe(first, second)
    assert len(first.wipes) == 1


@simulated(seeds=3)
async def test_a_mac_that_a_cluster_of_a_longer_name_took_from_the_pool_is_left_to_it(world: World) -> None:
    """The first had this Mac, and its names begin as the other's do: neither is proof that it has it still."""
    first, second = _two_clusters(world, hosts=1, prefix="a-b-")
    await first.machine("a-1")
    await first.all_ready(1, within=900)
    await first.api.delete(Machine, "a-1", "default")
    await second.machine("a-b-1")
    await second.all_ready(1, within=1200)
    for _ in range(60):
        await world.clock.sleep(2.0)
        _safe(first, second)
    assert len(first.wipes) == 1, "only the first cluster's own release wiped it"
    await _settled(second, "none")


@simulated(seeds=3)
async def test_two_clusters_share_a_pool_that_is_too_small_for_both(world: World) -> None:
    first, second = _two_clusters(world, hosts=3)
    for number in (1, 2):
        await first.machine(f"a-{number}")
        await second.machine(f"b-{number}")
    for _ in range(40):
        await world.clock.sleep(2.0)
        _safe(first, second)

    async def three_ready() -> bool:
        machines = [*await first.machines(), *await second.machines()]
        return sum(machine.status.ready for machine in machines) == 3

    await first.eventually("three of the four have a host", three_ready, within=1800)
    await _settled(first, "b-")
    await _settled(second, "a-")
    _safe(first, second)
