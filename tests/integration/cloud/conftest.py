"""The simulated cloud behind a real HTTP server on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import uvicorn
from unit.clients.stepped_clock import SteppedClock

from paddock.base.chance import seeded
from paddock.simulator.cloud import SimulatedCloud


@asynccontextmanager
async def served(cloud: SimulatedCloud) -> AsyncIterator[str]:
    """The address of the cloud while it is served from this event loop."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(cloud.app, log_level="critical", access_log=False, lifespan="off", loop="asyncio")
    server = uvicorn.Server(config)
    server.capture_signals = _without_signals  # pyright: ignore[reportAttributeAccessIssue] - pytest keeps its own
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.force_exit = True
        await task
        listener.close()


class _without_signals:  # noqa: N801 - stands in for a method
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def cloud(clock: SteppedClock) -> SimulatedCloud:
    return SimulatedCloud(clock, seeded("the cloud"))


@pytest.fixture
async def api_url(cloud: SimulatedCloud, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    async with served(cloud) as address:
        yield address
