from collections.abc import AsyncIterator

import pytest_asyncio
from integration.runners.healing.healing_rig import HealingRig, healing_of
from integration.runners.ledger.rig import Bench


@pytest_asyncio.fixture
async def healing_rig(bench: Bench) -> AsyncIterator[HealingRig]:
    """A cluster, a ledger and a GitHub; nothing alive was killed when the test is over."""
    async with healing_of(bench) as healing_rig:
        yield healing_rig
        assert healing_rig.counted("paddock_live_kills_total", path="reap") == 0
