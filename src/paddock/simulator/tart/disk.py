"""A Mac's file system in memory, as the agent and the guests see it. It survives the agent and a power cut."""

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from paddock.simulator.faults import FaultError, Faults
from paddock.simulator.process_life import require_alive

__all__ = ["SimulatedDisk"]

T = TypeVar("T")


class SimulatedDisk:
    """`Files` over a dict. Writes of the agent are effects that `faults` may disturb; `full` fails every write.

    `modes` says what the agent gave others; a guest, whose user has another number than the agent's, has only that. What is removed from a full disk makes room for as many bytes.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.files: dict[Path, bytes] = {}
        self.folders: set[Path] = set()
        self.modes: dict[Path, int] = {}
        self.unreadable: set[Path] = set()
        self.full = False
        self._freed = 0
        self._faults = faults
        self._changed = asyncio.Event()

    # The agent's side

    async def read(self, path: Path, limit: int) -> bytes | None:
        return self._content(path, lambda content: content[:limit])

    async def tail(self, path: Path, limit: int) -> bytes | None:
        return self._content(path, lambda content: content[-limit:])

    async def part(self, path: Path, first: int, limit: int) -> tuple[int, bytes] | None:
        found = self._content(path, lambda content: content[first : first + limit])
        return None if found is None else (len(self.files[path]), found)

    async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
        async def act() -> None:
            if not self.full:
                self._freed = 0
            elif len(content) > self._freed:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            if path.parent not in self.folders:
                raise OSError(errno.ENOENT, "No such file or directory", str(path))
            self._freed += (len(self.files.get(path, b"")) - len(content)) if self.full else 0
            self.put(path, content)
            self.modes[path] = mode

        await self._effect(f"disk write {path.name}", act)

    async def make_folder(self, path: Path, *, mode: int = 0o700) -> None:
        require_alive()
        self.folders.update([path, *path.parents])
        self.modes[path] = mode

    async def names(self, path: Path) -> tuple[str, ...]:
        require_alive()
        depth = len(path.parts)
        below = [each for each in (*self.files, *self.folders) if path in each.parents]
        return tuple(sorted({each.parts[depth] for each in below}))

    async def exists(self, path: Path) -> bool:
        require_alive()
        return path in self.files or path in self.folders

    async def remove(self, path: Path) -> None:
        require_alive()
        if not await self.exists(path):
            return

        async def act() -> None:
            self._drop(path)

        await self._effect(f"disk remove {path.name}", act)

    async def copy(self, source: Path, target: Path) -> None:
        await self.write(target, self.files[source], mode=self.modes.get(source, 0o644))

    # The guests' side, and the tests'

    def put(self, path: Path, content: bytes) -> None:
        self.folders.update(path.parents)
        self.files[path] = content
        self._tell()

    def make(self, path: Path) -> bool:
        """`mkdir`: whether the folder was made, and not there before."""
        if path in self.folders:
            return False
        self.folders.update([path, *path.parents])
        return True

    def others_may(self, bits: int, path: Path) -> bool:
        """Whether whoever is not the agent's user may read (4), write (2) or enter (1)."""
        return self.modes.get(path, 0o777) & bits == bits

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something is so; looked at whenever a file changes."""
        while not holds():
            await self._changed.wait()

    def _drop(self, path: Path) -> None:
        for each in [each for each in self.files if each == path or path in each.parents]:
            self._freed += len(self.files[each]) if self.full else 0
            del self.files[each]
        self.modes = {each: mode for each, mode in self.modes.items() if each != path and path not in each.parents}
        self.folders = {each for each in self.folders if each != path and path not in each.parents}
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    def _content(self, path: Path, part: Callable[[bytes], bytes]) -> bytes | None:
        require_alive()
        if path in self.unreadable:
            raise OSError(errno.EIO, "Input/output error", str(path))
        content = self.files.get(path)
        return None if content is None else part(content)

    async def _effect(self, name: str, act: Callable[[], Awaitable[T]]) -> T:
        require_alive()
        if self._faults is None:
            return await act()
        return await self._faults.call(name, act, error=_as_os_error)


def _as_os_error(error: FaultError) -> OSError:
    return OSError(errno.EIO, str(error))
