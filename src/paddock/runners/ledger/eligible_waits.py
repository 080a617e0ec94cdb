"""How long jobs have waited that may run: without the time for which their account's own limit held them back.

The ledger knows since when a job waits and whether it may run now, but not since when it may. An account at its limit gets
a slot back whenever one of its jobs ends; the next of its jobs has waited long by then, which is no fault. So a process
that looks every few seconds remembers since when each account has had room, and counts from there.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from paddock.runners.ledger.waiting_load import InLine

__all__ = ["EligibleWaits"]

_Key = tuple[str, int, str]


class EligibleWaits:
    """Give it every look at the line. What it never saw held back counts from the moment that it was queued."""

    def __init__(self) -> None:
        self._since: dict[_Key, datetime] = {}
        self._withheld: set[_Key] = set()

    def look(self, line: Iterable[InLine], now: datetime) -> None:
        """The line as it is now, whole."""
        since: dict[_Key, datetime] = {}
        withheld: set[_Key] = set()
        for one in line:
            key = (one.pool, one.account_id, one.platform)
            if not one.may_run:
                withheld.add(key)
            else:
                # The oldest of the line moves on as it is served: no job has waited longer than that.
                since[key] = max(self._since.get(key, now if key in self._withheld else one.oldest), one.oldest)
        self._since, self._withheld = since, withheld

    def forget(self) -> None:
        """The line could not be read: what was remembered may be wrong by now."""
        self._since, self._withheld = {}, set()

    def longest(self, now: datetime, pool: str | None = None) -> timedelta:
        """The longest that a job of the pool, or of any, has waited since it may run; zero if none may."""
        waits = (now - since for (of, _, _), since in self._since.items() if pool in (None, of))
        return max(waits, default=timedelta())
