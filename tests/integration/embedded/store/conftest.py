"""Both stores, held to one suite; every test gets a schema of its own."""

import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from integration.embedded.store.stores import AnyStore, OpenPostgres, OpenStore

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.postgres import PostgresStore

_schemas = itertools.count()


@pytest.fixture
def schema() -> str:
    return f"test_{next(_schemas)}"


@pytest_asyncio.fixture
async def open_postgres(server: EmbeddedPostgres, schema: str) -> AsyncIterator[OpenPostgres]:
    """Opens the durable store on this test's schema; whatever is still open at the end is closed."""
    opened: list[PostgresStore] = []

    async def opener(**options: Any) -> PostgresStore:
        settings: dict[str, Any] = {"clock": SystemClock(), "rng": random.Random(), "schema": schema, **options}
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
