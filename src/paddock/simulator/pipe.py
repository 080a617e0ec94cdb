"""A bounded stream of chunks from one task to another, which either side may break."""

import asyncio
from collections import deque

__all__ = ["Pipe"]


class Pipe:
    """Holds at most `room` chunks: a writer that is faster than its reader waits.

    The first ending counts; later ones change nothing.
    """

    def __init__(self, room: int) -> None:
        if room < 1:
            raise ValueError(f"a pipe needs room for at least one chunk, not {room}")
        self._room = room
        self._chunks: deque[bytes] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def ready(self) -> bool:
        """Whether `get` answers at once."""
        return bool(self._chunks) or self._ended

    async def put(self, chunk: bytes) -> None:
        """Hand over one chunk, waiting for room. After `close` it is dropped, for no reader is left."""
        while len(self._chunks) >= self._room and not self._ended:
            await self._change()
        if self._error is not None:
            raise self._error
        if not self._ended:
            self._chunks.append(chunk)
            self._changed()

    async def get(self) -> bytes | None:
        """The next chunk; after the last one None, or the error the pipe was closed with."""
        while not self._chunks and not self._ended:
            await self._change()
        if self._chunks:
            chunk = self._chunks.popleft()
            self._changed()
            return chunk
        if self._error is not None:
            raise self._error
        return None

    def close(self, error: Exception | None = None) -> None:
        """No more chunks will come; the reader still gets those that are here."""
        if not self._ended:
            self._ended, self._error = True, error
            self._changed()

    def break_off(self, error: Exception) -> None:
        """Fail both sides at once, as when a connection is reset; chunks on their way are lost."""
        self._chunks.clear()
        self.close(error)

    async def _change(self) -> None:
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def _changed(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
