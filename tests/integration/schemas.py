"""The ledgers' schemas, each used by one test after the other: making one takes longer than most tests."""

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import psycopg
from integration.kept_connections import KeptConnections, KeptPool
from psycopg import sql

from paddock.base.clock import Clock
from paddock.runners.ledger import Ledger, Pool, prepare

_EMPTY = """
DO $$
DECLARE one record;
BEGIN
    SET LOCAL lock_timeout = '5s';
    SET LOCAL session_replication_role = replica;  -- the log refuses to be emptied otherwise
    FOR one IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema AND tablename <> 'schema_migrations' LOOP
        EXECUTE format('DELETE FROM %I', one.tablename);
    END LOOP;
    FOR one IN SELECT sequencename, start_value FROM pg_sequences WHERE schemaname = current_schema LOOP
        PERFORM setval(one.sequencename::regclass, one.start_value, false);
    END LOOP;
END $$
"""
_LAYOUT = """
SELECT (SELECT array_agg(proname ORDER BY proname) FROM pg_proc WHERE pronamespace = n.oid),
       (SELECT array_agg(relname ORDER BY relname) FROM pg_class WHERE relnamespace = n.oid),
       (SELECT array_agg(attname ORDER BY attrelid, attnum) FROM pg_attribute
         WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = n.oid)),
       (SELECT array_agg(tgname || tgenabled::text ORDER BY tgname) FROM pg_trigger
         WHERE NOT tgisinternal AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace = n.oid)),
       (SELECT array_agg(name || number || checksum ORDER BY name, number) FROM schema_migrations)
  FROM pg_namespace n WHERE nspname = current_schema
"""


async def empty(dsn: str, schema: str) -> None:
    """The ledger as on its first day: no row but those of its migrations, every sequence at its start."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute(_use(schema))
        await connection.execute(_EMPTY)


class Schemas:
    """Hands out ledgers' schemas; one that comes back empty and in its own layout serves the next test, too."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._numbers = itertools.count()
        self._clean: list[str] = []
        self._made: set[str] = set()
        self._layout: object = None
        self.kept = KeptConnections(dsn)
        # One connection for the whole run: it knows the tables of every schema, where a new one would read them anew.
        self._connection: psycopg.Connection | None = None

    def take(self) -> str:
        """A schema without a row: perhaps one without tables yet, which the ledger makes when it opens."""
        return self._clean.pop() if self._clean else f"ledger_{next(self._numbers)}"

    @asynccontextmanager
    async def ledger(self, schema: str, clock: Clock, rng: random.Random, *, size: int = 16) -> AsyncIterator[Ledger]:
        """The ledger in that schema, by connections that earlier tests have warmed."""
        if schema not in self._made:
            await prepare(self.dsn, schema=schema, clock=clock)
            self._made.add(schema)
        pool = KeptPool(self.kept, schema, size=size)
        try:
            ledger = Ledger(cast("Pool", pool), clock, rng)
            ledger.progress.company = 0.0  # a test's marks come one by one
            yield ledger
        finally:
            await pool.close()

    async def give_back(self, schema: str) -> None:
        """Only a schema that can be emptied is used again: a test may have changed its tables or hold their locks still."""
        try:
            layout = await asyncio.to_thread(self._emptied, schema)
        except psycopg.Error:
            self._let_go()
            self.kept.forget(schema)
            return
        self._layout = self._layout or layout
        if layout == self._layout:
            self._clean.append(schema)
        else:
            self.kept.forget(schema)

    def _emptied(self, schema: str) -> object:
        if self._connection is None:
            self._connection = psycopg.connect(self.dsn, autocommit=True)
        self._connection.execute(_use(schema))
        self._connection.execute(_EMPTY)
        return self._connection.execute(_LAYOUT).fetchone()

    def close(self) -> None:
        self.kept.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _use(schema: str) -> sql.Composed:
    return sql.SQL("SET search_path TO {}").format(sql.Identifier(schema))
