"""Every change of every kind, in one queue: what the housekeeping of the API lives on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from paddock.embedded.api.kinds import Kinds
from paddock.embedded.store import Change, CompactedError, Key, Record, Store

__all__ = ["WatchFanout"]


class WatchFanout:
    """Follows all kinds that are served, those that are added later too.

    A follower first sees every object that exists, as ADDED, then every change. If history is lost on the way it sees the
    deletion of those that went meanwhile and the existing objects again; its work must therefore be idempotent.
    """

    def __init__(self, store: Store, kinds: Kinds) -> None:
        self._store = store
        self._kinds = kinds

    @asynccontextmanager
    async def follow(self, *resources: str) -> AsyncIterator[AsyncIterator[Change]]:
        """Changes of the named resources, or of every resource."""
        queue: asyncio.Queue[Change] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            tasks: dict[str, asyncio.Task[None]] = {}

            async def discover() -> None:
                while True:
                    seen = self._kinds.revision
                    wanted = set(resources) or {kind.resource for kind in self._kinds if "watch" in kind.verbs}
                    for resource in sorted(wanted - set(tasks)):
                        tasks[resource] = group.create_task(self._follow(resource, queue))
                    await self._kinds.wait_for_change(seen)

            finder = group.create_task(discover())
            try:
                yield _drain(queue)
            finally:
                for task in (finder, *tasks.values()):
                    task.cancel()

    async def _follow(self, resource: str, queue: asyncio.Queue[Change]) -> None:
        shown: dict[Key, Record] = {}
        while True:
            page = await self._store.list(resource)
            before, shown = shown, {record.key: record for record in page.records}
            for key, record in before.items():
                if key not in shown:
                    queue.put_nowait(Change("DELETED", page.revision, record, None))
            for record in page.records:
                queue.put_nowait(Change("ADDED", record.revision, record, None))
            try:
                async with self._store.watch(resource, after=page.revision) as changes:
                    async for change in changes:
                        if change.kind == "DELETED":
                            shown.pop(change.record.key, None)
                        else:
                            shown[change.record.key] = change.record
                        queue.put_nowait(change)
            except CompactedError:
                continue


async def _drain(queue: asyncio.Queue[Change]) -> AsyncIterator[Change]:
    while True:
        yield await queue.get()
