"""The simulated GitHub, and a receiver of its webhooks, behind real HTTP servers on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvicorn
from unit.simulator_github.rig import Receiver

from paddock.base.chance import seeded
from paddock.base.clock import SystemClock
from paddock.simulator.github import Behaviour, SimulatedGitHub


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address of the app while it is served from this event loop."""
    # The protocol is named because asyncio sends small packets at once (TCP_NODELAY) only on sockets that say they are TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app, log_level="critical", access_log=False, lifespan="off", loop="asyncio", date_header=False
    )
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
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture
async def github(receiver: Receiver) -> AsyncIterator[SimulatedGitHub]:
    """In real time, with GitHub's own work done at once, and driven."""
    behaviour = Behaviour(assignment=(0.0, 0.0), delivery=(0.0, 0.0))
    async with SimulatedGitHub(SystemClock(), seeded("github"), behaviour=behaviour) as github:
        github.add_organization("acme", "app", "web")
        github.add_user("bob", "toy")
        async with served(receiver) as address:
            github.deliver_to(f"{address}/webhooks/github")
            running = asyncio.create_task(github.run())
            yield github
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running


@pytest.fixture
async def api_url(github: SimulatedGitHub) -> AsyncIterator[str]:
    async with served(github.app) as address:
        yield address
