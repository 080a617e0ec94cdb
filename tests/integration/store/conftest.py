"""Both stores, held to one suite. One Postgres serves the whole run; every test gets a schema of its own."""

import itertools
import random
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from integration.store.stores import AnyStore, OpenPostgres, OpenStore

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.postgres import PostgresStore

_schemas = itertools.count()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[EmbeddedPostgres]:
    # Not pytest's own temporary folder: that one is closed to the account that the server runs as under root.
    folder = Path(tempfile.mkdtemp(prefix="paddock-store-"))
    folder.chmod(0o755)
    try:
        async with EmbeddedPostgres(folder / "pg", clock=SystemClock(), chance=random.Random(1)) as postgres:
            yield postgres
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def schema() -> str:
    return f"test_{next(_schemas)}"


@pytest_asyncio.fixture
async def open_postgres(server: EmbeddedPostgres, schema: str) -> AsyncIterator[OpenPostgres]:
    """Opens the durable store on this test's schema; whatever is still open at the end is closed."""
    opened: list[PostgresStore] = []

    async def opener(**options: Any) -> PostgresStore:
        settings: dict[str, Any] = {"clock": SystemClock(), "chance": random.Random(), "schema": schema, **options}
        store = await PostgresStore.open(settings.pop("conninfo", server.dsn), **settings)
        opened.append(store)
        return store

    yield opener
    for store in opened:
        await store.close()


@pytest.fixture(params=["memory", "postgres"])
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    """Opens an empty store of either kind, with its limits as keywords."""

    async def open_memory(**options: Any) -> MemoryStore:
        return MemoryStore(**options)

    return open_memory if request.param == "memory" else request.getfixturevalue("open_postgres")


@pytest_asyncio.fixture
async def store(open_store: OpenStore) -> AnyStore:
    return await open_store()
