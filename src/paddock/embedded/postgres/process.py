"""Starts Postgres' programs so that we decide when they end, and so that they end with us."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from paddock.base.clock import Clock
from paddock.embedded.postgres.account import OsAccount

__all__ = ["ended", "settings", "spawn", "stop"]

_PR_SET_PDEATHSIG = 1
_POLL = 0.01


def settings(major: int, socket_folder: Path, rules: Path) -> dict[str, str]:
    """What the server is told at every start: durable, private, and at home on a small machine.

    `rules` is the folder of the two files that say who may log in.
    """
    chosen = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_folder),
        "unix_socket_permissions": "0700",
        "port": "5432",
        "hba_file": str(rules / "pg_hba.conf"),
        "ident_file": str(rules / "pg_ident.conf"),
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "shared_buffers": "64MB",
        "max_connections": "50",
        # No replicas and no parallel queries: less to write, fewer processes, no need for a large /dev/shm.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "256MB",
        "max_parallel_workers": "0",
        "jit": "off",
        "log_checkpoints": "off",
        "log_line_prefix": "%m [%p] %a ",
        "log_timezone": "UTC",
        "timezone": "UTC",
    }
    if major >= 18:
        chosen["io_method"] = "sync"
    return chosen


def spawn(arguments: Sequence[str | Path], account: OsAccount, output: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start a program as the account, in a session of its own.

    A session of its own, because Ctrl-C goes to everything in the terminal's foreground, and whoever uses the database
    must stop before it does. On Linux the kernel sends SIGINT, a fast shutdown, when the thread that called this ends:
    even `kill -9` leaves nothing behind, so call it from the thread that lives as long as the process. Other systems
    have no such thing; there the next start clears up.
    """
    return subprocess.Popen[bytes](
        [str(argument) for argument in arguments],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        # Only what is needed: PG* variables of the caller would change what the server does.
        env={"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"},
        cwd="/",
        start_new_session=True,
        preexec_fn=_end_with_parent() if sys.platform == "linux" else None,
        **account.popen_options(),
    )


def _end_with_parent() -> Callable[[], None]:
    # Everything is looked up before the fork: between fork and exec only two system calls are made, and those are safe
    # whatever other threads were doing. `subprocess` changes the user before this, as a later change would undo it.
    prctl = ctypes.CDLL(None).prctl
    parent = os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT), 0, 0, 0)
        if os.getppid() != parent:  # we died before the kernel knew
            os._exit(1)

    return arrange


async def ended(process: "subprocess.Popen[bytes]", clock: Clock, timeout: float, poll: float = _POLL) -> bool:
    """Whether the process ends within `timeout` seconds. Asks rather than waits, so it suits any event loop."""
    deadline = clock.monotonic() + timeout
    while process.poll() is None:
        if clock.monotonic() >= deadline:
            return False
        await clock.sleep(poll)
    return True


async def stop(process: "subprocess.Popen[bytes]", clock: Clock, timeout: float) -> None:
    """End a server: fast (transactions roll back, all is written), then at once, then by force; each leaves good data."""
    for what, wait in ((signal.SIGINT, timeout), (signal.SIGQUIT, 2.0), (signal.SIGKILL, 2.0)):
        if process.poll() is not None:
            return
        process.send_signal(what)
        if await ended(process, clock, wait):
            return
