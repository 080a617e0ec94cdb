from collections.abc import AsyncIterator

import pytest
from integration.gateway.rig import Rig, a_rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with a_rig() as made:
        yield made
