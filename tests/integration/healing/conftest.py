from collections.abc import AsyncIterator

import pytest_asyncio
from integration.healing.ward import Ward, ward_of
from integration.ledger.rig import Bench


@pytest_asyncio.fixture
async def ward(bench: Bench) -> AsyncIterator[Ward]:
    """A cluster, a ledger and a GitHub; nothing alive was killed when the test is over."""
    async with ward_of(bench) as ward:
        yield ward
        assert ward.counted("paddock_live_kills_total") == 0
