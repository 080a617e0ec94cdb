"""The simulated cloud behind a real HTTP server on loopback."""

from collections.abc import AsyncIterator

import pytest
from integration.served import served
from unit.clients.stepped_clock import SteppedClock

from paddock.base.chance import seeded
from paddock.simulator.cloud import SimulatedCloud


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def cloud(clock: SteppedClock) -> SimulatedCloud:
    return SimulatedCloud(clock, seeded("the cloud"))


@pytest.fixture
async def api_url(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with served(cloud.app) as address:
        yield address
