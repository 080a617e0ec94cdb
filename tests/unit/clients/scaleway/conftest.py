from collections.abc import AsyncIterator

import pytest
from doubles.clocks import SteppedClock

from paddock.base.rng import seeded
from paddock.clients.scaleway import ScalewayClient
from paddock.simulator.cloud import SimulatedCloud


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def cloud(clock: SteppedClock) -> SimulatedCloud:
    return SimulatedCloud(clock, seeded("the cloud"))


@pytest.fixture
async def client(cloud: SimulatedCloud, clock: SteppedClock) -> AsyncIterator[ScalewayClient]:
    async with ScalewayClient(cloud.settings(), clock, seeded("the client"), cloud.transport()) as client:
        yield client
