"""Opening the ledger for as long as it takes: what needs no database lives on meanwhile."""

import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.migrations import MigrationLockError
from paddock.runners.ledger.errors import LedgerUnavailableError
from paddock.runners.ledger.ledger import Ledger

__all__ = ["LedgerOpening", "Unopened"]

_BACKOFF: Final = Backoff(base=0.5, cap=5.0)
_log = get_logger("ledger")


@dataclass(frozen=True, slots=True)
class Unopened:
    """The ledger was not open yet in the life of this process."""

    since: datetime
    why: str = ""
    """Of the last attempt that failed; empty while the first is under way."""
    next_attempt: datetime | None = None
    """None while an attempt is under way."""


class LedgerOpening:
    """Tries until the ledger is open, with backoff. What no waiting can mend is raised at once.

    A database that is away, that refuses the login, or whose tables another process changes is waited for. libpq gives no
    code for a refused login, only a text in the server's language; and whoever makes databases often makes roles and
    passwords a moment after the server answers. What only another release or another DSN can mend (a database too new,
    files that differ from what ran, a role that may not change the tables) ends the process, so that a rollout stops there.
    """

    def __init__(
        self, ledger: Callable[[], AbstractAsyncContextManager[Ledger]], clock: Clock, rng: random.Random
    ) -> None:
        self._ledger = ledger
        self._clock = clock
        self._rng = rng
        self._since = clock.now()
        self.unopened: Unopened | None = Unopened(self._since)
        """None from the moment on at which it was open once; then the ledger itself says how its database is."""

    async def run(self, use: Callable[[Ledger], Awaitable[None]]) -> None:
        """Open the ledger, use it, and close it when `use` ends. Cancelled at any moment, nothing is left open."""
        async with AsyncExitStack() as stack:
            await use(await self._opened(stack))

    async def _opened(self, stack: AsyncExitStack) -> Ledger:
        # Each attempt begins anew: a migration is one transaction with its record, the lock goes with its connection.
        why, failures = "", 0
        while True:
            try:
                ledger = await stack.enter_async_context(self._ledger())
            except (LedgerUnavailableError, MigrationLockError) as error:
                failures += 1
                wait = _BACKOFF.delay(failures, self._rng)
                # libpq explains itself in several lines and asks whether the server runs: the first line says it.
                found = str(error).partition("\n")[0].rstrip(" .")
                if found != why:
                    _log.warning("the ledger cannot be opened; it is tried again until it can", why=found)
                why = found
                self.unopened = Unopened(self._since, why, self._clock.now() + timedelta(seconds=wait))
                await self._clock.sleep(wait)
                self.unopened = Unopened(self._since, why)
            else:
                self.unopened = None
                if failures:
                    _log.info("the ledger is open", attempts=failures + 1)
                return ledger
