"""Finds the Postgres that a killed predecessor left behind in a data folder. The caller holds the folder's lock."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.processes import process_exists
from paddock.embedded.postgres.errors import PostgresNotStartingError

__all__ = ["PidFile", "end_orphans", "read_pid_file"]

_log = get_logger("postgres")
_POLL = 0.02


@dataclass(frozen=True, slots=True)
class PidFile:
    """The lines of `postmaster.pid` that matter to us."""

    pid: int
    ready: bool


def read_pid_file(data: Path) -> PidFile | None:
    """What a running or dead server wrote down; None if there is nothing, or nothing complete yet."""
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        pid = int(lines[0])
    except (OSError, ValueError, IndexError):
        return None
    return PidFile(pid, ready=len(lines) > 7 and lines[7].strip() == "ready")


async def end_orphans(data: Path, clock: Clock) -> None:
    """Leave no process of this data folder, and no stale claim to it that would keep a new server from starting.

    A process is taken for ours only if it is a Postgres that works in this very folder: process ids are used again.
    `data` is given without symbolic links, as the system names the folder that a process works in.
    """
    found = read_pid_file(data)
    if found is None:
        return
    if _serves(found.pid, data):
        _log.warning("a predecessor left its Postgres running; stopping it", pid=found.pid)
        for stop, timeout in ((signal.SIGINT, 5.0), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 2.0)):
            _send(found.pid, stop)
            if await _gone(lambda: _serves(found.pid, data), clock, timeout):
                break
    # The parts of a server whose head was killed see that by themselves and leave; a new one must not meet them.
    if not await _gone(lambda: bool(_workers(data)), clock, 5.0):
        for pid in _workers(data):
            _send(pid, signal.SIGKILL)
        if not await _gone(lambda: bool(_workers(data)), clock, 2.0):
            raise PostgresNotStartingError(f"processes {_workers(data)} still use {data}: end them and start again")
    if sys.platform == "linux" and process_exists(found.pid):
        # The id now belongs to a stranger, whom Postgres could mistake for its predecessor. No process works in this
        # folder, which was looked up just now, and none can start to while we hold its lock.
        (data / "postmaster.pid").unlink(missing_ok=True)


async def _gone(there: Callable[[], bool], clock: Clock, timeout: float) -> bool:
    deadline = clock.monotonic() + timeout
    while there():
        if clock.monotonic() >= deadline:
            return False
        await clock.sleep(_POLL)
    return True


def _serves(pid: int, data: Path) -> bool:
    """Whether a process is a Postgres of this data folder, given without links."""
    if sys.platform == "linux":
        # A server's working folder is its data folder. Ids of threads and zombies have none.
        try:
            return Path(f"/proc/{pid}/cwd").readlink() == data and Path(f"/proc/{pid}/exe").readlink().name.split(" ")[
                0
            ] in ("postgres", "postmaster")
        except OSError:
            return False
    answer = subprocess.run(  # noqa: S603 - fixed program, a number as argument
        ["/bin/ps", "-p", str(pid), "-o", "args="], check=False, capture_output=True, text=True, timeout=10
    )
    return "postgres" in answer.stdout and str(data) in answer.stdout


def _workers(data: Path) -> list[int]:
    """Every process of this data folder, where the system lets us look."""
    if sys.platform != "linux":
        return []
    return [int(at.name) for at in Path("/proc").iterdir() if at.name.isdigit() and _serves(int(at.name), data)]


def _send(pid: int, what: signal.Signals) -> None:
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        return  # it left by itself
