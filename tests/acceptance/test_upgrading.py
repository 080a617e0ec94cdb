"""An embedded installation is upgraded with its data, under running jobs; one of a newer release is refused.

What the older release leaves is made from what this one wrote: its ledger goes back to the tables of the recorded release
(`tests/integration/migrations/released`), row by row with the columns that it had. The store of objects has had one form so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from acceptance.instance import Instance, eventually, running
from acceptance.test_starting import simulated
from acceptance.test_world import DURATION, JOBS, MACS, OPTIONS, judge, kill_and_wait, statuses
from integration.migrations.recording import recordings

from paddock.base.clock import SystemClock
from paddock.base.migrations import read_migrations
from paddock.base.rng import unseeded
from paddock.embedded.folder import DataFolder
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.ledger import SCHEMA

pytestmark = pytest.mark.slow

T = TypeVar("T")
# The release before hears of jobs by webhook alone.
BEFORE = (*OPTIONS, "--job-source", "Webhook")
Connection = psycopg.AsyncConnection[Any]
LEDGER = "paddock.runners.ledger"
KEPT = ("accounts", "limits", "jobs", "sessions", "completions", "deliveries", "transitions", "claims")


def in_database(data: Path, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Something done to the database of a folder that nobody uses at the moment."""

    async def done() -> T:
        server = EmbeddedPostgres(DataFolder(data).postgres, clock=SystemClock(), rng=unseeded())
        await server.start()
        try:
            async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as connection:
                return await work(connection)
        finally:
            await server.stop()

    return asyncio.run(done())


async def rows(connection: Connection, statement: str) -> list[tuple[Any, ...]]:
    return await (await connection.execute(statement.encode())).fetchall()


async def back_to(connection: Connection, number: int) -> dict[str, list[str]]:
    """The ledger as the release with that migration has it. Gives what is in its tables, by table."""
    await connection.execute("SET session_replication_role = replica")  # rows come table by table, in no order
    await connection.execute(f"ALTER SCHEMA {SCHEMA} RENAME TO newer; CREATE SCHEMA {SCHEMA}".encode())
    await connection.execute(f"SET search_path TO {SCHEMA}".encode())
    for migration in read_migrations(LEDGER)[:number]:
        await connection.execute(migration.sql.encode())
    of = f"SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = '{SCHEMA}' AND is_generated = 'NEVER'"
    tables: dict[str, list[str]] = {}
    for table, column in await rows(connection, of):
        tables.setdefault(table, []).append(column)
    views = {name for (name,) in await rows(connection, f"SELECT viewname FROM pg_views WHERE schemaname = '{SCHEMA}'")}
    for table, columns in tables.items():
        if table in views:
            continue
        named = ", ".join(f'"{column}"' for column in columns)
        copy = f"DELETE FROM {table}; INSERT INTO {table} ({named}) OVERRIDING SYSTEM VALUE SELECT {named} FROM newer.{table}"
        await connection.execute(copy.encode())
    for (sequence,) in await rows(connection, f"SELECT sequencename FROM pg_sequences WHERE schemaname = '{SCHEMA}'"):
        moved = f"SELECT setval('{sequence}', (SELECT last_value FROM newer.{sequence}) + 1)"
        await connection.execute(moved.encode())
    await connection.execute(
        "CREATE TABLE schema_migrations (LIKE newer.schema_migrations INCLUDING ALL);"
        f"INSERT INTO schema_migrations SELECT * FROM newer.schema_migrations WHERE number <= {number}".encode()
    )
    await connection.execute(b"DROP SCHEMA newer CASCADE")
    return await contents(connection, {table: tables[table] for table in KEPT})


async def contents(connection: Connection, tables: dict[str, list[str]]) -> dict[str, list[str]]:
    """The key of each row, by table."""
    await connection.execute(f"SET search_path TO {SCHEMA}".encode())
    keys = {"jobs": "job_id", "accounts": "account_id", "limits": "limit_id", "completions": "job_id"}
    keys |= {"deliveries": "delivery_id", "sessions": "pod_uid", "claims": "pod_uid"}
    found: dict[str, list[str]] = {}
    for table, columns in tables.items():
        key = keys.get(table, columns[0])
        found[table] = [str(one) for (one,) in await rows(connection, f'SELECT "{key}" FROM {table} ORDER BY 1')]
    return found


async def to_the_future(connection: Connection) -> None:
    await connection.execute(
        f"INSERT INTO {SCHEMA}.schema_migrations SELECT name, 9000, 'future.sql', checksum, applied_at"
        f" FROM {SCHEMA}.schema_migrations WHERE number = 1".encode()
    )


def test_a_folder_of_the_release_before_is_upgraded_under_running_jobs_and_loses_nothing(tmp_path: Path) -> None:
    old, data = recordings()[0], tmp_path / "data"
    with running(data, *BEFORE, world_stays=True) as before:
        before.all_bound(MACS, ready=True, within=90)
        bound = before.bound()
        early = before.submit(1, duration=200.0)
        eventually("a job is over", lambda: "completed" in statuses(before), within=60)
        ids = early | before.submit(JOBS, duration=DURATION)
        eventually("a job runs", lambda: "in_progress" in statuses(before), within=60)
        world = before.world()
        kill_and_wait(before)
    left = in_database(data, lambda connection: back_to(connection, old.migration))
    assert left["jobs"]
    assert left["claims"], "a job runs, and the older release has it claimed"
    assert left["completions"], "and one is over"
    with running(data, *BEFORE) as after:
        assert after.world() == world
        judge(after, ids)
        assert after.bound() == bound, "the Macs are those of before"
        assert after.interrupt() == 0
        assert "Traceback" not in after.complaints

    async def now(connection: Connection) -> dict[str, list[str]]:
        return await contents(connection, {table: ["log_id"] for table in KEPT if table != "transitions"})

    kept = in_database(data, now)
    for table in ("accounts", "limits", "jobs", "sessions", "completions"):
        assert set(left[table]) <= set(kept[table]), f"rows of {table} were lost"
    assert {str(each) for each in ids} <= set(kept["completions"]), "every job has its end in the ledger"


def test_a_folder_of_a_newer_release_is_refused_in_one_sentence_and_is_left_as_it_is(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with running(data, "--hosts", "1", "--jobs", "0") as paddock:
        _settled(paddock)
        assert paddock.interrupt() == 0
    in_database(data, to_the_future)
    told = simulated(data)
    assert "migration 9000" in told
    assert "start the newer release" in told
    newest = in_database(
        data, lambda connection: rows(connection, f"SELECT max(number) FROM {SCHEMA}.schema_migrations")
    )
    assert newest == [(9000,)]


def _settled(paddock: Instance) -> None:
    paddock.get("/healthz").raise_for_status()
