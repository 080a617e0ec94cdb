"""The agent's files: whole or not at all, bounded, and never through a link that a guest laid."""

import asyncio
import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from paddock.node.removal import remove_tree

__all__ = ["DiskFiles", "Files", "read_whole", "write_whole"]

T = TypeVar("T")


class Files(Protocol):
    """A file system. Every method raises OSError for what it could not find out or do; absence is an answer, not an error."""

    async def read(self, path: Path, limit: int) -> bytes | None:
        """The first `limit` bytes of a regular file; None where there is no such file, or it is not a regular one."""
        ...

    async def tail(self, path: Path, limit: int) -> bytes | None:
        """The last `limit` bytes of a regular file; None as for `read`."""
        ...

    async def part(self, path: Path, first: int, limit: int) -> tuple[int, bytes] | None:
        """The size of a regular file, and at most `limit` bytes of it from byte `first` on; None as for `read`."""
        ...

    async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
        """The file holds this content or what it held before; afterwards it survives a power cut. The folder exists."""
        ...

    async def make_folder(self, path: Path, *, mode: int = 0o700) -> None:
        """The folder and its parents exist, and the folder has this mode, whatever the umask; repeating it does nothing."""
        ...

    async def names(self, path: Path) -> tuple[str, ...]:
        """What a folder holds, sorted; nothing where the folder does not exist."""
        ...

    async def exists(self, path: Path) -> bool:
        """Whether there is anything of that name, a broken link too."""
        ...

    async def remove(self, path: Path) -> None:
        """A file or a folder with all it holds is gone; it may have been gone before."""
        ...

    async def copy(self, source: Path, target: Path) -> None:
        """`target` holds what `source` holds, whole or not at all, with the mode of `source`: it may be the same file."""
        ...


class DiskFiles:
    """The real file system. With `threads` no call blocks the event loop; a simulation, which has no threads, does without."""

    def __init__(self, *, threads: bool = True) -> None:
        self._threads = threads

    async def _do(self, act: Callable[[], T]) -> T:
        return await asyncio.to_thread(act) if self._threads else act()

    async def read(self, path: Path, limit: int) -> bytes | None:
        return await self._do(lambda: read_whole(path, limit))

    async def tail(self, path: Path, limit: int) -> bytes | None:
        return await self._do(lambda: _read(path, limit, from_end=True))

    async def part(self, path: Path, first: int, limit: int) -> tuple[int, bytes] | None:
        return await self._do(lambda: _part(path, first, limit))

    async def write(self, path: Path, content: bytes, *, mode: int = 0o600) -> None:
        await self._do(lambda: write_whole(path, content, mode))

    async def make_folder(self, path: Path, *, mode: int = 0o700) -> None:
        await self._do(lambda: _make_folder(path, mode))

    async def names(self, path: Path) -> tuple[str, ...]:
        def act() -> tuple[str, ...]:
            try:
                return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - names, not paths
            except FileNotFoundError:
                return ()

        return await self._do(act)

    async def exists(self, path: Path) -> bool:
        return await self._do(lambda: os.path.lexists(path))

    async def remove(self, path: Path) -> None:
        def act() -> None:
            with contextlib.suppress(FileNotFoundError):
                if stat.S_ISDIR(os.lstat(path).st_mode):
                    remove_tree(path)
                else:
                    path.unlink()

        await self._do(act)

    async def copy(self, source: Path, target: Path) -> None:
        def act() -> None:
            draft = target.with_name(f".{target.name}.draft")
            draft.unlink(missing_ok=True)
            try:
                draft.hardlink_to(source)
            except OSError:
                shutil.copyfile(source, draft)
                shutil.copymode(source, draft)
            draft.rename(target)

        await self._do(act)


def read_whole(path: Path, limit: int) -> bytes | None:
    """`Files.read`, for who has no event loop."""
    return _read(path, limit, from_end=False)


def _read(path: Path, limit: int, *, from_end: bool) -> bytes | None:
    found = _open(path)
    if found is None:
        return None
    descriptor, size = found
    try:
        return _bytes(descriptor, max(0, size - limit) if from_end else 0, limit)
    finally:
        os.close(descriptor)


def _part(path: Path, first: int, limit: int) -> tuple[int, bytes] | None:
    found = _open(path)
    if found is None:
        return None
    descriptor, size = found
    try:
        return size, _bytes(descriptor, first, limit)
    finally:
        os.close(descriptor)


def _open(path: Path) -> tuple[int, int] | None:
    """A regular file, open for reading, and its size. The caller closes it."""
    # O_NONBLOCK: opening a FIFO that a guest made must not wait for a writer. O_NOFOLLOW: a link could name our own files.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if path.is_symlink() or not path.is_file():
            return None
        raise error from None
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        os.close(descriptor)
        return None
    return descriptor, facts.st_size


def _bytes(descriptor: int, first: int, limit: int) -> bytes:
    os.lseek(descriptor, first, os.SEEK_SET)
    parts: list[bytes] = []
    left = limit
    while left > 0 and (part := os.read(descriptor, left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _make_folder(path: Path, mode: int) -> None:
    path.mkdir(mode=mode, parents=True, exist_ok=True)
    if stat.S_IMODE(path.stat().st_mode) != mode:
        path.chmod(mode)


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """`Files.write`, for who has no event loop."""
    draft = path.with_name(f".{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        os.fchmod(descriptor, mode)
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        draft.unlink(missing_ok=True)
        raise
    os.close(descriptor)
    draft.rename(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
