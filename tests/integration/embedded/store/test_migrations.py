"""Numbered files, each run once and completely, whoever starts at the same time."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from paddock.base.clock import SystemClock
from paddock.base.migrations import (
    ChangedMigrationError,
    Migration,
    MigrationFilesError,
    MigrationLockError,
    NewerDatabaseError,
    migrate,
    outstanding,
    read_migrations,
)
from paddock.embedded.postgres import EmbeddedPostgres


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schema: str) -> Path:
    """The migrations of a package made for this test."""
    folder = tmp_path / f"package_{schema}" / "migrations"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (folder / "0001_one.sql").write_text("CREATE TABLE one (n int); INSERT INTO one VALUES (1);")
    (folder / "0002_two.sql").write_text("ALTER TABLE one ADD COLUMN two int DEFAULT 2;")
    return folder


@pytest_asyncio.fixture
async def connection(server: EmbeddedPostgres, schema: str) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await _connect(server, schema) as connection:
        await connection.execute(f"CREATE SCHEMA {schema}".encode())
        yield connection


async def _connect(server: EmbeddedPostgres, schema: str) -> psycopg.AsyncConnection:
    return await psycopg.AsyncConnection.connect(server.dsn, autocommit=True, options=f"-c search_path={schema}")


async def run(connection: psycopg.AsyncConnection, files: Path, name: str = "test") -> tuple[int, ...]:
    return await migrate(connection, name=name, package=files.parent.name, clock=SystemClock(), lock_wait=0.2)


async def test_each_file_runs_once_and_a_new_one_later(connection: psycopg.AsyncConnection, files: Path) -> None:
    assert await run(connection, files) == (1, 2)
    assert await run(connection, files) == ()
    (files / "0003_three.sql").write_text("UPDATE one SET two = 3;")
    assert await run(connection, files) == (3,)
    assert await (await connection.execute("SELECT n, two FROM one")).fetchall() == [(1, 3)]


async def test_two_sets_of_tables_share_a_schema(connection: psycopg.AsyncConnection, files: Path) -> None:
    assert await run(connection, files) == (1, 2)
    await connection.execute("DROP TABLE one")
    assert await run(connection, files, name="other") == (1, 2)


async def test_a_file_that_fails_leaves_nothing_of_itself_and_runs_when_repaired(
    connection: psycopg.AsyncConnection, files: Path
) -> None:
    (files / "0002_two.sql").write_text("INSERT INTO one VALUES (7); SELECT nonsense;")
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await run(connection, files)
    assert await (await connection.execute("SELECT n FROM one")).fetchall() == [(1,)]
    (files / "0002_two.sql").write_text("INSERT INTO one VALUES (2);")
    assert await run(connection, files) == (2,)


async def test_a_file_that_was_changed_after_it_ran_is_refused(
    connection: psycopg.AsyncConnection, files: Path
) -> None:
    await run(connection, files)
    (files / "0001_one.sql").write_bytes((files / "0001_one.sql").read_bytes() + b"\r\n")
    assert await run(connection, files) == ()  # another line end is no change
    (files / "0001_one.sql").write_text("CREATE TABLE one (n bigint);")
    with pytest.raises(ChangedMigrationError, match=r"0001_one\.sql"):
        await run(connection, files)


async def test_a_database_of_a_newer_release_is_refused(connection: psycopg.AsyncConnection, files: Path) -> None:
    await run(connection, files)
    (files / "0002_two.sql").unlink()
    with pytest.raises(NewerDatabaseError, match="newer release"):
        await run(connection, files)


async def test_processes_that_start_together_take_turns(
    connection: psycopg.AsyncConnection, server: EmbeddedPostgres, schema: str, files: Path
) -> None:
    others = [await _connect(server, schema) for _ in range(3)]
    ran = await asyncio.gather(
        *(migrate(one, name="test", package=files.parent.name, clock=SystemClock()) for one in [connection, *others])
    )
    assert sorted(ran) == [(), (), (), (1, 2)]
    for other in others:
        await other.close()


async def test_a_process_that_holds_the_lock_for_ever_is_named_as_the_reason(
    connection: psycopg.AsyncConnection, server: EmbeddedPostgres, schema: str, files: Path
) -> None:
    async with await _connect(server, schema) as other:
        await other.execute("SELECT pg_advisory_lock(%s, 0)", [0x6D69_6772])
        with pytest.raises(MigrationLockError, match="another process"):
            await run(connection, files)
    assert await run(connection, files) == (1, 2)


@pytest.mark.parametrize("name", ["0004_gap.sql", "0002_again.sql", "three.sql"])
def test_files_that_are_not_numbered_one_after_the_other_are_refused(files: Path, name: str) -> None:
    (files / name).write_text("SELECT 1")
    with pytest.raises(MigrationFilesError, match=name):
        read_migrations(files.parent.name)


def test_what_is_outstanding_is_what_has_not_run() -> None:
    one, two = Migration(1, "0001_a.sql", "A"), Migration(2, "0002_b.sql", "B")
    assert outstanding([one, two], {}) == (one, two)
    assert outstanding([one, two], {1: one.checksum}) == (two,)
