"""Brings a database's tables to what this release expects: numbered .sql files of a package, each applied once.

A folder holds `0001_jobs.sql`, `0002_claims.sql`, … without gaps. Each file runs in one transaction together with the row
that records it, so a file has either run completely or not at all. Two processes that start together take turns. Files
that have run are history: what needs to change goes into a new file, and a file that was edited is refused.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources

import psycopg

from paddock.base.clock import Clock

__all__ = [
    "ChangedMigrationError",
    "Migration",
    "MigrationError",
    "MigrationFilesError",
    "MigrationLockError",
    "NewerDatabaseError",
    "migrate",
    "outstanding",
    "read_migrations",
]

_FILE = re.compile(r"(?P<number>\d{4})_[a-z0-9_]+\.sql")
_LOCK_CLASS = 0x6D69_6772  # "migr"


class MigrationError(Exception):
    """The root of what keeps a database from being brought up to date."""


class MigrationFilesError(MigrationError):
    """The files of this release are not numbered 0001, 0002, … without gaps: a mistake of the build."""


class ChangedMigrationError(MigrationError):
    """A file differs from what has run on this database: restore the file and put the change into a new one."""


class NewerDatabaseError(MigrationError):
    """The database has been used by a newer release: start that release, or restore the backup made before it."""


class MigrationLockError(MigrationError):
    """Another process has been changing the tables for too long: look for it in pg_stat_activity and try again."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file."""

    number: int
    file: str
    sql: str

    @property
    def checksum(self) -> str:
        """A fingerprint that survives a checkout with other line ends."""
        return hashlib.sha256("\n".join(self.sql.splitlines()).encode()).hexdigest()


def read_migrations(package: str, folder: str = "migrations") -> tuple[Migration, ...]:
    """The files in a folder of an importable package, in order."""
    found: list[Migration] = []
    for entry in resources.files(package).joinpath(folder).iterdir():
        if not entry.name.endswith(".sql"):
            continue
        match = _FILE.fullmatch(entry.name)
        if match is None:
            raise MigrationFilesError(f"{package}/{folder}/{entry.name} is not named like 0001_what_it_does.sql")
        found.append(Migration(int(match["number"]), entry.name, entry.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.file)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise MigrationFilesError(
            f"{package}/{folder} must hold files numbered 1, 2, … without gaps: {[one.file for one in found]}"
        )
    return tuple(found)


def outstanding(known: Iterable[Migration], applied: Mapping[int, str]) -> tuple[Migration, ...]:
    """The migrations still to run, given the checksums by number of those that have."""
    waiting: list[Migration] = []
    newest = 0
    for migration in known:
        newest = migration.number
        checksum = applied.get(migration.number)
        if checksum is None:
            waiting.append(migration)
        elif checksum != migration.checksum:
            raise ChangedMigrationError(
                f"{migration.file} differs from what has run on this database: "
                "restore the file and put the change into a new one"
            )
    if applied and max(applied) > newest:
        raise NewerDatabaseError(
            f"this database is at migration {max(applied)} and this release knows {newest}: start the newer release"
        )
    return tuple(waiting)


async def migrate(
    connection: psycopg.AsyncConnection,
    *,
    name: str,
    package: str,
    clock: Clock,
    folder: str = "migrations",
    lock_wait: float = 60.0,
) -> tuple[int, ...]:
    """Run what has not run yet, and give the numbers that ran.

    `name` tells apart the sets of tables that share a schema. The connection is in autocommit mode and its search path
    leads to that schema; both are the caller's duty.
    """
    known = read_migrations(package, folder)
    await _lock(connection, name, lock_wait)
    try:
        await connection.execute(
            "CREATE TABLE IF NOT EXISTS schema_migrations (name text NOT NULL, number integer NOT NULL,"
            " file text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL, PRIMARY KEY (name, number))"
        )
        cursor = await connection.execute("SELECT number, checksum FROM schema_migrations WHERE name = %s", [name])
        waiting = outstanding(known, dict(await cursor.fetchall()))
        for migration in waiting:
            async with connection.transaction():
                await connection.execute(migration.sql.encode())
                await connection.execute(
                    "INSERT INTO schema_migrations (name, number, file, checksum, applied_at)"
                    " VALUES (%s, %s, %s, %s, %s)",
                    [name, migration.number, migration.file, migration.checksum, clock.now()],
                )
        return tuple(migration.number for migration in waiting)
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s, 0)", [_LOCK_CLASS])


async def _lock(connection: psycopg.AsyncConnection, name: str, wait: float) -> None:
    # One lock a database: sets that share a schema also share the table that records them.
    try:
        async with connection.transaction():
            await connection.execute("SELECT set_config('lock_timeout', %s, true)", [f"{wait * 1000:.0f}ms"])
            await connection.execute("SELECT pg_advisory_lock(%s, 0)", [_LOCK_CLASS])
    except psycopg.errors.LockNotAvailable as error:
        raise MigrationLockError(
            f"another process has been changing tables for {wait:.0f} s, so those of {name} have to wait: try again"
        ) from error
