"""Ends what a run of the tests has started, however the run ends: a killed pytest tears nothing down.

Every process of a run has a folder of the run in its environment (as TMPDIR, or as a home below it) or among its arguments.
So a process of its own, which outlives pytest by a moment, finds them in the process table whatever session they moved to,
ends them and removes the folders. It imports the standard library alone. Only Linux has what it reads.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

__all__ = ["dies_with", "end_processes_of", "processes_of", "watch"]

_PR_SET_PDEATHSIG = 1
# A database that is told to end writes what it has; one that is killed leaves shared memory behind.
_GRACE = 3.0
_AT_MOST = 30.0


def processes_of(marks: Sequence[str]) -> dict[int, str]:
    """The processes that were started with one of these paths, and their children: each with its command."""
    wanted = [os.fsencode(mark) for mark in marks]
    commands: dict[int, str] = {}
    parents: dict[int, int] = {}
    found: set[int] = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environment = ((process / name).read_bytes() for name in ("cmdline", "environ"))
            parent = int((process / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            continue  # it ended, or is another account's
        pid = int(process.name)
        commands[pid], parents[pid] = command.replace(b"\0", b" ").decode(errors="replace").strip(), parent
        if any(mark in command or mark in environment for mark in wanted):
            found.add(pid)
    found.discard(os.getpid())
    while more := {pid for pid, parent in parents.items() if parent in found and commands[pid]} - found:
        found |= more
    return {pid: commands[pid] for pid in found}


def watch(marks: Sequence[str], folders: Sequence[Path]) -> "subprocess.Popen[str] | None":
    """From now on: when this process ends, so do all processes with these marks, and the folders go."""
    if sys.platform != "linux":
        return None
    # A session of its own: what ends the run's group does not end it. No marks: it does not end itself.
    watchdog = subprocess.Popen(
        [sys.executable, "-SE", __file__, str(os.getpid())],
        stdin=subprocess.PIPE,
        env={},
        cwd="/",
        start_new_session=True,
        text=True,
    )
    assert watchdog.stdin is not None
    with watchdog.stdin as told:
        json.dump([list(marks), [str(folder) for folder in folders]], told)
    return watchdog


def dies_with(parent: int) -> None:
    """Called in a forked copy of a test's process: the copy ends when that process does."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)


def _wait_for_the_end_of(pid: int) -> None:
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    select.select([process], [], [])


def end_processes_of(*marks: str, grace: float = 0.0) -> None:
    """Each has this long to end by itself; returns when none is left."""
    began = time.monotonic()
    while (left := processes_of(marks)) and time.monotonic() < began + _AT_MOST:
        for pid in left if time.monotonic() >= began + grace else ():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue  # it ended just now
        time.sleep(0.02)


if __name__ == "__main__":
    all_marks, all_folders = json.load(sys.stdin)
    _wait_for_the_end_of(int(sys.argv[1]))
    end_processes_of(*all_marks, grace=_GRACE)
    for folder in all_folders:
        shutil.rmtree(folder, ignore_errors=True)
