"""The simulated cloud behind a real HTTP server on loopback."""

from collections.abc import AsyncIterator

import pytest
from integration.served import served
from unit.clients.scaleway.conftest import clock, cloud

from paddock.simulator.cloud import SimulatedCloud

__all__ = ["api_url", "clock", "cloud"]


@pytest.fixture
async def api_url(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with served(cloud.app) as address:
        yield address
