"""How many connections the listeners of one process may hold together: each costs a file, from its accept to its end.

A process that has no file left reads no certificate, opens no database and answers nobody, whichever listener took them.
"""

import contextlib
import resource
from typing import Final

__all__ = ["ConnectionBudget", "of_this_process"]

_KEPT_FREE: Final = 256
"""Files for everything but connections."""
_MOST: Final = 20_000
_LEAST: Final = 64
_OWN: Final = 64
"""Connections that no crowd at another listener takes."""
_WITHOUT_LIMIT: Final = 10_240
"""What macOS gives to a process that may have as many as it likes."""


class ConnectionBudget:
    """At most `most` connections. A listener may take all that is free, but what the others have not used of their own few."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._used: dict[object, int] = {}

    def open(self, listener: object) -> None:
        self._used[listener] = 0

    def close(self, listener: object) -> None:
        self._used.pop(listener, None)

    def accepted(self, listener: object) -> None:
        self._used[listener] += 1

    def ended(self, listener: object) -> None:
        if listener in self._used:
            self._used[listener] -= 1

    def has_room(self, listener: object) -> bool:
        own = min(_OWN, self.most // (2 * len(self._used)))
        kept = sum(max(0, own - used) for other, used in list(self._used.items()) if other is not listener)
        return sum(self._used.values()) + kept < self.most


_budgets: list[ConnectionBudget] = []


def of_this_process() -> ConnectionBudget:
    """The one budget of all listeners here, by the files that this process may open. The soft limit of files is raised first."""
    if not _budgets:
        files = _raised()
        _budgets.append(ConnectionBudget(max(_LEAST, min(_MOST, files - _KEPT_FREE))))
    return _budgets[0]


def _raised() -> int:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST + _KEPT_FREE
    for limit in (wanted, _WITHOUT_LIMIT):
        aim = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        if soft == resource.RLIM_INFINITY or soft >= aim:
            break
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (aim, hard))
            soft = aim
            break
    return wanted if soft == resource.RLIM_INFINITY else soft
