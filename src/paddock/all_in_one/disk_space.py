"""How much room the database has left: looked at before it is gone, because a full disk stops everything at once."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from paddock.base.clock import Clock
from paddock.runners.http.concern import Concern
from paddock.runners.http.concerns import space_concern

__all__ = ["DiskSpace"]

_EVERY = 5.0


class DiskSpace:
    """The last look at the disk of a folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        self._free: int | None = None

    async def run(self) -> None:
        while True:
            # In a thread: a disk that hangs, such as a network's, must not hold up whoever asks for jobs.
            usage = await asyncio.to_thread(shutil.disk_usage, self._folder)
            self._free = usage.free
            await self._clock.sleep(_EVERY)

    def concerns(self) -> Sequence[Concern]:
        return [] if self._free is None else space_concern(str(self._folder), self._free)
