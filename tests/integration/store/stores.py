"""The two stores, as the tests of this folder name them."""

from collections.abc import Awaitable, Callable

from paddock.embedded.store.memory import MemoryStore
from paddock.embedded.store.postgres import PostgresStore

AnyStore = MemoryStore | PostgresStore
OpenStore = Callable[..., Awaitable[AnyStore]]
OpenPostgres = Callable[..., Awaitable[PostgresStore]]
