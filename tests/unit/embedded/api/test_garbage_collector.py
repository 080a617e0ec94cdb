"""What the garbage collector leaves alone: whatever has a living owner, or one that nobody can look up."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from paddock.base.clock import SystemClock
from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.garbage_collector import GarbageCollector
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.objects import Objects
from paddock.embedded.api.representation import decode
from paddock.embedded.store import Key, Record
from paddock.embedded.store.memory import MemoryStore

Json = dict[str, Any]


class BusyStore(MemoryStore):
    """A store in which another client is quicker than the first delete."""

    def __init__(self) -> None:
        super().__init__()
        self.before_delete: Callable[[Key], Awaitable[None]] | None = None

    async def delete(self, key: Key, expected: int) -> Record:
        if (hurry := self.before_delete) is not None:
            self.before_delete = None
            await hurry(key)
        return await super().delete(key, expected)


class Cluster:
    def __init__(self) -> None:
        self.store = BusyStore()
        self.objects = Objects(self.store, Kinds(KINDS), SystemClock(), random.Random(1))

    @asynccontextmanager
    async def collecting(self) -> AsyncIterator[None]:
        running = asyncio.create_task(GarbageCollector(self.objects).run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def add(self, key: Key, *owners: Json) -> None:
        meta: Json = {"name": key.name, "uid": f"uid-{key.name}", "ownerReferences": list(owners)}
        if key.namespace:
            meta["namespace"] = key.namespace
        await self.store.create(key, {"metadata": meta})

    async def gone(self, key: Key) -> None:
        async with asyncio.timeout(10):
            while await self.store.get(key) is not None:
                await asyncio.sleep(0.01)


def config(name: str) -> Key:
    return Key("configmaps", "default", name)


def owner(name: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}"}


async def test_what_gets_a_living_owner_while_it_is_collected_stays() -> None:
    cluster = Cluster()
    await cluster.add(config("adopter"))
    await cluster.add(config("child"), owner("lost"))

    async def adopt(key: Key) -> None:
        record = await cluster.store.get(key)
        assert record is not None
        child = decode(record)
        child["metadata"]["ownerReferences"] = [owner("adopter")]
        await cluster.store.update(key, child, record.revision)

    cluster.store.before_delete = adopt
    async with cluster.collecting():
        await cluster.add(config("last"), owner("lost"))
        await cluster.gone(config("last"))
        await asyncio.sleep(0.05)
        assert await cluster.store.get(config("child")) is not None


async def test_what_has_no_namespace_is_not_collected_for_an_owner_that_has_one() -> None:
    cluster = Cluster()
    await cluster.add(config("owner"))
    await cluster.add(Key("nodes", "", "mac-1"), owner("owner"))
    async with cluster.collecting():
        await cluster.add(config("last"), owner("lost"))
        await cluster.gone(config("last"))
        assert await cluster.store.get(Key("nodes", "", "mac-1")) is not None
