"""Old and new dispatch side by side: what an older release does works on while a newer one has changed the tables."""

import itertools
import os
import random
from collections.abc import AsyncIterator, Iterable

import psycopg
import pytest
import pytest_asyncio
from doubles.clocks import StandingClock
from integration.kept_connections import KeptConnections
from integration.migrations.recording import FOLDER, Recording, number, recorded, recordings, written
from integration.migrations.story import story
from integration.runners.ledger.rig import Bench
from unit.migrations.rules import contracted_since

from paddock import __version__
from paddock.base.migrations import Migration, read_migrations
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.ledger import Ledger

MIGRATIONS = read_migrations("paddock.runners.ledger")
_schemas = itertools.count()


async def test_a_running_ledger_does_not_notice_that_every_table_gains_a_column(bench: Bench) -> None:
    """The first thing that an expanding migration does is to add columns; so no statement may count on `*`."""
    for told in range(1, 8):  # often enough that the driver prepares its statements
        await story(bench, told)
    tables = await bench.ask("SELECT tablename FROM pg_tables WHERE schemaname = %s", [bench.schema])
    assert len(tables) > 8
    async with await bench.connect() as connection:
        for (table,) in tables:
            await connection.execute(f"ALTER TABLE {table} ADD COLUMN added_later text DEFAULT 'x'".encode())
    for told in range(8, 11):
        await story(bench, told)


@pytest_asyncio.fixture
async def database(server: EmbeddedPostgres) -> AsyncIterator[psycopg.AsyncConnection]:
    """An empty schema."""
    schema = f"upgrade_{next(_schemas)}"
    async with await psycopg.AsyncConnection.connect(server.dsn, autocommit=True) as connection:
        await connection.execute(f"CREATE SCHEMA {schema}".encode())
        await connection.execute(f"SET search_path TO {schema}".encode())
        yield connection


async def applied(connection: psycopg.AsyncConnection, migrations: Iterable[Migration]) -> None:
    for migration in migrations:
        async with connection.transaction():
            await connection.execute(migration.sql.encode())


async def replayed(connection: psycopg.AsyncConnection, statements: Iterable[str]) -> None:
    for statement in statements:
        await connection.execute(statement.encode())


def still_supported(recording: Recording, migrations: Iterable[Migration]) -> bool:
    """Whether no migration says that it takes something away from this release."""
    needed = (contracted_since(migration.sql) for migration in migrations)
    return all(number(recording.version) >= number(since) for since in needed if since is not None)


async def upgraded_under(connection: psycopg.AsyncConnection, old: Recording, newer: Iterable[Migration]) -> None:
    """The old release at work, the migrations of a newer one, and the old release at work again."""
    await applied(connection, [one for one in MIGRATIONS if one.number <= old.migration])
    await replayed(connection, old.before)
    await applied(connection, newer)
    await replayed(connection, old.after)
    # Not only that nothing was refused: all three jobs of both stories are over, and the four that ran left a session.
    over = await connection.execute("SELECT count(*) FROM jobs WHERE status IN ('completed', 'cancelled')")
    assert await over.fetchall() == [(6,)]
    assert await (await connection.execute("SELECT count(*) FROM sessions")).fetchall() == [(4,)]
    assert await (await connection.execute("SELECT count(*) FROM claims")).fetchall() == [(0,)]


def test_a_release_was_recorded():
    assert [one.version for one in recordings()]
    assert all(min(len(one.before), len(one.after)) > 50 for one in recordings())


@pytest.mark.parametrize("old", recordings(), ids=lambda old: old.version)
async def test_an_older_release_works_on_while_the_newest_schema_comes(
    database: psycopg.AsyncConnection, old: Recording
) -> None:
    newer = [one for one in MIGRATIONS if one.number > old.migration]
    if still_supported(old, newer):
        await upgraded_under(database, old, newer)


BAD = {
    "drops a column": "ALTER TABLE jobs DROP COLUMN head_sha",
    "renames a column": "ALTER TABLE sessions RENAME COLUMN end_reason TO reason",
    "renames a table": "ALTER TABLE heals RENAME TO repairs",
    "adds what nobody fills": (
        "ALTER TABLE deliveries ADD COLUMN source text; UPDATE deliveries SET source = '';"
        " ALTER TABLE deliveries ALTER COLUMN source SET NOT NULL"
    ),
    "narrows a check": "ALTER TABLE transitions ADD CONSTRAINT named CHECK (by <> 'webhook') NOT VALID",
    "replaces a function": "DROP FUNCTION end_claims(bigint[], text, timestamptz, boolean, text, text, timestamptz)",
}


@pytest.mark.parametrize("sql", BAD.values(), ids=BAD.keys())
async def test_a_migration_that_takes_something_away_is_found(database: psycopg.AsyncConnection, sql: str) -> None:
    old = recordings()[-1]
    newer = [one for one in MIGRATIONS if one.number > old.migration]
    with pytest.raises(psycopg.Error):
        await upgraded_under(database, old, [*newer, Migration(9999, "9999_bad.sql", sql)])


async def test_a_migration_that_only_adds_passes(database: psycopg.AsyncConnection) -> None:
    good = "ALTER TABLE jobs ADD COLUMN note text NOT NULL DEFAULT ''; CREATE TABLE notes (n int); CREATE INDEX ON jobs (note)"
    old = recordings()[-1]
    newer = [one for one in MIGRATIONS if one.number > old.migration]
    await upgraded_under(database, old, [*newer, Migration(9999, "9999_good.sql", good)])


def test_a_contract_excludes_only_releases_that_are_older_than_it_says():
    old, new = Recording("0.1.0", 6, (), ()), Recording("0.2.0", 7, (), ())
    contract = [Migration(8, "0008_drop.sql", "-- contract: since 0.2.0\nALTER TABLE jobs DROP COLUMN label;")]
    assert not still_supported(old, contract)
    assert still_supported(new, contract)


async def test_a_recording_can_be_made_of_this_release(server: EmbeddedPostgres) -> None:
    """And is written where `make ledger-recording` asks for it."""
    clock, schema = StandingClock(), f"recording_{next(_schemas)}"
    async with Ledger.open(server.dsn, clock=clock, rng=random.Random(7), schema=schema, size=1) as ledger:
        bench = Bench(ledger, clock, KeptConnections(server.dsn), schema)
        with recorded() as before:
            await story(bench, 1)
        with recorded() as after:
            await story(bench, 2)
    made = Recording(__version__, MIGRATIONS[-1].number, tuple(before), tuple(after))
    assert min(len(before), len(after)) > 50
    if os.environ.get("PADDOCK_WRITE_RECORDING") == "yes":
        (FOLDER / f"{__version__}.sql").write_text(written(made), encoding="utf-8")


async def test_an_upgrade_to_the_allow_list_loses_no_job_and_lets_no_bystander_in(
    database: psycopg.AsyncConnection,
) -> None:
    """Whoever has jobs stays allowed and is listed as such; an account that only installed the App is not."""
    await applied(database, [one for one in MIGRATIONS if one.number < 8])
    await replayed(database, recordings()[0].before)
    await database.execute("INSERT INTO accounts VALUES (99, 'bystander', 599, '2026-01-01T00:00:00Z')")
    await applied(database, [one for one in MIGRATIONS if one.number >= 8])
    found = await database.execute("SELECT account_id, allowed, changed_by FROM allow_list")
    assert await found.fetchall() == [(1, True, "upgrade")]
    audited = await database.execute("SELECT account_id, was, became, by FROM account_changes")
    assert await audited.fetchall() == [(1, "", "allowed", "upgrade")]


async def test_the_release_before_keeps_to_the_list_as_well(database: psycopg.AsyncConnection) -> None:
    """It does not know of the list: the functions that it calls do."""
    old = recordings()[-1]
    await applied(database, [one for one in MIGRATIONS if one.number <= old.migration])
    await replayed(database, old.before)
    await applied(database, [one for one in MIGRATIONS if one.number > old.migration])
    await database.execute("UPDATE allow_list SET allowed = false")
    await database.execute(
        "INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, enqueued_at,"
        " changed_at, changed_by, changed_why)"
        " VALUES (777, 1, 'mac-m4', 'macos', 6, 14336, 'queued', 'org1/app', now(), now(), 'old', 'announced')"
    )
    claim = "SELECT outcome FROM claim_jobs('mac-m4', '{u}', '{n}', NULL, 'old', now())"
    assert await (await database.execute(claim)).fetchall() == [("empty",)]
    await database.execute("UPDATE allow_list SET allowed = true")
    assert await (await database.execute(claim)).fetchall() == [("claimed",)]
