"""The one database session through which a process owns a store: lock, counter and rows."""

from typing import Self

import psycopg
from psycopg import sql

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.dsn import connect, problem_of_dsn
from paddock.base.migrations import MigrationError, migrate
from paddock.base.rng import unseeded
from paddock.embedded.store.batch import Batch
from paddock.embedded.store.interface import (
    Key,
    Record,
    StoreError,
    StoreOwnedElsewhereError,
    StoreUnavailableError,
)

__all__ = ["RefusedError", "SessionLostError", "StoreSession"]

_LOCK_CLASS = 0x7061_6464  # "padd"; the second key of the lock is the schema's


class SessionLostError(StoreError):
    """The session ended before the answer came. What it was doing may have happened: take a new one and look."""


class RefusedError(StoreError):
    """The database answered and rolled the batch back: nothing of it happened. `lasting` if asking again is no use."""

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting


# One statement is one transaction and one round trip. The counter guards the rest: where it is not ours or not at the
# expected revision, nothing at all is written. The keys of both arrays are disjoint, as two parts of one statement must
# not touch the same row.
_COMMIT = """
WITH owned AS (
    UPDATE store_counter SET revision = %(last)s
    WHERE only_row AND revision = %(base)s AND incarnation = %(incarnation)s RETURNING 1
), gone AS (
    DELETE FROM objects USING unnest(%(gone_resources)b::text[], %(gone_namespaces)b::text[], %(gone_names)b::text[])
        AS key (resource, namespace, name)
    WHERE EXISTS (SELECT FROM owned)
        AND (objects.resource, objects.namespace, objects.name) = (key.resource, key.namespace, key.name)
), kept AS (
    INSERT INTO objects (resource, namespace, name, revision, value)
    SELECT * FROM unnest(
        %(resources)b::text[], %(namespaces)b::text[], %(names)b::text[], %(revisions)b::bigint[], %(values)b::text[])
    WHERE EXISTS (SELECT FROM owned)
    ON CONFLICT (resource, namespace, name) DO UPDATE SET revision = excluded.revision, value = excluded.value
)
SELECT FROM owned
"""

# A batch names its rows by their full key: with these, a plan made once fits any size of batch and of table.
# Whoever runs the server may have set time limits or lazy commits for everyone; this session must have neither.
_SETTINGS = """
SELECT set_config('search_path', %s, false),
       set_config('enable_seqscan', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false),
       set_config('jit', 'off', false),
       set_config('statement_timeout', '0', false),
       set_config('idle_session_timeout', '0', false),
       set_config('lock_timeout', '0', false),
       set_config('default_transaction_read_only', 'off', false),
       set_config('synchronous_commit',
                  CASE WHEN current_setting('synchronous_commit') = 'off' THEN 'on'
                       ELSE current_setting('synchronous_commit') END, false)
"""

_PREDECESSOR = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %s AND backend_start::text = %s"


class StoreSession:
    """A connection that holds the store's lock from its first moment to its last.

    The lock belongs to the same session as the writes: who holds it knows that every earlier owner's session is over,
    and with it whatever that owner had under way, so the counter read afterwards is final.
    """

    def __init__(self, connection: psycopg.AsyncConnection, backend: tuple[int, str], incarnation: str) -> None:
        self._connection = connection
        self._incarnation = incarnation
        self.backend = backend

    @classmethod
    async def take(
        cls,
        conninfo: str,
        schema: str,
        incarnation: str,
        clock: Clock,
        *,
        lock_wait: float,
        predecessor: tuple[int, str] | None = None,
    ) -> Self:
        """Connect and take the lock; StoreOwnedElsewhereError if someone else keeps it for longer than `lock_wait`.

        `predecessor` is the backend of this process's own lost session: should the server still believe in it, it ends.
        """
        if (problem := problem_of_dsn(conninfo)) is not None:
            raise StoreError(problem)
        try:
            connection = await connect(conninfo, application_name="paddock store", client_encoding="utf8")
        except psycopg.Error as error:
            raise StoreUnavailableError(f"cannot connect to the database of the store: {error}") from error
        try:
            backend = await cls._prepare(connection, schema, predecessor)
            await cls._lock(connection, schema, clock, lock_wait)
        except psycopg.Error as error:
            await connection.close()
            raise StoreUnavailableError(f"the database of the store does not answer: {error}") from error
        except BaseException:
            await connection.close()
            raise
        return cls(connection, backend, incarnation)

    @staticmethod
    async def _prepare(
        connection: psycopg.AsyncConnection, schema: str, predecessor: tuple[int, str] | None
    ) -> tuple[int, str]:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            raise StoreError(f"the store needs a database in UTF8, and this one is in {encoding}: create another one")
        await connection.execute(_SETTINGS, [sql.Identifier(schema).as_string(connection)])
        if predecessor is not None:
            await connection.execute(_PREDECESSOR, predecessor)
        cursor = await connection.execute(
            "SELECT pid, backend_start::text FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        )
        row = await cursor.fetchone()
        assert row is not None
        return row[0], row[1]

    @staticmethod
    async def _lock(connection: psycopg.AsyncConnection, schema: str, clock: Clock, lock_wait: float) -> None:
        backoff, rng = Backoff(base=0.01, cap=0.25), unseeded()
        deadline, tries = clock.monotonic() + lock_wait, 0
        while True:
            cursor = await connection.execute("SELECT pg_try_advisory_lock(%s, hashtext(%s))", [_LOCK_CLASS, schema])
            row = await cursor.fetchone()
            if row is not None and row[0]:
                return
            if clock.monotonic() >= deadline:
                raise StoreOwnedElsewhereError(
                    f"another process owns the store in schema {schema!r} of this database: "
                    "stop that process, or give this one its own database or schema"
                )
            tries += 1
            await clock.sleep(backoff.delay(tries, rng))

    async def settle(self, schema: str, clock: Clock) -> tuple[int, list[Record]]:
        """Bring the tables up to date, put our name on them, and read everything: the revision and all records."""
        connection = self._connection
        try:
            cursor = await connection.execute("SELECT to_regnamespace(quote_ident(%s)) IS NULL", [schema])
            row = await cursor.fetchone()
            if row is not None and row[0]:  # asked first, as a role may use a schema that it could not create
                await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            await migrate(connection, name="objects", package="paddock.embedded.store", clock=clock)
            cursor = await connection.execute(
                "UPDATE store_counter SET incarnation = %s RETURNING revision", [self._incarnation]
            )
            counter = await cursor.fetchone()
            if counter is None:
                raise StoreError("the store's counter is missing from its table: restore the database from a backup")
            cursor = connection.cursor(binary=True)
            await cursor.execute("SELECT resource, namespace, name, revision, convert_to(value, 'UTF8') FROM objects")
            records = [Record(Key(row[0], row[1], row[2]), row[3], row[4]) for row in await cursor.fetchall()]
        except MigrationError as error:
            raise StoreError(f"the store's tables cannot be used: {error}") from error
        except psycopg.Error as error:
            raise StoreUnavailableError(f"the store could not be loaded: {error}") from error
        return counter[0], records

    async def counter(self) -> int:
        """The newest durable revision; StoreOwnedElsewhereError if another process has opened the store since."""
        try:
            cursor = await self._connection.execute("SELECT revision, incarnation FROM store_counter")
            row = await cursor.fetchone()
        except psycopg.Error as error:
            raise SessionLostError(str(error)) from error
        if row is None or row[1] != self._incarnation:
            raise StoreOwnedElsewhereError(
                "another process has opened the store while its database was away: start again"
            )
        return row[0]

    async def commit(self, batch: Batch) -> None:
        """Make the batch durable as a whole; every other ending is an error that says what is known."""
        kept, gone = batch.net()
        try:
            cursor = await self._connection.execute(
                _COMMIT,
                {
                    "base": batch.base,
                    "last": batch.last,
                    "incarnation": self._incarnation,
                    "gone_resources": [key.resource for key in gone],
                    "gone_namespaces": [key.namespace for key in gone],
                    "gone_names": [key.name for key in gone],
                    "resources": [record.key.resource for record in kept],
                    "namespaces": [record.key.namespace for record in kept],
                    "names": [record.key.name for record in kept],
                    "revisions": [record.revision for record in kept],
                    "values": [record.value.decode() for record in kept],
                },
                prepare=True,
            )
        except psycopg.Error as error:
            # 57P is a server that shuts down or has crashed, 08 a connection that broke: their words prove nothing.
            if self._connection.closed or (error.sqlstate or "").startswith(("57P", "08")):
                raise SessionLostError(str(error)) from error
            lasting = not isinstance(error, psycopg.OperationalError)
            raise RefusedError(f"the database refused the write: {error}", lasting=lasting) from error
        if cursor.rowcount != 1:
            raise StoreOwnedElsewhereError("another process has taken the store over: start again")

    async def close(self) -> None:
        await self._connection.close()
