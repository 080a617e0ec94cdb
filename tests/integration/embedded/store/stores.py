"""The two stores, as the tests of this folder name them."""

from collections.abc import Awaitable, Callable

from paddock.embedded.store import Store
from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.postgres import PostgresStore

AnyStore = MemoryStore | PostgresStore
OpenStore = Callable[..., Awaitable[AnyStore]]
OpenPostgres = Callable[..., Awaitable[PostgresStore]]


def as_store(store: AnyStore) -> Store:
    """Only has to pass the type checker: both are what the API takes."""
    return store
