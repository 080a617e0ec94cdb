"""One real Postgres for the whole run, and ledgers in schemas of their own, each checked for contradictions at the end."""

import random
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio
from doubles.clocks import StandingClock
from integration.runners.ledger.rig import Bench
from integration.schemas import Schemas

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[EmbeddedPostgres]:
    # Not pytest's own temporary folder: that one is closed to the account that the server runs as under root.
    folder = Path(tempfile.mkdtemp(prefix="paddock-tests-", dir=_in_memory()))
    folder.chmod(0o755)
    try:
        async with EmbeddedPostgres(folder / "pg", clock=SystemClock(), rng=random.Random(1)) as postgres:
            await _hurry(postgres.dsn)
            yield postgres
    finally:
        shutil.rmtree(folder)


def _in_memory() -> str | None:
    """Where files cost no disk, if there is room: each ledger of a test is some hundred files, and a run makes a thousand."""
    shared = Path("/dev/shm")
    return str(shared) if shared.is_dir() and shutil.disk_usage(shared).free > 4 * 1024**3 else None


async def _hurry(dsn: str) -> None:
    """Nobody pulls the plug of this server, so no commit waits for the disk; the durable one has tests of its own."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("ALTER ROLE CURRENT_USER SET synchronous_commit = off")


@pytest.fixture(scope="session")
def schemas(server: EmbeddedPostgres) -> Iterator[Schemas]:
    schemas = Schemas(server.dsn)
    yield schemas
    schemas.close()


@pytest_asyncio.fixture
async def bench(schemas: Schemas) -> AsyncIterator[Bench]:
    """A ledger whose wall clock stands until it is told to move."""
    clock = StandingClock()
    schema = schemas.take()
    async with schemas.ledger(schema, clock, random.Random(7)) as ledger:
        bench = Bench(ledger, clock, schemas.kept, schema)
        yield bench
        problems = await bench.problems()
        await bench.aclose()
        assert problems == []
    await schemas.give_back(schema)
