"""The opening of the ledger is interrupted at each of its statements, and raced by two: nothing is left, and the next one opens."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

import psycopg
import pytest
import pytest_asyncio
from doubles.clocks import WITHIN, SteppedClock
from integration.runners.processes.cut_way import CutWay
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from paddock.base.clock import SystemClock
from paddock.base.dsn import Connection
from paddock.base.migrations import read_migrations
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.ledger import Ledger, LedgerForbiddenError
from paddock.runners.ledger.opening import LedgerOpening

SCHEMA = "interrupted_ledger"
KNOWN = [migration.number for migration in read_migrations("paddock.runners.ledger")]
LEFT = """
SELECT count(*) FROM pg_stat_activity LEFT JOIN pg_locks USING (pid)
 WHERE datname = current_database() AND (application_name LIKE 'paddock-ledger%' OR locktype = 'advisory')
"""


@pytest_asyncio.fixture
async def database(server: EmbeddedPostgres) -> AsyncIterator[str]:
    """The DSN of a database of its own: here alone nobody else opens a ledger."""
    name = f"opening_{random.SystemRandom().getrandbits(32):08x}"
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield make_conninfo(server.dsn, dbname=name)
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as connection:
        await connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def ledger_in(dsn: str) -> Callable[[], contextlib.AbstractAsyncContextManager[Ledger]]:
    return lambda: Ledger.open(dsn, clock=SystemClock(), rng=random.Random(1), schema=SCHEMA, size=2)


async def applied(dsn: str) -> list[int]:
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        cursor = await connection.execute(
            sql.SQL("SELECT number FROM {}.schema_migrations ORDER BY number").format(sql.Identifier(SCHEMA))
        )
        return [number for (number,) in await cursor.fetchall()]


async def nothing_left(dsn: str) -> None:
    """Of connections and locks. The server notices an end that it was not told of a moment later."""
    async with (
        asyncio.timeout(WITHIN),
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection,
    ):
        while (found := await (await connection.execute(LEFT)).fetchone()) != (0,):
            assert found is not None
            await asyncio.sleep(0.02)


class Interrupting:
    """The wait of that number ends as if we were stopped, or as if the server were killed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at, self.count, self.done = 0, 0, False
        self.how: Callable[[Connection], object]
        wait = Connection.wait
        interrupting = self

        async def counted(connection: Connection, *args: Any, **options: Any) -> Any:
            interrupting.count += 1
            if interrupting.count == interrupting.at:
                interrupting.done = True
                interrupting.how(connection)
            return await wait(connection, *args, **options)

        monkeypatch.setattr(Connection, "wait", counted)

    def begin(self, at: int) -> None:
        self.at, self.count, self.done = at, 0, False


def _killed(connection: Connection) -> None:
    connection.pgconn.finish()
    raise psycopg.OperationalError("server closed the connection unexpectedly")


# The pool opens its connections in tasks of its own, so the opening is stopped while it waits for them, too.
async def test_a_stop_at_each_statement_leaves_no_connection_and_no_lock_and_the_next_one_goes_on(
    database: str, monkeypatch: pytest.MonkeyPatch
):
    interrupting, opened = Interrupting(monkeypatch), []

    async def use(_: Ledger) -> None:
        opened.append(True)

    at = 0
    while True:
        at += 1
        interrupting.begin(at)
        opening = LedgerOpening(ledger_in(database), SystemClock(), random.Random(1))
        running = asyncio.create_task(opening.run(use))
        interrupting.how = lambda _, running=running: running.cancel()
        await asyncio.wait([running], timeout=WITHIN)
        assert running.done(), f"it does not end when it is stopped at statement {at}"
        if not interrupting.done:
            break
        assert running.cancelled() or opened, at
        await nothing_left(database)
    assert opened
    assert at > 20
    assert await applied(database) == KNOWN


async def test_a_server_that_is_killed_at_each_statement_is_tried_again_until_the_ledger_is_open(
    database: str, monkeypatch: pytest.MonkeyPatch
):
    interrupting, used = Interrupting(monkeypatch), []
    interrupting.how = _killed

    def attempt() -> contextlib.AbstractAsyncContextManager[Ledger]:
        """Each comes one statement further than the one before."""
        interrupting.begin(interrupting.at + 1)
        return ledger_in(database)()

    async def use(ledger: Ledger) -> None:
        interrupting.begin(interrupting.at)
        interrupting.how = lambda _: None
        used.append(len(await ledger.claims.all()))

    # The clock sleeps no real time; statements are real.
    opening = LedgerOpening(attempt, SteppedClock(), random.Random(1))
    await asyncio.wait_for(opening.run(use), WITHIN)
    assert used == [0]
    assert interrupting.at > 20
    assert await applied(database) == KNOWN
    await nothing_left(database)


async def test_two_that_wait_for_the_same_postgres_migrate_it_once(database: str):
    with CutWay.to(database) as way:
        openings = [LedgerOpening(ledger_in(way.dsn), SystemClock(), random.Random(seed)) for seed in (1, 2)]
        used: list[int] = []

        async def use(ledger: Ledger) -> None:
            used.append(len(await ledger.claims.all()))

        both = [asyncio.create_task(opening.run(use)) for opening in openings]
        async with asyncio.timeout(WITHIN):
            while not all(each.unopened is not None and each.unopened.why for each in openings):
                await asyncio.sleep(0.01)
        way.open()
        await asyncio.wait_for(asyncio.gather(*both), WITHIN)
    assert used == [0, 0]
    assert await applied(database) == KNOWN
    await nothing_left(database)


async def test_who_waits_for_another_s_migration_can_be_stopped_and_leaves_its_place(database: str):
    async def use(_: Ledger) -> None:
        raise AssertionError("another process changes the tables")

    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as another:
        await another.execute("SELECT pg_advisory_lock(x'6d696772'::int, 0)")
        running = asyncio.create_task(LedgerOpening(ledger_in(database), SystemClock(), random.Random(1)).run(use))
        waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        async with asyncio.timeout(WITHIN):
            while await (await another.execute(waiting)).fetchone() == (0,):
                await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.wait([running], timeout=WITHIN)
        assert running.cancelled()
    await nothing_left(database)


async def test_a_refused_login_is_waited_for_and_a_missing_right_is_not(database: str):
    async with await psycopg.AsyncConnection.connect(database, autocommit=True) as owner:
        role = f"{conninfo_to_dict(database)['dbname']}_role"
        name = sql.Identifier(role)
        dsn = make_conninfo(database, options=f"-c role={role}")

        async def use(_: Ledger) -> None:
            raise AssertionError("it is not open")

        opening = LedgerOpening(ledger_in(dsn), SystemClock(), random.Random(1))
        running = asyncio.create_task(opening.run(use))
        async with asyncio.timeout(WITHIN):
            while not (opening.unopened is not None and role in opening.unopened.why):
                await asyncio.sleep(0.01)
        await owner.execute(sql.SQL("CREATE ROLE {}").format(name))
        try:
            with pytest.raises(LedgerForbiddenError, match="let it create the schema interrupted_ledger"):
                await asyncio.wait_for(running, WITHIN)
        finally:
            await owner.execute(sql.SQL("DROP ROLE {}").format(name))
