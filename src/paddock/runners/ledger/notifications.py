"""Hints that a pool has something to hand out. A hint may be lost, late or for nothing; it is never the only way.

Sent after the change is committed, in a transaction of its own: a NOTIFY inside the writing transaction would make all
writers of the database commit one after the other. Many changes at once share one hint. Whoever listens in the process that
made the change hears of it at once, without the way through the database, and not a second time by that way.
"""

import asyncio
import os
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import sql

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.errors import LedgerUnavailableError

__all__ = ["EVERY_POOL", "Listener", "Notifications"]

EVERY_POOL: Final = frozenset({"*"})
"""Look at every pool: hints may have been missed."""

_RECONNECT = Backoff(base=0.1, cap=5.0)
_log = get_logger("ledger")

NOTIFY = """
-- hint: one statement for every pool that has something new
SELECT pg_notify('paddock_' || current_schema(), pool || %s) FROM unnest(%s::text[]) AS pool
"""

Heard = Callable[[frozenset[str]], None]


class Notifications:
    """The sending side."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._pools: set[str] = set()
        self._turn = asyncio.Lock()
        self._here: list[Heard] = []
        self.origin = f"{socket.gethostname()}/{os.getpid()}/{id(self)}"
        """Whose hints these are; behind the pool's name, which has no space in it."""

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
                await self._database.run(NOTIFY, [f" {self.origin}", sending])
            except LedgerUnavailableError as error:
                _log.info("a hint was not sent", pools=sending, error=str(error))


class Listener:
    """The receiving side, over a connection of its own.

    `async for pools in listener.hints()` gives the names of pools to look at. It gives EVERY_POOL on every connection, so
    nothing that was hinted while there was none is missed, and whenever `timeout` seconds passed without a hint, which
    makes it the poll that hints are only a shortcut for. A lost connection is a log line and a new connection. Hints of
    `besides`, which were heard before, are left out.
    """

    def __init__(self, conninfo: str, *, schema: str, clock: Clock, rng: random.Random, timeout: float = 2.0) -> None:
        self._conninfo = conninfo
        self._channel = f"paddock_{schema}"
        self._clock = clock
        self._rng = rng
        self._timeout = timeout

    async def hints(self, besides: str = "") -> AsyncIterator[frozenset[str]]:
        failures = 0
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self._conninfo, autocommit=True, connect_timeout=5, application_name="paddock-ledger-listener"
                )
                async with connection:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
                    failures = 0
                    yield EVERY_POOL
                    while True:
                        heard = {
                            notice.payload async for notice in connection.notifies(timeout=self._timeout, stop_after=1)
                        }
                        if heard:
                            # What arrived together with the first is taken along.
                            heard |= {notice.payload async for notice in connection.notifies(timeout=0)}
                            if named := _pools_in(heard, besides):
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


def _pools_in(payloads: set[str], besides: str) -> frozenset[str]:
    """What is hinted: the name of a pool and, except from releases before this one, whose hint it is."""
    parts = (payload.partition(" ") for payload in payloads)
    return frozenset(pool for pool, _, origin in parts if not origin or origin != besides)
