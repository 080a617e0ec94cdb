"""Connections that outlive their test: a new one makes Postgres read its catalogue and plan every statement anew."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolClosed, PoolTimeout

_MOST = 12
"""Of the fifty that the server has: a test that needs many opens the rest for itself."""
_AS_NEW = """
SELECT pg_advisory_unlock_all();
UNLISTEN *;
RESET ALL;
"""


class KeptConnections:
    """The connections of one test process, by schema. None is in use by two tests, whatever the first one left undone."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._idle: dict[str, list[psycopg.AsyncConnection[Any]]] = {}

    async def take(self, schema: str) -> psycopg.AsyncConnection[Any]:
        idle = self._idle.setdefault(schema, [])
        while idle:
            connection = idle.pop()
            if not connection.broken:
                connection.lock = asyncio.Lock()  # the one that it has belongs to the loop of an earlier test
                return connection
        connection = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True, application_name="paddock-ledger")
        await self._prepare(connection, schema)
        return connection

    async def give_back(self, connection: psycopg.AsyncConnection[Any], schema: str) -> None:
        kept = sum(map(len, self._idle.values()))
        if kept >= _MOST or connection.broken or connection.info.transaction_status != TransactionStatus.IDLE:
            await connection.close()
            return
        try:
            await connection.execute(_AS_NEW)
            await self._prepare(connection, schema)
        except psycopg.Error:
            await connection.close()
            return
        self._idle.setdefault(schema, []).append(connection)

    async def _prepare(self, connection: psycopg.AsyncConnection[Any], schema: str) -> None:
        await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        await connection.execute("SET default_transaction_isolation TO 'read committed'")

    def forget(self, schema: str) -> None:
        """Whoever changed the tables of a schema leaves no connection that remembers the old ones."""
        for connection in self._idle.pop(schema, []):
            connection.pgconn.finish()

    def close(self) -> None:
        for schema in tuple(self._idle):
            self.forget(schema)


class KeptPool:
    """What the ledger needs of psycopg's pool: so many connections and no more, a broken one is never handed out twice."""

    def __init__(self, kept: KeptConnections, schema: str, *, size: int, timeout: float = 10.0) -> None:
        self._kept, self._schema, self._timeout = kept, schema, timeout
        self._places = asyncio.Semaphore(size)
        self._free: list[psycopg.AsyncConnection[Any]] = []
        self._closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        if self._closed:
            raise PoolClosed("the pool is closed")
        try:
            async with asyncio.timeout(self._timeout):
                await self._places.acquire()
        except TimeoutError as error:
            raise PoolTimeout(f"couldn't get a connection after {self._timeout:.2f} sec") from error
        try:
            connection = self._free.pop() if self._free else await self._kept.take(self._schema)
            try:
                yield connection
            finally:
                if connection.info.transaction_status != TransactionStatus.IDLE or self._closed:
                    await connection.close()
                else:
                    self._free.append(connection)
        finally:
            self._places.release()

    async def close(self) -> None:
        self._closed = True
        while self._free:
            await self._kept.give_back(self._free.pop(), self._schema)
