"""Hints that a pool has something to hand out. A hint may be lost, late or for nothing; it is never the only way.

Sent after the change is committed, in a transaction of its own: a NOTIFY inside the writing transaction would make all
writers of the database commit one after the other. Many changes at once share one hint. Whoever listens in the process that
made the change hears of it at once, without the way through the database, and not a second time by that way. A hint is the
pool's name and nothing else, which every release understands; whose it is, the number of the sending connection tells.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import sql

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.dsn import connect
from paddock.base.logs import get_logger
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.errors import LedgerUnavailableError

__all__ = ["EVERY_POOL", "Known", "Listener", "Notifications"]

EVERY_POOL: Final = frozenset({"*"})
"""Look at every pool: hints may have been missed."""

_RECONNECT = Backoff(base=0.1, cap=5.0)
_log = get_logger("ledger")

NOTIFY = """
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool) FROM unnest(%s::text[]) AS pool
"""

Heard = Callable[[frozenset[str]], None]
Known = Callable[[int, str], bool]


class Notifications:
    """The sending side."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pools: set[str] = set()
        self._turn = asyncio.Lock()
        self._here: list[Heard] = []
        self._sent: Counter[tuple[int, str]] = Counter()

    @contextmanager
    def heard_here(self, heard: Heard) -> Iterator[None]:
        """For as long as the block runs, hints of this process are heard at once; `Listener.hints` may leave them out."""
        self._here.append(heard)
        try:
            yield
        finally:
            self._here.remove(heard)

    async def hint(self, *pools: str) -> None:
        """Tell listeners of these pools. Never fails: whoever waits also looks by itself every second or two."""
        named = frozenset(pool for pool in pools if pool)
        if named:
            for heard in self._here:
                heard(named)
        self._pools |= named
        async with self._turn:
            sending, self._pools = sorted(self._pools), set()
            if not sending:
                return  # a caller that waited before us sent ours too
            try:
                await self._send(sending)
            except LedgerUnavailableError as error:
                _log.info("a hint was not sent", pools=sending, error=str(error))

    def was_heard_here(self, connection: int, pool: str) -> bool:
        """Whether a hint that arrives from that connection is one of this process's, which was heard as it was sent.

        Each is known again once. Where it errs (a pooler tells other numbers, a hint got lost on its way back), a pool is looked at
        once too often, or two seconds late.
        """
        if not self._sent[connection, pool]:
            return False
        self._sent[connection, pool] -= 1
        if not self._sent[connection, pool]:
            del self._sent[connection, pool]
        return True

    async def _send(self, pools: list[str]) -> None:
        async with self._database.connection() as connection:
            if self._here:
                # Before it is sent: it may arrive before its sending is answered.
                self._sent.update((connection.info.backend_pid, pool) for pool in pools)
            await connection.execute(NOTIFY, [pools])


class Listener:
    """The receiving side, over a connection of its own.

    `async for pools in listener.hints()` gives the names of pools to look at. It gives EVERY_POOL on every connection, so
    nothing that was hinted while there was none is missed, and whenever `timeout` seconds passed without a hint, which
    makes it the poll that hints are only a shortcut for. A lost connection is a log line and a new connection. Hints of
    which `known` says so, by the sender's connection and the pool, were heard before and are left out.
    """

    def __init__(self, conninfo: str, *, schema: str, clock: Clock, rng: random.Random, timeout: float = 2.0) -> None:
        self._conninfo = conninfo
        self._channel = f"paddock_{schema}"
        self._clock = clock
        self._rng = rng
        self._timeout = timeout

    async def hints(self, known: Known | None = None) -> AsyncIterator[frozenset[str]]:
        failures = 0
        while True:
            try:
                connection = await connect(self._conninfo, application_name="paddock-ledger-listener")
                async with connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    failures = 0
                    yield EVERY_POOL
                    while True:
                        heard = [one async for one in connection.notifies(timeout=self._timeout, stop_after=1)]
                        if heard:
                            # What arrived together with the first is taken along.
                            heard += [one async for one in connection.notifies(timeout=0)]
                            new = [one for one in heard if known is None or not known(one.pid, one.payload)]
                            named = frozenset(one.payload for one in new)
                            if named:
                                yield named
                        else:
                            # Also how a connection whose other end vanished without a word is found out.
                            # Not `wait_for`: before Python 3.12 it may swallow the cancellation of a listener that ends.
                            async with asyncio.timeout(5):
                                await connection.execute("SELECT 1")
                            yield EVERY_POOL
            except (psycopg.OperationalError, psycopg.InterfaceError, TimeoutError) as error:
                failures += 1
                _log.info("not listening for hints", failures=failures, error=str(error))
                # Whoever waits goes on looking by itself, at the pace at which we try to come back.
                yield EVERY_POOL
                await self._clock.sleep(_RECONNECT.delay(failures, self._rng))
