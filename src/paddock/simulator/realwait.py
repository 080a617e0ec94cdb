"""The guard against real waits: whatever would block or leave the process while a simulation runs is refused.

The interpreter itself tells us (audit events), so the guard also sees what libraries do behind our back. Older
interpreters do not tell of `time.sleep` and of new threads; those two are replaced while a simulation runs. The guard acts
only in the thread that runs the simulation, and costs nothing before the first one.
"""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["real_waits_reported_to", "unguarded"]

_NAMES = {
    "time.sleep": "time.sleep()",
    "socket.connect": "connecting a socket",
    "socket.bind": "binding a socket",
    "socket.sendto": "sending on a socket",
    "socket.sendmsg": "sending on a socket",
    "socket.getaddrinfo": "a DNS look-up",
    "socket.gethostbyname": "a DNS look-up",
    "subprocess.Popen": "starting a child process",
    "os.system": "starting a child process",
    "os.posix_spawn": "starting a child process",
    "os.fork": "forking",
    "_thread.start_new_thread": "starting a thread",
    "_thread.start_joinable_thread": "starting a thread",
}


class _Guard:
    installed = False
    thread: int | None = None
    report: Callable[[str], None] | None = None


def _hear(event: str, args: tuple[object, ...]) -> None:
    # Called for every audit event of the interpreter, so the common case must be one comparison.
    if _Guard.thread is None or event not in _NAMES or _Guard.thread != threading.get_ident():
        return
    if event == "time.sleep" and args and args[0] == 0:
        return
    if _Guard.report is not None:
        _Guard.report(f"{_NAMES[event]} {_detail(event, args)}".rstrip())


def _detail(event: str, args: tuple[object, ...]) -> str:
    if event == "time.sleep":
        return f"for {args[0]} s"
    if event in {"socket.connect", "socket.bind"}:
        return f"to {args[1]!r}"
    if event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        return f"of {args[0]!r}"
    if event == "subprocess.Popen":
        return repr(args[0])
    return ""


@contextmanager
def _sleep_and_threads_replaced() -> Iterator[None]:
    real_sleep, real_start = time.sleep, threading.Thread.start

    def sleep(seconds: float) -> None:
        _hear("time.sleep", (seconds,))
        real_sleep(seconds)

    def start(self: threading.Thread) -> None:
        _hear("_thread.start_new_thread", (self.name,))
        real_start(self)

    time.sleep, threading.Thread.start = sleep, start
    try:
        yield
    finally:
        time.sleep, threading.Thread.start = real_sleep, real_start


@contextmanager
def real_waits_reported_to(report: Callable[[str], None]) -> Iterator[None]:
    """While this is open, `report` is called with the name of each real wait this thread attempts, and should raise."""
    if not _Guard.installed:
        # An audit hook cannot be taken back; it is inert whenever no simulation runs.
        sys.addaudithook(_hear)
        _Guard.installed = True
    _Guard.report, _Guard.thread = report, threading.get_ident()
    try:
        with _sleep_and_threads_replaced():
            yield
    finally:
        _Guard.report, _Guard.thread = None, None


@contextmanager
def unguarded() -> Iterator[None]:
    """For the simulator's own tools, which may step outside: a fork copies a whole world, virtual time and all."""
    thread, _Guard.thread = _Guard.thread, None
    try:
        yield
    finally:
        _Guard.thread = thread
