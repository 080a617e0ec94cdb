"""A Paddock that gives up before its world has begun leaves none behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

from paddock.all_in_one.world_process import WorldProcess
from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.simulator.world.folder import WorldFolder
from paddock.simulator.world.messages import WorldOptions


async def test_a_world_that_has_not_even_taken_its_folder_is_ended_too(tmp_path: Path) -> None:
    folder = WorldFolder(tmp_path)
    process = WorldProcess(folder, WorldOptions(hosts=1, speed=1.0, jobs=0.0), clock=SystemClock(), rng=seeded(1))
    process.begin()  # and then Postgres refuses its folder
    async with asyncio.timeout(30):
        await process.stop()
    assert process._started is not None
    assert process._started.poll() is not None
    assert not folder.taken()
