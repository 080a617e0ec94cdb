"""The conformance cases against the embedded API: all of them over the store in memory, and over Postgres those that tell one
store from another. Both stores are held to one suite and one model by `tests/integration/embedded/store`; PADDOCK_EVERY_STATE=1
runs all cases over both.

The same cases run against a real kube-apiserver in `tests/kube/test_conformance.py`: where the two disagree, ours is wrong.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from conformance import cases
from conformance.collection import Case, every_case
from conformance.embedded import Embedded, embedded
from conformance.target import Api

from paddock.base.clock import SystemClock
from paddock.base.rng import unseeded
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.embedded.store import Store
from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.postgres import PostgresStore

pytestmark = pytest.mark.asyncio(loop_scope="module")
ABOUT_THE_STORE = frozenset({"storing", "watching", "reading", "deleting", "collecting"})


async def postgres_store(folder: Path, stack: AsyncExitStack) -> Store:
    clock, rng = SystemClock(), unseeded()
    server = await stack.enter_async_context(EmbeddedPostgres(folder, clock=clock, rng=rng))
    return await stack.enter_async_context(await PostgresStore.open(server.dsn, clock=clock, rng=rng))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    async with AsyncExitStack() as stack:
        folder = tmp_path_factory.mktemp("conformance")
        store = MemoryStore() if request.param == "memory" else await postgres_store(folder / "postgres", stack)
        yield await stack.enter_async_context(embedded(store, folder / "data"))


@pytest_asyncio.fixture(loop_scope="module")
async def api(plane: Embedded) -> AsyncIterator[Api]:
    async with plane.api() as target:
        yield target


def over_their_stores() -> Iterator[Any]:
    for case in every_case(cases):
        yield pytest.param("memory", *case.values, id=f"{case.id}-memory")
    for case in every_case(cases):
        if str(case.id).partition("-")[0] in ABOUT_THE_STORE or os.environ.get("PADDOCK_EVERY_STATE"):
            yield pytest.param("postgres", *case.values, id=f"{case.id}-postgres", marks=pytest.mark.slow)


@pytest.mark.parametrize(("plane", "case"), list(over_their_stores()), indirect=["plane"], scope="module")
async def test_the_embedded_api(case: Case, api: Api) -> None:
    await case(api)
