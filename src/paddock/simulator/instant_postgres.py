"""The ledger's real Postgres under virtual time: each statement is one step of the loop, and takes no time at all.

A wait for Postgres is a real wait, which a virtual-time loop cannot have. So the whole of it happens inside one step: the thread
waits for the server, the clock stands, and no other task runs meanwhile. Transactions that only talk to the database are therefore
never interleaved, and the same seed gives the same run. What this cannot show is two transactions that contend for a row; the tests of
the ledger are for that. A process that is killed loses its connections, and with them what it had not committed.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, ClassVar

import psycopg
from psycopg import pq, sql, waiting

from paddock.base.clock import Clock
from paddock.runners.ledger import Ledger, Listener
from paddock.runners.ledger.database import Connection
from paddock.runners.ledger.errors import LedgerUnavailableError
from paddock.runners.ledger.notifications import EVERY_POOL, Known, Notifications
from paddock.simulator.process_life import current_life, require_alive

__all__ = ["Hints", "InstantListener", "InstantPool", "ledger_of", "pools_closed_at_the_end"]


class InstantConnection(psycopg.AsyncConnection[Any]):
    """An asynchronous connection whose waits are over when they return."""

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        del timeout
        require_alive()
        return waiting.wait(gen, self.pgconn.socket, interval)


class InstantPool:
    """What `Database` needs of a pool. It ends with the process that opened it, and at the latest with the test."""

    open: ClassVar[set["InstantPool"]] = set()

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn, self._schema = dsn, schema
        self._free: list[InstantConnection] = []
        self._all: list[InstantConnection] = []
        self.open.add(self)
        life = current_life()
        if life is not None:
            life.on_end(self.close)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        require_alive()
        connection = self._free.pop() if self._free else await self._opened()
        try:
            yield connection
        finally:
            if not connection.closed:
                self._free.append(connection)

    async def _opened(self) -> InstantConnection:
        connection = InstantConnection(pq.PGconn.connect(self._dsn.encode()))
        if connection.pgconn.status != pq.ConnStatus.OK:
            raise LedgerUnavailableError(connection.pgconn.get_error_message())
        await connection.set_autocommit(True)
        await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)))
        # A transaction that waits for something else while it holds a lock would stop the world: it is an error here.
        await connection.execute("SET lock_timeout TO '3s'")
        # The disk is waited for by nobody here: the server outlives every run.
        await connection.execute("SET synchronous_commit TO off")
        self._all.append(connection)
        return connection

    def close(self) -> None:
        """The process is over: Postgres sees its connections end, and rolls back what was open."""
        for connection in self._all:
            connection.pgconn.finish()
        self._all.clear()
        self._free.clear()
        self.open.discard(self)


@contextmanager
def pools_closed_at_the_end() -> Iterator[None]:
    """A pool of no process (a person's, a judge's) has none to end with: without this each test would leave its connections."""
    try:
        yield
    finally:
        for pool in tuple(InstantPool.open):
            pool.close()


class Hints:
    """Who listens for hints, over all dispatch processes: NOTIFY and LISTEN without their wire."""

    def __init__(self) -> None:
        self.ears: list[tuple[set[str], asyncio.Event]] = []

    def tell(self, *pools: str) -> None:
        for heard, woken in self.ears:
            heard.update(pool for pool in pools if pool)
            woken.set()


class _ToldHints(Notifications):
    def __init__(self, database: Any, hints: Hints) -> None:
        super().__init__(database)
        self._hints = hints

    async def hint(self, *pools: str) -> None:
        self._hints.tell(*pools)


class InstantListener(Listener):
    """`Listener` over `Hints`; it dies with its process."""

    def __init__(self, hints: Hints, clock: Clock, timeout: float = 2.0) -> None:
        self._hints, self._own_clock, self._patience = hints, clock, timeout

    async def hints(self, known: Known | None = None) -> AsyncIterator[frozenset[str]]:  # noqa: ARG002 - nobody hears twice
        ear: tuple[set[str], asyncio.Event] = (set(), asyncio.Event())
        self._hints.ears.append(ear)
        life = current_life()
        withdraw = life.on_end(lambda: self._hints.ears.remove(ear)) if life is not None else None
        try:
            yield EVERY_POOL
            while True:
                try:
                    async with asyncio.timeout(self._patience):
                        await ear[1].wait()
                except TimeoutError:
                    yield EVERY_POOL
                    continue
                heard = frozenset(ear[0])
                ear[0].clear()
                ear[1].clear()
                if heard:
                    yield heard
        finally:
            if withdraw is not None and life is not None and life.alive:
                withdraw()
                self._hints.ears.remove(ear)


def ledger_of(pool: InstantPool, hints: Hints, clock: Clock, rng: Any) -> Ledger:
    """The shipped ledger over that pool; its hints reach the listeners of this world."""
    told = partial(_ToldHints, hints=hints)
    # All that a ledger uses of a pool is here.
    return Ledger(pool, clock, rng, notifications=told)  # pyright: ignore[reportArgumentType]
