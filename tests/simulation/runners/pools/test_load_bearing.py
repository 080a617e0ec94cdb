"""What the pool controller must never lose: reports before deletions, capped rolls and starts, busy Pods."""

import pytest
from simulation.runners.pools.pool_world import PoolWorld

from paddock.runners.api import DRAIN_ELIGIBLE_LABEL, FINALIZER, POLLER, Provisioning, RunnerPool
from paddock.runners.pools.pod_names import REVISION
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


@simulated(3)
async def test_the_stop_is_reported_before_the_pod_is_deleted(world: World) -> None:
    pools = PoolWorld(world, nodes=1)
    await pools.pool("mac", 1)
    await pools.settled("mac", 1)
    (pod,) = pools.pods("mac")
    await pools.take(pod)
    await pools.end(pod)
    await pools.eventually("the Pod is reaped", lambda: pod.metadata.uid in dict(pools.store.deletions))
    assert dict(pools.store.deletions)[pod.metadata.uid], "deleted before its stop was told"
    await pools.settled("mac", 1)


@simulated(3)
async def test_the_pod_is_deleted_even_if_its_stop_cannot_be_reported(world: World) -> None:
    pools = PoolWorld(world, nodes=1)
    await pools.pool("mac", 1)
    await pools.settled("mac", 1)
    (pod,) = pools.pods("mac")
    await pools.take(pod)
    pools.account.deaf = True
    await pools.end(pod)
    await pools.eventually("the Pod is reaped", lambda: pod.metadata.uid in dict(pools.store.deletions))
    pools.account.deaf = False
    await pools.eventually(
        "its stop is reported late", lambda: pod.metadata.uid in dict(pools.account.stops), within=130
    )


@pytest.mark.slow
@simulated(2)
async def test_a_new_image_rolls_within_its_cap_and_touches_no_claimed_pod(world: World) -> None:
    """Forty Pods and five percent: never more than two of them are unavailable."""
    pools = PoolWorld(world, nodes=25)
    await pools.pool("mac", 40)
    await pools.settled("mac", 40, within=600)
    taken = pools.warm("mac")[:5]
    for pod in taken:
        await pools.take(pod)
    await pools.change("mac", image="runner:2")
    lowest = 40

    def rolled() -> bool:
        nonlocal lowest
        there = pools.pods("mac")
        leaving = sum(each.metadata.labels.get(DRAIN_ELIGIBLE_LABEL) == "true" for each in there)
        lowest = min(lowest, len(pools.warm("mac")) - leaving)
        current = sum(each.spec.containers[0].image == "runner:2" for each in pools.warm("mac"))
        return current == 35

    await pools.eventually("all idle Pods are of the new image", rolled, within=3600)
    assert lowest >= 38
    assert {each.metadata.uid for each in taken} <= {each.metadata.uid for each in pools.pods("mac")}


@simulated(2)
async def test_a_new_runtime_class_revision_rolls_as_well(world: World) -> None:
    pools = PoolWorld(world, linux=2)
    await pools.pool("lin", 4, os="linux")
    await pools.settled("lin", 4)
    await pools.api.merge_patch(RunnerPool, "lin", {"metadata": {"annotations": {REVISION: "b"}}}, "default")
    lowest = 4

    def rolled() -> bool:
        nonlocal lowest
        lowest = min(lowest, len(pools.warm("lin")))
        return [each.metadata.annotations.get(REVISION) for each in pools.warm("lin")] == ["b"] * 4

    await pools.eventually("all Pods have the new revision", rolled, within=900)
    assert lowest == 3


@simulated(3)
async def test_two_pools_that_want_eight_each_start_four_at_once(world: World) -> None:
    pools = PoolWorld(world, linux=1)
    pools.boot = 10_000.0
    ceiling = Provisioning(max_concurrent_per_node=4, start_timeout_seconds=0)
    await pools.pool("one", 8, os="linux", provisioning=ceiling)
    await pools.pool("two", 8, os="linux", provisioning=ceiling)
    await world.clock.sleep(60)
    assert len(pools.pods()) == 4
    assert {len(pools.pods(name)) for name in ("one", "two")} == {1, 3}
    for more in (5, 6):
        starts = next(each for each in pools.pods() if each not in pools.warm())
        await pools._start(pools.api, starts)
        await world.clock.sleep(60)
        assert len(pools.pods()) == more


@simulated(3)
async def test_a_cordoned_node_loses_its_idle_pods_and_keeps_the_others(world: World) -> None:
    pools = PoolWorld(world, linux=1)
    await pools.pool("lin", 3, os="linux")
    await pools.settled("lin", 3)
    idle, labelled, polled = pools.pods("lin")
    await pools.take(labelled)
    await pools.take(polled, assign=False)
    done = {"name": POLLER, "image": "p", "imageID": "", "ready": True, "restartCount": 0}
    status = {"phase": "Running", "initContainerStatuses": [done | {"state": {"terminated": {"exitCode": 0}}}]}
    await pools.api.merge_patch(type(polled), polled.metadata.name, {"status": status}, "default", subresource="status")
    await pools.cordon("lin-0")
    await pools.eventually("the idle Pod is gone", lambda: idle.metadata.uid not in _uids(pools))
    await world.clock.sleep(120)
    assert {labelled.metadata.uid, polled.metadata.uid} <= _uids(pools)
    assert pools.ready_condition("lin").reason == "NoHealthyNode"


@simulated(3)
async def test_a_deleted_pool_is_held_until_its_busy_pod_is_done(world: World) -> None:
    pools = PoolWorld(world, nodes=1)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    _, busy = pools.pods("mac")
    await pools.take(busy)
    await pools.api.delete(RunnerPool, "mac", "default")
    await pools.eventually("the idle Pod is gone", lambda: _uids(pools) == {busy.metadata.uid})
    await world.clock.sleep(600)
    held = pools.seen_pool("mac")
    assert held is not None
    assert held.metadata.finalizers == (FINALIZER,)
    assert pools.ready_condition("mac").reason == "Draining"
    await pools.end(busy)
    await pools.eventually("the pool is gone", lambda: pools.seen_pool("mac") is None)
    await pools.eventually("so are Pods and ServiceAccounts", lambda: not pools.accounts() and not _uids(pools))


def _uids(pools: PoolWorld) -> set[str]:
    return {each.metadata.uid for each in pools.pods(living=False)}
