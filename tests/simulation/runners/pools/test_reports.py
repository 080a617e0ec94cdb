"""What the pool controller tells others of Pods that end: once, with the right moment, loudly only where something is wrong."""

from datetime import datetime, timedelta

import pytest
from simulation.runners.pools.pool_world import PoolWorld

from paddock.kube.builtin import Event, Pod
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


def _stops(pools: PoolWorld, pod: Pod) -> list[datetime]:
    return [at for uid, at in pools.account.stops if uid == pod.metadata.uid]


def _failed(pools: PoolWorld, pod: Pod) -> list[str]:
    return [
        event.message
        for event in pools.store.present(Event)
        if event.reason == "RunnerFailed" and event.involved_object.name == pod.metadata.name
    ]


@simulated(3)
async def test_a_pod_that_ended_is_reported_once_and_only_a_bad_end_is_an_event(world: World) -> None:
    pools = PoolWorld(world, nodes=2)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    good, bad = pools.pods("mac")
    for pod, code in ((good, 0), (bad, 137)):
        await pools.take(pod)
        await pools.end(pod, code=code)
    gone = {good.metadata.uid, bad.metadata.uid}
    await pools.eventually("both are reaped", lambda: gone <= set(dict(pools.store.deletions)))
    await pools.settled("mac", 2)
    await world.clock.sleep(600)
    for pod in (good, bad):
        assert len(_stops(pools, pod)) == 1, "however often the pool is looked at afterwards"
    assert _failed(pools, good) == []
    (said,) = _failed(pools, bad)
    assert "exit code 137" in said


@pytest.mark.slow
@simulated(2)
async def test_pods_that_ended_while_no_controller_ran_are_reaped_when_one_does(world: World) -> None:
    """Terminal Pods accumulate meanwhile, nothing is refilled, and no running job is touched."""
    pools = PoolWorld(world, nodes=3)
    await pools.pool("mac", 4)
    await pools.settled("mac", 4)
    first, second, busy, _ = pools.pods("mac")
    for pod in (first, second, busy):
        await pools.take(pod)
    await pools.operator.stop()
    ended_at: dict[str, datetime] = {}
    for pod in (first, second):
        ended_at[pod.metadata.uid] = world.clock.now()
        await pools.end(pod)
        await world.clock.sleep(60)
    await world.clock.sleep(1800)
    assert {pod.metadata.uid for pod in pools.pods(living=False)} >= {first.metadata.uid, second.metadata.uid}
    pools.operator.start()
    await pools.settled("mac", 4)
    assert busy.metadata.uid in {pod.metadata.uid for pod in pools.pods("mac")}
    for pod in (first, second):
        (told,) = _stops(pools, pod)
        assert told <= ended_at[pod.metadata.uid] + timedelta(seconds=5), "when it ended, not when it was noticed"
