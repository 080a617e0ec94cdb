"""Turns: work of which one process at a time should do a pass, told by an advisory lock of the database.

A turn saves work, it does not make anything safe: a connection that breaks gives the turn away while its holder goes on,
so everything that is done under one must be safe beside a second one that does the same.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from paddock.runners.ledger.database import Database

__all__ = ["Turns"]

TAKE = """
-- take_turn: two ledgers in one database have turns of their own
SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '/' || %s, 7408213))
"""
GIVE_BACK = """
-- give_turn_back
SELECT pg_advisory_unlock(hashtextextended(current_schema() || '/' || %s, 7408213))
"""


class Turns:
    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def taken(self, name: str) -> AsyncIterator[bool]:
        """`async with ledger.turns.taken(name) as mine`: False if another process has the turn; never waits for it.

        Holds one connection of the pool until the block is left. The turn ends with the block, whatever ends it, and
        with the process.
        """
        async with self._database.connection() as connection:
            row = await (await connection.execute(TAKE, [name])).fetchone()
            if row is None or not row[0]:
                yield False
                return
            try:
                yield True
            finally:
                try:
                    await connection.execute(GIVE_BACK, [name])
                except psycopg.Error:
                    # A connection that still may hold the turn must not go back to the pool: closed, it holds nothing.
                    await connection.close()
