"""A pool's work interrupted at every effect: no claimed Pod is deleted, no ServiceAccount is left, all comes right."""

from collections.abc import Sequence

from simulation.hosts.interrupting import Kind, from_here, interrupt_everywhere, interrupted_by
from simulation.runners.pools.pool_world import BOUND_WITH_LOST_ANSWERS, PoolWorld

from paddock.runners.api import RunnerPool
from paddock.simulator.process import World


async def _a_pool_is_filled(world: World) -> None:
    pools = PoolWorld(world, nodes=1, linux=1, bound=BOUND_WITH_LOST_ANSWERS)
    from_here(world)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)


@interrupted_by
def test_filling_a_pool_survives_every_interruption(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_pool_is_filled, kinds=kinds, seeds=2) >= 5


async def _a_pool_shrinks_while_jobs_arrive(world: World) -> None:
    """One Pod is claimed with an assignment label, one without, one is idle, one has ended: only the last two may go."""
    pools = PoolWorld(world, nodes=2, bound=BOUND_WITH_LOST_ANSWERS)
    await pools.pool("mac", 4)
    await pools.settled("mac", 4)
    assigned, plain, _, ended = pools.pods("mac")
    await pools.take(assigned)
    await pools.take(plain, assign=False)
    await pools.take(ended)
    from_here(world)
    await pools.end(ended, code=1)
    await pools.change("mac", replicas=0)
    kept = {assigned.metadata.uid, plain.metadata.uid}
    await pools.eventually("only claimed Pods are left", lambda: _there(pools) == kept)
    await pools.eventually(
        "and only their ServiceAccounts",
        lambda: pools.accounts() == {assigned.metadata.name, plain.metadata.name},
        within=480,
    )
    await world.clock.sleep(90)
    pools.safe()
    assert _there(pools) == kept


@interrupted_by
def test_shrinking_a_pool_survives_every_interruption(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_pool_shrinks_while_jobs_arrive, kinds=kinds) >= 5


async def _a_pool_is_deleted(world: World) -> None:
    pools = PoolWorld(world, nodes=1, bound=BOUND_WITH_LOST_ANSWERS)
    await pools.pool("mac", 2)
    await pools.settled("mac", 2)
    _, busy = pools.pods("mac")
    await pools.take(busy)
    from_here(world)
    await pools.api.delete(RunnerPool, "mac", "default")
    await pools.eventually("the idle Pod is gone", lambda: _there(pools) == {busy.metadata.uid})
    await world.clock.sleep(90)
    assert pools.seen_pool("mac") is not None
    assert _there(pools) == {busy.metadata.uid}
    await pools.end(busy)
    await pools.eventually("the pool is gone", lambda: pools.seen_pool("mac") is None)
    await pools.eventually("nothing is left", lambda: not pools.accounts() and not _there(pools), within=480)


@interrupted_by
def test_deleting_a_pool_survives_every_interruption(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_pool_is_deleted, kinds=kinds) >= 3


async def _a_pool_rolls(world: World) -> None:
    pools = PoolWorld(world, nodes=1, linux=1, bound=BOUND_WITH_LOST_ANSWERS)
    await pools.pool("mac", 1)
    await pools.pool("lin", 2, os="linux")
    await pools.settled("mac", 1)
    await pools.settled("lin", 2)
    taken = pools.pods("lin")[0]
    await pools.take(taken)
    from_here(world)
    await pools.change("mac", image="runner:2")
    await pools.change("lin", image="runner:2")

    def rolled() -> bool:
        new = [pod for pod in pools.warm() if pod.spec.containers[0].image == "runner:2"]
        return len(new) == 2 and len(pools.pods(living=False)) == 3

    await pools.eventually("both idle Pods are new", rolled)
    await pools.settled("mac", 1)
    await pools.settled("lin", 2)
    assert taken.metadata.uid in _there(pools)


@interrupted_by
def test_a_roll_survives_every_interruption(kinds: Sequence[Kind]) -> None:
    assert interrupt_everywhere(_a_pool_rolls, kinds=kinds) >= 5


def _there(pools: PoolWorld) -> set[str]:
    return {pod.metadata.uid for pod in pools.pods(living=False)}
