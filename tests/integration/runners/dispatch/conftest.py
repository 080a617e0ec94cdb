"""A rig a test: a cluster in process over the test's own ledger."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
from integration.runners.dispatch.rig import Rig, a_rig
from integration.runners.ledger.rig import Bench


@pytest_asyncio.fixture
async def rig(bench: Bench) -> AsyncIterator[Rig]:
    made: asyncio.Future[Rig] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    async def hold() -> None:
        async with a_rig(bench) as rig:
            made.set_result(rig)
            await over.wait()

    # A fixture is entered and left by different tasks, which a task group does not survive: so one task holds it.
    holding = asyncio.ensure_future(hold())
    await asyncio.wait({holding, made}, return_when=asyncio.FIRST_COMPLETED)
    if holding.done():
        holding.result()
    yield made.result()
    over.set()
    await holding
