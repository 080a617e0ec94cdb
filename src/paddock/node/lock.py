"""One agent a Mac: a lock on the data folder, which the kernel gives back however the agent ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["AlreadyRunningError", "agent_lock"]


class AlreadyRunningError(Exception):
    """Another agent works with this data folder: stop it first, or give this one another --data."""


@contextmanager
def agent_lock(data: Path) -> Iterator[None]:
    """Hold the folder for the length of the block; AlreadyRunningError where another agent has it."""
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(data / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunningError(
                f"{data}: another agent works with this folder: stop it first, or give another --data"
            ) from None
        yield
    finally:
        os.close(descriptor)
