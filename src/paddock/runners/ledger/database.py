"""The ledger's way to its database: a pool of connections on one schema, and errors in the ledger's own words."""

import re
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, LiteralString, TypeVar, cast

import msgspec
import psycopg
from psycopg import sql
from psycopg.rows import class_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from paddock.base import dsn
from paddock.base.clock import Clock
from paddock.base.dsn import connect, line_options, notice_our_end, problem_of_dsn
from paddock.base.migrations import migrate
from paddock.base.refusals import Refusals
from paddock.runners.ledger.errors import (
    InvalidEntryError,
    LedgerForbiddenError,
    LedgerSlowError,
    LedgerUnavailableError,
    UnknownAccountError,
)

__all__ = ["Connection", "Database", "Params", "Pool", "columns", "make_pool", "prepare"]

Row = TypeVar("Row")
Params = Mapping[str, Any] | Sequence[Any]
Connection = psycopg.AsyncConnection[Any]
Pool = AsyncConnectionPool[Connection]

READ_ONLY = """
-- people_only_look
SET TRANSACTION READ ONLY
"""
SNAPSHOT = """
-- one_snapshot
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ
"""
CUT_OFF = """
-- people_may_be_cut_off
SELECT set_config('statement_timeout', %s, true)
"""
_RACES: Final = ("40", "55P03")
"""Two that wanted the same: the loser tries again, and nothing is wrong with the database."""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def _check_schema(schema: str) -> None:
    if not _SCHEMA.fullmatch(schema):
        raise InvalidEntryError(f"schema {schema!r}: take lower-case letters, digits and underscores")


def _check_conninfo(conninfo: str) -> None:
    if (problem := problem_of_dsn(conninfo)) is not None:
        raise InvalidEntryError(problem)


class _Stack(deque[Connection]):
    """What is put back last is taken first."""

    def append(self, x: Connection, /) -> None:
        self.appendleft(x)


class _LifoPool(AsyncConnectionPool[Connection]):
    """Takes the connection that was given back last: its server process has its plans and its pages at hand.

    psycopg's own pool takes them in turns, so that under little load each statement meets a process that has slept longest: a
    claim takes a fifth longer then. (Of connections that nobody needs any more it closes the warmest one, every ten minutes.)
    """

    def __init__(self, conninfo: str, **options: Any) -> None:
        super().__init__(conninfo, **options)
        self._pool = _Stack()  # it is not open yet: nothing is in it


def make_pool(conninfo: str, *, schema: str, size: int = 8, timeout: float = 10.0) -> Pool:
    """A closed pool whose connections work in `schema`; open it with `async with`.

    The connections must reach the server itself or a pooler in session mode: the search path is a setting of the session.
    """
    _check_schema(schema)
    _check_conninfo(conninfo)

    async def configure(connection: Connection) -> None:
        await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(schema)))
        # Admission counts after it locked, and must see who came before: whatever the server's own default may be.
        await connection.execute("SET default_transaction_isolation TO 'read committed'")
        await notice_our_end(connection)

    return _LifoPool(
        conninfo,
        connection_class=dsn.Connection,
        min_size=min(2, size),
        max_size=size,
        timeout=timeout,
        kwargs={"autocommit": True, "application_name": "paddock-ledger", **line_options(conninfo)},
        configure=configure,
        open=False,
        name="ledger",
    )


async def prepare(conninfo: str, *, schema: str, clock: Clock) -> tuple[int, ...]:
    """Create the schema if there is none and run what migrations are outstanding; gives the numbers that ran."""
    _check_schema(schema)
    _check_conninfo(conninfo)
    try:
        async with await connect(conninfo, application_name="paddock-ledger-migration") as connection:
            name = sql.Identifier(schema)
            # Asked first, so that a role that may use the schema but create none can start a prepared ledger.
            cursor = await connection.execute("SELECT to_regnamespace(%s) IS NULL", [schema])
            row = await cursor.fetchone()
            if row is None or row[0]:
                # Postgres itself lets two that create it at once collide, IF NOT EXISTS or not: either way it is there.
                with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                    await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
            await connection.execute(sql.SQL("SET search_path TO {}").format(name))
            return await migrate(connection, name="ledger", package="paddock.runners.ledger", clock=clock)
    except psycopg.OperationalError as error:
        raise LedgerUnavailableError(f"the database of the ledger cannot be reached: {error}") from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        # A standby, until it is promoted.
        raise LedgerUnavailableError(f"the ledger's database takes no writes: {_primary(error)}") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise LedgerForbiddenError(
            f"the role of the DSN may not bring the ledger's tables up to date ({_primary(error)}): "
            f"let it create the schema {schema}, or make it the owner of what is in it"
        ) from error


class Database:
    """Runs statements. Outside `transaction` each is a transaction of its own. `refusals` is what it was refused of late."""

    def __init__(self, pool: Pool, clock: Clock) -> None:
        self._pool = pool
        self.refusals = Refusals(clock)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection of the pool. A lost one is LedgerUnavailableError, a value that does not fit InvalidEntryError.

        So is one to a server that takes no writes any more, as after a failover: it is closed, and the pool makes another, which
        reaches the server that does.
        """
        try:
            async with self._pool.connection() as connection:
                try:
                    yield connection
                except psycopg.errors.ReadOnlySqlTransaction:
                    await connection.close()
                    raise
        except (PoolTimeout, PoolClosed) as error:
            self.refusals.refused(str(error), away=True)
            raise LedgerUnavailableError(f"no connection to the ledger's database is free: {error}") from error
        except psycopg.errors.ForeignKeyViolation as error:
            raise UnknownAccountError(_primary(error)) from error
        except (psycopg.IntegrityError, psycopg.DataError) as error:
            raise InvalidEntryError(_primary(error)) from error
        except psycopg.errors.QueryCanceled as error:
            raise LedgerSlowError(f"the ledger's database took too long: {_primary(error)}") from error
        except psycopg.errors.ReadOnlySqlTransaction as error:
            self.refusals.refused(_primary(error))
            raise LedgerUnavailableError(f"the ledger's database takes no writes: {error}") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            if not (error.sqlstate or "").startswith(_RACES):
                self.refusals.refused(_primary(error), away=_is_away(error))
            raise LedgerUnavailableError(f"the ledger's database went away: {error}") from error
        except psycopg.InternalError as error:
            if (error.sqlstate or "").startswith("XX"):
                self.refusals.refused(_primary(error))
            raise
        self.refusals.answered()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """All or nothing: any exception, cancellation included, leaves no trace of what was done inside."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def looking(self, seconds: int = 3, *, snapshot: bool = False) -> AsyncIterator[Connection]:
        """For people: nothing can be written in it, and each statement is cut off after so many seconds. With `snapshot` all see one moment."""
        async with self.transaction() as connection:
            if snapshot:
                await connection.execute(SNAPSHOT)
            await connection.execute(READ_ONLY)
            await connection.execute(CUT_OFF, [str(seconds * 1000)])
            yield connection

    async def rows(self, row: type[Row], statement: LiteralString, params: Params = ()) -> list[Row]:
        async with self.connection() as connection:
            return await fetch_all(connection, row, statement, params)

    async def row(self, row: type[Row], statement: LiteralString, params: Params = ()) -> Row | None:
        async with self.connection() as connection:
            return await fetch_one(connection, row, statement, params)

    async def run(self, statement: LiteralString, params: Params = ()) -> int:
        """Run a statement for its effect; gives how many rows it touched."""
        async with self.connection() as connection:
            return (await connection.execute(statement, params)).rowcount

    async def value(self, statement: LiteralString, params: Params = ()) -> Any:
        """The first column of the first row, or None."""
        async with self.connection() as connection:
            found = await (await connection.execute(statement, params)).fetchone()
            return None if found is None else found[0]


class ReadingDatabase(Database):
    """The same for whoever may only look: every statement that would write is refused by the server."""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with super().connection() as connection, connection.transaction():
            await connection.execute(READ_ONLY)
            yield connection


def columns(row: type[msgspec.Struct], prefix: LiteralString = "") -> LiteralString:
    """The columns of a row by name, for statements whose rows are fetched.

    `*` would not do: when a newer release adds a column to the table, a prepared `SELECT *` of a process that runs fails
    ("cached plan must not change result type"), and so does making the row. Names of fields are literals of our own code.
    """
    return cast("LiteralString", ", ".join(f"{prefix}{name}" for name in row.__struct_fields__))


async def fetch_all(connection: Connection, row: type[Row], statement: LiteralString, params: Params = ()) -> list[Row]:
    async with connection.cursor(row_factory=class_row(row)) as cursor:
        await cursor.execute(statement, params)
        return await cursor.fetchall()


async def fetch_one(
    connection: Connection, row: type[Row], statement: LiteralString, params: Params = ()
) -> Row | None:
    async with connection.cursor(row_factory=class_row(row)) as cursor:
        await cursor.execute(statement, params)
        return await cursor.fetchone()


def _is_away(error: psycopg.Error) -> bool:
    """Whether nobody answered: a connection that broke (08, or without a state), a server that stops or starts (57P)."""
    return (error.sqlstate or "08").startswith(("08", "57P"))


def _primary(error: psycopg.Error) -> str:
    # The detail line may quote whole rows; the constraint's name says what is wrong.
    return error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__
