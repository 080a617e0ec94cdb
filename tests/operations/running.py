"""Do operations in a world under load, and let the judges look at each."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from integration.schemas import Schemas
from operations.catalogue import Operation, Scene
from operations.judges import Cost, Watch, ended, left_behind, status
from operations.load import MIXED, Load
from operations.world import OperationsWorld

from paddock.base.clock import SystemClock
from paddock.runners.ledger.database import prepare
from paddock.simulator.process import World, simulate

__all__ = ["HOUR", "done", "under_load"]

HOUR = 3600.0


def under_load(
    schemas: Schemas,
    scenario: Callable[[Scene], Awaitable[None]],
    *,
    seed: int,
    macs: int,
    spare: int = 1,
    jobs: Sequence[tuple[float, float]] = MIXED,
) -> None:
    """A full fleet at work, then the scenario, then no more jobs; an hour later everything must be as on the first day."""
    schema = schemas.take()
    asyncio.run(prepare(schemas.dsn, schema=schema, clock=SystemClock()))

    async def run(world: World) -> None:
        fleet = OperationsWorld(world, schemas.dsn, schema, macs=macs, spare=spare)
        load = Load(fleet, world.rng("load"), jobs)
        watch = Watch(fleet, load)
        scene = Scene(fleet, load, watch, world.rng("person"))
        await fleet.begin()
        pushing = asyncio.create_task(load.run())
        await fleet.eventually("every place is taken", lambda: scene.jobs_run(2 * macs), within=2 * HOUR)
        watching = asyncio.create_task(watch.run())
        await scenario(scene)
        await ended(pushing)
        await _all_is_over(scene)
        await ended(watching)
        fleet.end()

    simulate(run, seed=seed)
    asyncio.run(schemas.give_back(schema))


async def _all_is_over(scene: Scene) -> None:
    world = scene.world
    await world.eventually("every job has ended", lambda: not scene.load.open(), within=2 * HOUR, every=10)
    left: list[str] = ["not looked yet"]

    async def nothing() -> bool:
        left[:] = await left_behind(world, idle=True)
        return not left and (await status(world)).ok

    try:
        await world.eventually("nothing is left behind", nothing, within=HOUR, every=15)
    except AssertionError as error:
        error.add_note(f"left behind: {left}\nstatus: {(await status(world)).sentence}")
        raise
    assert not scene.watch.wrong(), scene.watch.wrong()


async def done(scene: Scene, operation: Operation) -> Cost:
    """Do it, wait until nothing is left of it, and let GitHub and the cloud judge it."""
    left: list[str] = []

    async def nothing() -> bool:
        left[:] = await left_behind(scene.world)
        return not left

    with scene.watch.measuring() as cost:
        scene.watch.allowed += operation.may_lose
        await operation.do(scene)
        try:
            await scene.world.eventually(f"nothing is left of: {operation.name}", nothing, within=HOUR, every=5)
        except AssertionError as error:
            error.add_note(f"left behind: {left}")
            raise
    assert not scene.watch.wrong(), f"{operation.name}: {scene.watch.wrong()}"
    assert cost.idle <= operation.empty_for, f"{operation.name}: a place on a good Mac was empty for {cost.idle:.0f} s"
    named = any(operation.says in said for said in cost.said)
    assert not operation.says or named, f"{operation.name}: status did not name {operation.says!r}: {cost.said}"
    return cost
