"""Advisory locks of the database: for work of which one process at a time should do a pass.

A turn saves work, it does not make anything safe: a connection that breaks gives the turn away while its holder goes on,
so everything that is done under one must be safe beside a second one that does the same.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import LiteralString

import psycopg

from paddock.base.tasks import to_its_end
from paddock.runners.ledger.database import Connection, Database
from paddock.runners.ledger.errors import LedgerUnavailableError

__all__ = ["AdvisoryLocks"]

TAKE = """
-- take_turn: two ledgers in one database have turns of their own
SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '/' || %s, 7408213))
"""
GIVE_BACK = """
-- give_turn_back
SELECT pg_advisory_unlock(hashtextextended(current_schema() || '/' || %s, 7408213))
"""


class AdvisoryLocks:
    """All turns of a process are on one connection of the pool, however many are taken: they must never use the pool up."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mine: set[str] = set()
        self._users = 0
        self._shared: AbstractAsyncContextManager[Connection] | None = None
        self._connection: Connection | None = None
        self._door = asyncio.Lock()

    @asynccontextmanager
    async def taken(self, name: str) -> AsyncIterator[bool]:
        """`async with ledger.locks.taken(name) as mine`: False if another process has the turn; never waits for it.

        The turn ends with the block, whatever ends it, and with the process. LedgerUnavailableError if the database does not say.
        """
        if name in self._mine:
            # The lock is the connection's, which we share: the database would give it to us a second time.
            yield False
            return
        self._mine.add(name)
        try:
            async with self._line() as connection:
                mine = True  # until the database says no: it may give the turn to one who is cancelled meanwhile
                try:
                    mine = await to_its_end(_told(connection, TAKE, name))
                    yield mine
                finally:
                    if mine:
                        await to_its_end(_given_back(connection, name))
        finally:
            self._mine.discard(name)

    @asynccontextmanager
    async def _line(self) -> AsyncIterator[Connection]:
        async with self._door:
            if self._connection is None:
                self._shared = self._database.connection()
                self._connection = await self._shared.__aenter__()
            self._users += 1
            connection = self._connection
        try:
            yield connection
        finally:
            # Not to be interrupted halfway: a connection that is forgotten here would be lost to the pool.
            await asyncio.shield(self._leave())

    async def _leave(self) -> None:
        async with self._door:
            self._users -= 1
            if self._users == 0 and self._shared is not None:
                shared, self._shared, self._connection = self._shared, None, None
                await shared.__aexit__(None, None, None)


async def _told(connection: Connection, statement: LiteralString, name: str) -> bool:
    try:
        row = await (await connection.execute(statement, [name])).fetchone()
    except psycopg.Error as error:
        raise LedgerUnavailableError(f"whose turn it is cannot be asked: {error}") from error
    return row is not None and bool(row[0])


async def _given_back(connection: Connection, name: str) -> None:
    try:
        await connection.execute(GIVE_BACK, [name])
    except psycopg.Error:
        # A connection that still may hold the turn must not go back to the pool: closed, it holds nothing.
        await connection.close()
