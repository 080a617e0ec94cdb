"""A pool's ordinary life, in virtual time, with the real controller and a real API."""

from simulation.runners.pools.pool_world import PoolWorld

from paddock.runners.api import FINALIZER
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(3)
async def test_a_pool_gets_its_warm_pods_and_says_so(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 3)
    await pools.settled("mac", 3)
    await pools.eventually("the pool is ready", lambda: pools.ready_condition("mac").status == "True")
    seen = pools.seen_pool("mac")
    assert seen is not None
    assert FINALIZER in seen.metadata.finalizers
    assert (seen.status.replicas, seen.status.idle, seen.status.busy, seen.status.starting) == (3, 3, 0, 0)


@simulated(1)
async def test_while_nothing_changes_only_when_it_was_counted_is_written_once_a_minute(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    await world.clock.sleep(30)
    before = len(world.faults.calls)
    await world.clock.sleep(600)
    written = [call.name for call in world.faults.calls[before:] if call.method != "GET"]
    assert set(written) <= {"PATCH /apis/tuist.dev/v1alpha1/namespaces/default/runnerpools/mac/status"}
    assert len(written) <= 10
