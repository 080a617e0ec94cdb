"""The keys of a Mac on its disk. Two processes write them: what takes a key over SSH, and the agent that was answered with it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from paddock.base.logs import get_logger
from paddock.clients.gateway.mac_key import FORM
from paddock.node.files import read_whole, write_whole
from paddock.node.keys import Keys

__all__ = ["KeyFile"]

_LARGEST: Final = 4096
_NAME: Final = "keys.json"

log = get_logger("node keys")


class KeyFile:
    """The file holds what it held, or what was written: 0600, flushed, then renamed. Beside it lies what it held before, which counts
    where the file cannot be read: the older of two keys is better than none, and a key that was given up is only refused.

    Every call takes the file as it is now, a few hundred bytes, and writes under a lock that the kernel gives back.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._former = path.with_name(f"{path.name}.former")

    @classmethod
    def of_agent(cls, data: Path) -> "KeyFile":
        """That of the agent whose data folder this is."""
        return cls(data / _NAME)

    def read(self) -> Keys:
        """The keys; none where there never were any, or nothing of them can be read: then the operator brings another."""
        found = self._decoded(self._path)
        if found is None and (found := self._decoded(self._former)) is not None:
            log.warning("the file with this Mac's keys cannot be read; the one before it counts", path=str(self._path))
        return found or Keys()

    def offer(self, key: str, number: int) -> tuple[bool, Keys]:
        """Take a key that came over SSH, if its number is higher; and what is held afterwards. Raises OSError."""
        with self._locked():
            held = self.read()
            taken = held.offered(key, number) if FORM.fullmatch(key) else None
            if taken is None:
                return False, held
            self._write(taken)
            return True, taken

    def answered(self, key: str) -> None:
        """The gateway took a request with this key. Raises OSError; then the key before is tried on, which does no harm."""
        if self.read().newest != key:
            return  # nothing changes: the usual case
        with self._locked():
            held = self.read()
            after = held.answered(key)
            if after != held:
                self._write(after)

    def _write(self, keys: Keys) -> None:
        # A crash between the two leaves both files with the same keys.
        held = read_whole(self._path, _LARGEST)
        if held is not None and self._decoded(self._path) is not None:
            write_whole(self._former, held)
        write_whole(self._path, msgspec.json.encode(keys))

    def _decoded(self, path: Path) -> Keys | None:
        try:
            content = read_whole(path, _LARGEST)
            return None if content is None else msgspec.json.decode(content, type=Keys)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Held for two small writes, so that waiting for it is short."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            self._path.with_name(f"{self._path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
