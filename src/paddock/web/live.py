"""Live pages: each part is rendered once for everybody, and sent only when it changed."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping

from paddock.base.clock import Clock

__all__ = ["Live"]

_HEARTBEAT = 15.0
_SETTLE = 0.2
_SLOWEST = 5.0
_BACKLOG = 64


class Live:
    """Renders fragments when told that something changed, and streams the changed ones to every open page.

    A page that is too slow to read is disconnected rather than kept in memory; its browser reconnects by itself and
    gets everything anew.
    """

    def __init__(self, render: Callable[[], Mapping[str, str]], clock: Clock) -> None:
        self._render = render
        self._clock = clock
        self._last: dict[str, str] = {}
        self._pages: set[asyncio.Queue[bytes | None]] = set()
        self._changed = asyncio.Event()

    def touch(self) -> None:
        """Something that a page shows may have changed."""
        self._changed.set()

    async def run(self) -> None:
        """Render and send until cancelled. Changes that come together are sent together; clocks move on anyway."""
        while True:
            try:
                async with asyncio.timeout(_SLOWEST):
                    await self._changed.wait()
            except TimeoutError:
                pass
            self._changed.clear()
            if self._pages:
                self._send(self._difference())
            await self._clock.sleep(_SETTLE)

    def _difference(self) -> dict[str, str]:
        now = dict(self._render())
        new = {name: text for name, text in now.items() if self._last.get(name) != text}
        self._last = now
        return new

    def _send(self, parts: Mapping[str, str]) -> None:
        if not parts:
            return
        frame = _frame(parts)
        for page in list(self._pages):
            try:
                page.put_nowait(frame)
            except asyncio.QueueFull:
                self._pages.discard(page)

    async def stream(self) -> AsyncIterator[bytes]:
        """Server-sent events for one page: everything first, then what changes."""
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_BACKLOG)
        self._send(self._difference())  # the others are not told by the next look, which compares with this one
        queue.put_nowait(_frame(self._last))
        self._pages.add(queue)
        try:
            while queue in self._pages:
                try:
                    async with asyncio.timeout(_HEARTBEAT):
                        frame = await queue.get()
                except TimeoutError:
                    frame = b": still here\n\n"
                if frame is None:
                    return
                yield frame
        finally:
            self._pages.discard(queue)

    def end(self) -> None:
        """Close every stream, so that a stopping server does not wait for open pages."""
        for page in list(self._pages):
            self._pages.discard(page)
            while not page.empty():
                page.get_nowait()
            page.put_nowait(None)


def _frame(parts: Mapping[str, str]) -> bytes:
    # The standard encoder, because rendered HTML is a subclass of str, which msgspec refuses.
    return f"event: parts\ndata: {json.dumps(parts)}\n\n".encode()
