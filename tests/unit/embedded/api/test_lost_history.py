"""What the housekeeping of the API makes of a watch that fell behind: nothing that went meanwhile keeps its place."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from paddock.base.clock import SystemClock
from paddock.embedded.api import status
from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.kinds import Kinds
from paddock.embedded.api.objects import Objects
from paddock.embedded.api.representation import decode
from paddock.embedded.api.scheduler import Scheduler
from paddock.embedded.api.watch_fanout import WatchFanout
from paddock.embedded.store import Key
from paddock.embedded.store.memory import MemoryStore

Json = dict[str, Any]
QUEUE = 8


def pod_key(name: str) -> Key:
    return Key("pods", "default", name)


def pod(name: str) -> Json:
    requests = {"requests": {"tuist.dev/vm": "1"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "runner", "image": "runner", "resources": requests}]},
        "status": {"phase": "Pending"},
    }


NODE: Json = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "mac-1", "uid": "uid-mac-1"},
    "spec": {},
    "status": {
        "allocatable": {"tuist.dev/vm": "1", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


class Cluster:
    """A store whose watches fall behind after a few changes, and the scheduler of `paddock up`."""

    def __init__(self) -> None:
        self.store = MemoryStore(queue_limit=QUEUE)
        self.objects = Objects(self.store, Kinds(KINDS), SystemClock(), random.Random(1))

    @asynccontextmanager
    async def scheduling(self) -> AsyncIterator[None]:
        running = asyncio.create_task(Scheduler(self.objects).run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def delete(self, key: Key) -> None:
        record = await self.store.get(key)
        assert record is not None
        await self.store.delete(key, record.revision)

    async def falls_behind(self, resource: str = "pods") -> None:
        """So many changes in one turn of the loop that no watch is told of them."""
        for number in range(QUEUE + 1):
            await self.store.create(Key(resource, "default", f"brief-{number}"), pod(f"brief-{number}"))
        for number in range(QUEUE + 1):
            await self.delete(Key(resource, "default", f"brief-{number}"))

    async def pod(self, name: str) -> Json:
        record = await self.store.get(pod_key(name))
        assert record is not None
        return decode(record)

    async def bound(self, name: str) -> str:
        async with asyncio.timeout(10):
            while not (node := (await self.pod(name))["spec"].get("nodeName")):
                await asyncio.sleep(0.01)
        return node


async def test_a_pod_that_went_while_history_was_lost_leaves_its_place() -> None:
    cluster = Cluster()
    await cluster.store.create(Key("nodes", "", "mac-1"), NODE)
    await cluster.store.create(pod_key("first"), pod("first"))
    async with cluster.scheduling():
        assert await cluster.bound("first") == "mac-1"
        await asyncio.sleep(0.05)  # the watch has shown it
        await cluster.delete(pod_key("first"))
        await cluster.falls_behind()
        await cluster.store.create(pod_key("second"), pod("second"))
        assert await cluster.bound("second") == "mac-1"


async def test_a_node_that_went_while_history_was_lost_gets_no_pod() -> None:
    cluster = Cluster()
    other = {**NODE, "metadata": {"name": "mac-0", "uid": "uid-mac-0"}}
    await cluster.store.create(Key("nodes", "", "mac-0"), other)
    await cluster.store.create(Key("nodes", "", "mac-1"), NODE)
    async with cluster.scheduling():
        await cluster.store.create(pod_key("first"), pod("first"))
        assert await cluster.bound("first") == "mac-0"
        await cluster.delete(pod_key("first"))
        await cluster.delete(Key("nodes", "", "mac-0"))
        for number in range(QUEUE + 1):
            node = {**NODE, "metadata": {"name": f"brief-{number}", "uid": f"uid-brief-{number}"}, "status": {}}
            await cluster.store.create(Key("nodes", "", f"brief-{number}"), node)
        await cluster.store.create(pod_key("second"), pod("second"))
        assert await cluster.bound("second") == "mac-1"


async def test_whoever_follows_is_told_of_what_went_while_history_was_lost() -> None:
    cluster = Cluster()
    for name in ("stays", "goes"):
        await cluster.store.create(pod_key(name), pod(name))
    seen: list[tuple[str, str]] = []
    async with WatchFanout(cluster.store, Kinds(KINDS)).follow("pods") as changes:
        async with asyncio.timeout(10):
            while len(seen) < 2:
                change = await anext(changes)
                seen.append((change.kind, change.record.key.name))
            assert sorted(seen) == [("ADDED", "goes"), ("ADDED", "stays")]
            await cluster.delete(pod_key("goes"))
            await cluster.falls_behind()
            del seen[:]
            while ("ADDED", "stays") not in seen:
                change = await anext(changes)
                seen.append((change.kind, change.record.key.name))
    assert seen == [("DELETED", "goes"), ("ADDED", "stays")]


async def test_a_pod_that_is_bound_and_cannot_say_so_has_its_place_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    await cluster.store.create(Key("nodes", "", "mac-1"), NODE)
    for name in ("first", "second"):
        await cluster.store.create(pod_key(name), pod(name))
    change, told = cluster.objects.change, asyncio.Event()

    async def refusing(kind: Any, namespace: str, name: str, propose: Any, write: Any) -> Any:
        if write.subresource == "status" and name == "first":
            raise status.conflict(kind, name)
        outcome = await change(kind, namespace, name, propose, write)
        if name == "second":
            told.set()
        return outcome

    monkeypatch.setattr(cluster.objects, "change", refusing)
    async with cluster.scheduling():
        assert await cluster.bound("first") == "mac-1"
        await asyncio.wait_for(told.wait(), 10)
    assert "nodeName" not in (await cluster.pod("second"))["spec"], "two VMs on a Mac that offers one"
