"""What people do to a fleet that works costs no job, leaves nothing behind, and costs what the documentation says."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest
from integration.schemas import Schemas
from operations.catalogue import (
    CHAPTERS,
    OPERATIONS,
    Operation,
    Scene,
    cordon_and_uncordon,
    delete_node,
    kill_agents,
    kill_dispatch,
    kill_operator,
    scale_down,
)
from operations.judges import Cost, Watch
from operations.load import SHORT
from operations.running import done, under_load
from operations.table import Row, documented, write

_Doing = Callable[[Scene], Coroutine[Any, Any, None]]
_ONE_AFTER_THE_OTHER = [each.name for each in OPERATIONS]


def test_every_operation_has_its_row_in_the_documentation() -> None:
    assert list(documented()) == _ONE_AFTER_THE_OTHER


@pytest.mark.slow
def test_a_mac_is_emptied_and_filled_and_processes_die_under_short_jobs(schemas: Schemas) -> None:
    async def some(scene: Scene) -> None:
        for do in (cordon_and_uncordon, kill_dispatch, delete_node):
            cost = await done(scene, Operation(do.__name__, do))
            assert (cost.jobs, cost.macs) == (0, 0)

    under_load(schemas, some, seed=3, macs=1, spare=0, jobs=(SHORT,))


def test_a_fleet_that_shrinks_waits_for_its_jobs_and_wipes_an_idle_mac(schemas: Schemas) -> None:
    async def shrink(scene: Scene) -> None:
        scene.world.cloud.behaviour.reinstall = (120.0, 120.0)
        cost = await done(scene, Operation("one less", scale_down))
        assert (cost.jobs, cost.macs) == (0, 1)

    under_load(schemas, shrink, seed=4, macs=2, spare=0, jobs=(SHORT,))


@pytest.mark.slow
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_operations_cost_what_the_documentation_says(schemas: Schemas, chapter: str) -> None:
    measured: dict[str, Row] = {}

    async def all_of_them(scene: Scene) -> None:
        for operation in CHAPTERS[chapter]:
            measured[operation.name] = Row.of(await done(scene, operation))

    under_load(schemas, all_of_them, seed=1, macs=3)
    if os.environ.get("PADDOCK_WRITE_OPERATIONS"):
        write(measured, _ONE_AFTER_THE_OTHER)
    said = documented()
    assert {name: found for name, row in measured.items() if (found := row.far_from(said[name]))} == {}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_operations_in_any_order_and_at_once(schemas: Schemas, seed: int) -> None:
    """Whatever is not about one and the same thing may be done at the same time: a person, a script and a crash do not wait."""

    async def at_random(scene: Scene) -> None:
        chosen = scene.rng.sample([each for each in OPERATIONS if each.together], 3)
        crashes = (kill_agents, kill_dispatch, kill_operator)
        for operation in chosen:
            crash = scene.rng.choice(crashes)

            async def both(scene: Scene, do: _Doing = operation.do, crash: _Doing = crash) -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(do(scene))
                    await scene.pause(scene.rng.uniform(0, 60))
                    await crash(scene)

            name = f"{operation.name}, and {crash.__name__}"
            cost = await done(scene, Operation(name, both, may_lose=operation.may_lose, empty_for=900))
            assert cost.jobs <= operation.may_lose

    under_load(schemas, at_random, seed=seed, macs=2)


@pytest.mark.slow
def test_twenty_macs_become_ten_under_full_load_and_it_takes_as_long_as_the_longest_job(schemas: Schemas) -> None:
    costs: list[Cost] = []

    async def halved(scene: Scene) -> None:
        scene.world.cloud.behaviour.reinstall = (120.0, 120.0)  # what comes after the drain is not asked here
        longest = 0.0

        async def halve(scene: Scene) -> None:
            nonlocal longest
            now = scene.world.clock.now()
            left = [
                job.duration - (now - job.started_at).total_seconds()
                for job in scene.load.running()
                if job.started_at is not None
            ]
            longest = max(left)
            scene.world.wanted = 10
            await scene.scale(10)
            await scene.places(20)
            await scene.until("ten are left", lambda: len(scene.machines()) == 10, within=2 * 3600)
            drained.append(scene.world.clock.monotonic() - began)

        began, drained = scene.world.clock.monotonic(), list[float]()
        costs.append(await done(scene, Operation("20 → 10", halve, empty_for=600)))
        # A Mac goes when its last job has ended: that is at most the longest of all, and what the gate asks twice.
        assert drained[0] <= longest + 180, (drained, longest)

    under_load(schemas, halved, seed=1, macs=20, spare=0, jobs=((300.0, 480.0),))
    assert (costs[0].jobs, costs[0].macs) == (0, 10)


def test_a_judge_can_complain() -> None:
    """Nothing here is proven by judges that are always content."""
    wiped = "macs-1 was wiped with 2 jobs"
    world = SimpleNamespace(github=SimpleNamespace(tick=bool), registries=(), macs=SimpleNamespace(under_a_job=[wiped]))
    lost = SimpleNamespace(id=7, status="completed", conclusion="failure", starts=1, lost_since=1.0)
    complaints = Watch(world, SimpleNamespace(jobs=[lost])).wrong()  # pyright: ignore[reportArgumentType]
    assert len(complaints) == 3
    assert complaints[1:] == ["job 7 ended as failure", wiped]
