from collections.abc import AsyncIterator

import pytest
from unit.simulator.github.rig import Rig


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig()
    yield rig
    await rig.aclose()
