"""One bad Mac costs one Mac: whatever cannot be placed, Pods that end are replaced wherever there is room.

The invariant: at every look after a settling time, the good Nodes hold as many living Pods as they have places, less those
whose Pod ended within the last seconds.
"""

from collections.abc import Callable

import pytest
from simulation.runners.pools.pool_world import PoolWorld

from paddock.kube.builtin import Node, Pod
from paddock.kube.errors import KubeError
from paddock.runners.api import Provisioning
from paddock.runners.pools.pod_names import golden_label
from paddock.simulator.faults import Fail
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated

_SOON = 10.0
"""Seconds within which a place that was freed has a Pod again."""
_MANY = Provisioning(max_concurrent_per_node=2)


class Jobs:
    """Short jobs for every warm Pod at once, so that Pods come and go within seconds."""

    def __init__(self, pools: PoolWorld, shortest: float = 1.0, longest: float = 20.0) -> None:
        self._pools = pools
        self._rng = pools.world.rng("jobs")
        self._lasts = (shortest, longest)
        self._due: dict[str, tuple[float, Pod]] = {}
        self.ended: list[tuple[float, str]] = []
        """When, and on which Node."""

    async def turn(self) -> None:
        pools, now = self._pools, self._pools.clock.monotonic()
        for uid, (due, pod) in list(self._due.items()):
            if due <= now:
                del self._due[uid]
                try:
                    await pools.end(pod)
                except KubeError:
                    continue
                self.ended.append((now, pod.spec.node_name))
        for pod in pools.warm():
            uid = pod.metadata.uid
            if uid not in self._due and uid not in pools.account.fences and uid not in pools.account.claims:
                try:
                    await pools.take(pod)
                except KubeError:
                    pools.account.claims.discard(uid)
                    continue
                self._due[uid] = (now + self._rng.uniform(*self._lasts), pod)

    def fresh(self, good: Callable[[str], bool]) -> int:
        """Places on good Nodes that were freed too lately to have a Pod again."""
        since = self._pools.clock.monotonic() - _SOON
        self.ended = [each for each in self.ended if each[0] >= since]
        return sum(good(node) for _, node in self.ended)


async def _holds(pools: PoolWorld, jobs: Jobs, places: int, good: Callable[[str], bool], seconds: float) -> None:
    """The invariant, at every second. A place is used while a living Pod, or one that is being stopped, has it."""
    until = pools.clock.monotonic() + seconds
    locks = 0
    while pools.clock.monotonic() < until:
        await jobs.turn()
        over = {"Succeeded", "Failed"}
        there = [p.spec.node_name for p in pools.pods(living=False) if p.status.phase not in over]
        used = sum(good(name) for name in there if name)
        assert used >= places - jobs.fresh(good), (
            f"{used} of {places} places are used, {jobs.fresh(good)} were freed lately\n{pools.describe()}"
        )
        crowd = [there.count(name) for name in set(there) if name.startswith("mac-")]
        assert max(crowd, default=0) <= 2, "a third VM on a Mac"
        pools.safe()
        locks += len(jobs.ended)
        await pools.clock.sleep(1.0)
    assert locks, "no job ended, so nothing was seen"


async def _silent(pools: PoolWorld, name: str) -> None:
    told = {"type": "Ready", "status": "Unknown", "lastTransitionTime": pools.clock.now().isoformat()}
    await pools.api.merge_patch(Node, name, {"status": {"conditions": [told]}}, subresource="status")


async def _spoil(pools: PoolWorld, how: str) -> None:
    if how == "cordoned":
        await pools.cordon("mac-0")
    elif how == "silent":
        await _silent(pools, "mac-0")
    else:
        await pools.api.delete(Node, "mac-0")


def _not_the_first(name: str) -> bool:
    return name not in {"", "mac-0", "lin-0"}


@pytest.mark.parametrize("lag", [0.0, pytest.param(3.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "how", ["cordoned", *(pytest.param(how, marks=pytest.mark.slow) for how in ("silent", "vanished"))]
)
@simulated(1)
async def test_one_mac_out_of_service_costs_one_mac(world: World, how: str, lag: float) -> None:
    pools = PoolWorld(world, nodes=10, lag=lag)
    pools.boot = 3.0
    await pools.pool("mac", 20, provisioning=_MANY)
    await pools.settled("mac", 20)
    jobs = Jobs(pools)
    for _ in range(30):
        await jobs.turn()
        await world.clock.sleep(1.0)
    await _spoil(pools, how)
    for _ in range(20):
        await jobs.turn()
        await world.clock.sleep(1.0)
    await _holds(pools, jobs, 18, _not_the_first, 40)
    assert pools.bound.judged, "the bound of every pool simulation was judged, too"


@simulated(1)
@pytest.mark.slow
async def test_two_pools_on_a_fleet_that_is_too_small_for_both_use_all_of_it(world: World) -> None:
    pools = PoolWorld(world, nodes=6)
    pools.boot = 3.0
    await pools.pool("one", 8, provisioning=_MANY)
    await pools.pool("two", 8, provisioning=_MANY)
    await pools.eventually("the fleet is full", lambda: len(pools.warm()) == 12)
    jobs = Jobs(pools)
    await pools.cordon("mac-0")
    for _ in range(20):
        await jobs.turn()
        await world.clock.sleep(1.0)
    await _holds(pools, jobs, 10, _not_the_first, 100)


@pytest.mark.slow
@simulated(1)
async def test_pods_that_fit_on_no_mac_do_not_take_the_places_of_another_pool(world: World) -> None:
    pools = PoolWorld(world, nodes=4)
    pools.boot = 3.0
    await pools.pool("huge", 8, provisioning=_MANY, pod_memory_mb=900_000)
    await pools.eventually("it says so", lambda: pools.ready_condition("huge").reason == "InvalidConfiguration")
    assert not pools.pods("huge")
    await pools.pool("small", 8, provisioning=_MANY)
    await pools.eventually("the other pool is whole", lambda: len(pools.warm("small")) == 8, within=60)
    jobs = Jobs(pools)
    await _holds(pools, jobs, 8, bool, 60)


@pytest.mark.slow
@simulated(1)
async def test_a_roll_with_a_mac_out_of_service_keeps_the_others_in_use(world: World) -> None:
    pools = PoolWorld(world, nodes=6)
    pools.boot = 3.0
    await pools.pool("mac", 12, provisioning=_MANY)
    await pools.settled("mac", 12)
    jobs = Jobs(pools)
    await pools.cordon("mac-0")
    for _ in range(20):
        await jobs.turn()
        await world.clock.sleep(1.0)
    await pools.change("mac", image="runner:2")
    await _holds(pools, jobs, 10, _not_the_first, 100)
    assert {pod.spec.containers[0].image for pod in pools.pods("mac")} == {"runner:2"}


@pytest.mark.parametrize("lag", [0.0, pytest.param(3.0, marks=pytest.mark.slow)])
@simulated(1)
@pytest.mark.slow
async def test_one_linux_node_out_of_service_costs_one_node(world: World, lag: float) -> None:
    pools = PoolWorld(world, linux=5, lag=lag)
    pools.boot = 3.0
    quarter = {"os": "linux", "pod_cpu_milli": 16_000, "provisioning": Provisioning(max_concurrent_per_node=4)}
    await pools.pool("lin", 20, **quarter)
    await pools.settled("lin", 20)
    jobs = Jobs(pools)
    await pools.cordon("lin-0")
    for _ in range(20):
        await jobs.turn()
        await world.clock.sleep(1.0)
    await _holds(pools, jobs, 16, _not_the_first, 100)


@pytest.mark.parametrize("os", ["darwin", "linux"])
@simulated(2)
async def test_a_node_on_which_every_pod_fails_at_once_costs_one_node(world: World, os: str) -> None:
    """It is always the emptiest, so that the scheduler sends every replacement there, while good Nodes have room."""
    name = "mac" if os == "darwin" else "lin"
    pools = PoolWorld(world, nodes=4) if os == "darwin" else PoolWorld(world, linux=4)
    pools.boot = 3.0
    shape = {"os": os, "provisioning": _MANY, "pod_cpu_milli": 32_000}
    await pools.pool(name, 6, **shape)
    await pools.settled(name, 6)
    pools.failing.add(f"{name}-0")
    for pod in pools.warm():
        if pod.spec.node_name == f"{name}-0":
            await pools.end(pod)
    await pools.settled(name, 6, within=120)
    assert f"{name}-0 (" in pools.ready_condition(name).message


@simulated(1)
async def test_a_failed_pod_that_the_server_refuses_to_delete_does_not_count_again_and_again(world: World) -> None:
    pools = PoolWorld(world, nodes=4, bound=None)
    pools.failing.add("mac-0")
    rule = world.faults.inject(Fail(status=403), method="DELETE", path="*/pods/*")
    await pools.pool("mac", 1)
    await pools.eventually("it was tried often", lambda: rule.fired > 5, within=900)
    assert "mac-0 (" not in pools.ready_condition("mac").message


@pytest.mark.parametrize("refused", ["DELETE", "PATCH"])
@simulated(1)
async def test_a_pod_that_the_server_refuses_to_change_does_not_keep_the_pool_from_replacing_others(
    world: World, refused: str
) -> None:
    """One that is to go, because it does not start; or one that is to be told to drain, because its image is old."""
    pools = PoolWorld(world, nodes=4)
    pools.boot = 3.0
    if refused == "DELETE":
        pools.broken.add("mac-0")
    await pools.pool("mac", 7, provisioning=Provisioning(max_concurrent_per_node=2, start_timeout_seconds=60))
    await pools.eventually("they have a Mac each", lambda: all(p.spec.node_name for p in pools.pods("mac")))
    await world.clock.sleep(30)
    stuck = next(pod for pod in pools.pods("mac") if pod.spec.node_name == "mac-0")
    await pools.change("mac", replicas=len(pools.pods("mac")))
    rule = world.faults.inject(Fail(status=403), method=refused, path=f"*/pods/{stuck.metadata.name}")
    if refused == "PATCH":
        await pools.change("mac", image="runner:2", rollout={"maxConcurrentPercent": 100})
    else:
        golden = {"metadata": {"labels": {golden_label("runner:1"): "true"}}}
        await pools.api.merge_patch(Node, "mac-0", golden)
    await pools.eventually("it is refused", lambda: rule.fired > 0)
    before = {pod.metadata.uid for pod in pools.pods("mac")}
    await pools.end(next(pod for pod in pools.warm() if pod.spec.node_name != "mac-0"))
    await pools.eventually(
        "what ended is replaced", lambda: any(p.metadata.uid not in before for p in pools.warm()), within=60
    )
    assert stuck.metadata.uid in {pod.metadata.uid for pod in pools.pods("mac")}
    await pools.eventually("it is said", lambda: pools.ready_condition("mac").reason == "ChangeRefused", within=60)


@simulated(1)
async def test_an_ended_pod_that_the_server_refuses_to_delete_does_not_freeze_what_the_pool_says(world: World) -> None:
    pools = PoolWorld(world, nodes=4)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    first, second = pools.warm("mac")
    world.faults.inject(Fail(status=403), method="DELETE", path=f"*/pods/{first.metadata.name}")
    await pools.end(first)
    await pools.eventually("it is replaced", lambda: len(pools.warm("mac")) == 2)
    await pools.take(second)

    def counted() -> bool:
        seen = pools.seen_pool("mac")
        return seen is not None and (seen.status.busy, seen.status.idle) == (1, 1)

    await pools.eventually("the busy one is counted", counted)
    assert pools.ready_condition("mac").reason == "ChangeRefused"


@pytest.mark.slow
@simulated(1)
async def test_a_mac_that_cannot_fetch_the_image_costs_one_mac(world: World) -> None:
    """A Pod has half an hour there, because the image is fetched first; and it is the emptiest Mac each time."""
    pools = PoolWorld(world, nodes=4)
    pools.boot = 3.0
    pools.broken.add("mac-0")
    await pools.ready.wait()
    golden = {"metadata": {"labels": {golden_label("runner:1"): "true"}}}
    for name in ("mac-1", "mac-2", "mac-3"):
        await pools.api.merge_patch(Node, name, golden)
    await pools.pool("mac", 5, provisioning=_MANY)
    jobs = Jobs(pools, 60.0, 600.0)
    for _ in range(3 * 360):
        await jobs.turn()
        await world.clock.sleep(10.0)
        if "mac-0 (" in pools.ready_condition("mac").message:
            break
    else:
        raise AssertionError(f"it is never avoided\n{pools.describe()}")
    await world.clock.sleep(20.0)
    on_it = {pod.metadata.uid for pod in pools.pods("mac") if pod.spec.node_name == "mac-0"}
    for _ in range(90):
        await jobs.turn()
        await world.clock.sleep(10.0)
    assert {pod.metadata.uid for pod in pools.pods("mac") if pod.spec.node_name == "mac-0"} <= on_it
