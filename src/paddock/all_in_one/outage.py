"""A switch in front of an application: off, it behaves like a killed process, while this process goes on."""

import asyncio
from collections.abc import Sequence

from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.base.clock import Clock

__all__ = ["Outage"]


class Outage:
    """While it lasts, requests under way are cut off and new ones are refused, as by a server that is being restarted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._down = asyncio.Event()

    def behind(self, routes: Sequence[Route]) -> list[Route]:
        """The routes, as the outside can reach them while there is no outage."""
        for route in routes:
            route.app = _Door(route.app, self._down)
        return list(routes)

    @property
    def down(self) -> bool:
        return self._down.is_set()

    async def last(self, seconds: float) -> None:
        """Be away for that long."""
        self._down.set()
        try:
            await self._clock.sleep(seconds)
        finally:
            self._down.clear()


_away = PlainTextResponse("gone for a moment\n", 503, headers={"Retry-After": "2"})


class _Door:
    def __init__(self, app: ASGIApp, down: asyncio.Event) -> None:
        self._app = app
        self._down = down

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._down.is_set():
            await _away(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        serving = asyncio.ensure_future(self._app(scope, receive, noted))
        closing = asyncio.ensure_future(self._down.wait())
        try:
            await asyncio.wait({serving, closing}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
                if not started:
                    await _away(scope, receive, send)
                return
            serving.result()
        finally:
            serving.cancel()
            closing.cancel()
