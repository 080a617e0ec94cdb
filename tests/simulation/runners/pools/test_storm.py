"""Everything at once: jobs come and go, sizes and images change, calls fail and the operator dies; nobody loses a job."""

import pytest
from simulation.runners.pools.pool_world import BOUND_WITH_LOST_ANSWERS, PoolWorld

from paddock.kube.builtin import Pod
from paddock.kube.errors import KubeError
from paddock.runners.api import Provisioning
from paddock.simulator.faults import Crash, Fail, FaultMoment, LoseAnswer
from paddock.simulator.process import World
from paddock.simulator.seeds import simulated


async def _dispatch(pools: PoolWorld, seconds: float) -> None:
    """Give jobs to warm Pods and let them finish, with labels that are lost now and then, until the time is over."""
    rng, clock = pools.world.rng("dispatcher"), pools.clock
    running: list[tuple[float, Pod]] = []
    until = clock.monotonic() + seconds
    while clock.monotonic() < until:
        for due, pod in [each for each in running if each[0] <= clock.monotonic()]:
            running.remove((due, pod))
            await pools.end(pod, code=rng.choice((0, 0, 1)))
        for pod in pools.warm():
            known = pod.metadata.uid in pools.account.claims or pod.metadata.uid in pools.account.fences
            if not known and rng.random() < 0.1:
                try:
                    await pools.take(pod, assign=rng.random() < 0.7)
                except KubeError:
                    pools.account.claims.discard(pod.metadata.uid)  # gone before its job was handed over
                    continue
                running.append((clock.monotonic() + rng.uniform(5, 120), pod))
        if rng.random() < 0.05:
            await pools.change(rng.choice(("mac", "lin")), replicas=rng.randrange(6))
        if rng.random() < 0.02:
            await pools.change(rng.choice(("mac", "lin")), image=f"runner:{rng.randrange(3)}")
        pools.account.away = rng.random() < 0.1
        pools.safe()
        await clock.sleep(2.0)
    pools.account.away = False
    for _, pod in running:
        await pools.end(pod)


@pytest.mark.slow
@pytest.mark.parametrize("lag", [0.0, pytest.param(5.0, marks=pytest.mark.slow)])
@simulated(2)
async def test_no_job_is_lost_in_a_storm_and_all_comes_right_after_it(world: World, lag: float) -> None:
    pools = PoolWorld(world, nodes=3, linux=2, lag=lag, bound=BOUND_WITH_LOST_ANSWERS)
    quick = Provisioning(max_concurrent_per_node=3, start_timeout_seconds=60)
    await pools.pool("mac", 4, provisioning=quick)
    await pools.pool("lin", 4, os="linux", provisioning=quick)
    until = world.clock.monotonic() + 600
    effects = lambda call: call.process == "operator" and call.method != "GET"  # noqa: E731
    world.faults.inject(
        Fail(status=500), LoseAnswer(), LoseAnswer("timeout"), where=effects, probability=0.1, until=until
    )
    world.faults.inject(
        Crash(FaultMoment.BEFORE), Crash(FaultMoment.AFTER), where=effects, probability=0.02, until=until
    )
    await _dispatch(pools, 600)
    for name in ("mac", "lin"):
        await pools.change(name, replicas=3)
        await pools.settled(name, 3, within=900)
    assert len(pools.store.deletions) > 20
