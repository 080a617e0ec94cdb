"""A simulated service behind a real HTTP server on loopback, in the test's own event loop."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address of the app while it is served from this event loop."""
    # The protocol is named because asyncio sends small packets at once (TCP_NODELAY) only on sockets that say they are TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    # Simulators that know the time say so themselves.
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
