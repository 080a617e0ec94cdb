"""The runner's log on its way to dispatch: new bytes every few seconds while the job runs, and the rest when it has ended.

The share's log is hostile: it may be a link, a pipe, shrink, or grow by gigabytes. Only bytes of a regular file are read,
at most 256 KiB at a time, and what is more than 1 MiB behind is left out: dispatch would not keep it.
"""

from typing import Final, Protocol

from paddock.base.clock import Clock
from paddock.clients.gateway.messages import LARGEST_BODY
from paddock.node.shares import Shares

__all__ = ["LogReporter", "PostLog"]

EVERY: Final = 5.0
_PIECES_AT_ONCE: Final = 4
_PIECES_AT_THE_END: Final = 20
_KEPT: Final = 1 << 20


class PostLog(Protocol):
    """Post a piece: the byte that is expected next, None where that cannot be known. Never raises."""

    async def __call__(self, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None: ...


class LogReporter:
    """Posts one guest's log. Nothing of it can fail a job: what cannot be read or posted is tried again, or left out.

    `_offset` is where in the file we are, `_position` where in what dispatch has: they part when bytes were left out or the
    file was begun anew. A new agent asks dispatch for the position and takes it for the offset.
    """

    def __init__(self, post: PostLog, shares: Shares, clock: Clock) -> None:
        self._post = post
        self._shares = shares
        self._clock = clock
        self._offset = 0
        self._position: int | None = None

    async def run(self) -> None:
        """Post until cancelled."""
        while True:
            await self.post(_PIECES_AT_ONCE)
            await self._clock.sleep(EVERY)

    async def finish(self) -> None:
        """The VM has ended: post what is left, and say that there will be no more."""
        await self.post(_PIECES_AT_THE_END)
        if self._position is not None:
            await self._post(self._position, ended=True)

    async def post(self, pieces: int) -> None:
        if self._position is None:
            known = await self._post(0)
            if known is None:
                return
            self._position = self._offset = known
        for _ in range(pieces):
            if not await self._piece():
                return

    async def _piece(self) -> bool:
        """Post the next piece; whether there may be another."""
        assert self._position is not None
        try:
            found = await self._shares.log_part(self._offset, LARGEST_BODY)
            if found is None:
                return False
            size, content = found
            if size < self._offset:
                self._offset = 0  # begun anew, by whomever
                return True
            if size - self._offset > _KEPT:
                self._offset = size - _KEPT
                found = await self._shares.log_part(self._offset, LARGEST_BODY)
                content = found[1] if found is not None else b""
        except OSError:
            return False
        if not content:
            return False
        known = await self._post(self._position, content)
        if known is None:
            return False
        self._offset += len(content)
        self._position = max(known, self._position + len(content))
        return len(content) == LARGEST_BODY
