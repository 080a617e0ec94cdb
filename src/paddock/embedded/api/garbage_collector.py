"""Owner references: what dies with its owner, what outlives it, and what an owner waits for.

The rules are those of Kubernetes' garbage collector. A dependent is deleted when *every* owner it names is gone; while
one is left, only the references to the gone ones are taken out. Absence is proven by a read of the store at the moment
of the decision, never by the graph, which only says where to look; the delete names the uid and the version that were
judged.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from paddock.base.logs import get_logger
from paddock.embedded.api.deletion import FOREGROUND, ORPHAN, DeleteOptions
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.watch_fanout import WatchFanout
from paddock.embedded.store import Change, Key

__all__ = ["GarbageCollector"]

Json = dict[str, Any]
log = get_logger("garbage")
_TRY_AGAIN_AFTER = 1.0
_WRITE = Write(manager="garbage-collector")


@dataclass(frozen=True, slots=True)
class _Node:
    key: Key
    owners: frozenset[str]


class GarbageCollector:
    """Deletes the dependents of deleted owners: in the background, before the owner, or not at all (orphan)."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._nodes: dict[str, _Node] = {}
        self._dependents: dict[str, set[str]] = {}
        self._todo: deque[str] = deque()
        self._queued: set[str] = set()

    async def run(self) -> None:
        """Work until cancelled."""
        wake = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work(wake))
            async with WatchFanout(self._objects.store, self._objects.kinds).follow() as changes:
                async for change in changes:
                    try:
                        self._observe(change)
                    except Exception:  # one object that cannot be read keeps no other from its end
                        log.exception("an object cannot be read and is not collected", object=str(change.record.key))
                    if self._todo:
                        wake.set()

    # The graph: where to look

    def _observe(self, change: Change) -> None:
        meta = decode(change.record)["metadata"]
        uid: str = meta["uid"]
        old = self._nodes.get(uid)
        if change.kind == "DELETED":
            self._forget(uid)
            for dependent in sorted(self._dependents.get(uid, ())):
                self._enqueue(dependent)
            for owner in sorted(old.owners if old else ()):
                self._enqueue(owner)  # an owner may be waiting for this one to go
            return
        owners = frozenset(ref["uid"] for ref in meta.get("ownerReferences") or ())
        self._forget(uid)
        self._nodes[uid] = _Node(change.record.key, owners)
        for owner in owners:
            self._dependents.setdefault(owner, set()).add(uid)
        ending = meta.get("deletionTimestamp") and {FOREGROUND, ORPHAN} & set(meta.get("finalizers") or ())
        if owners or ending:
            self._enqueue(uid)

    def _forget(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        for owner in node.owners if node else ():
            self._dependents[owner].discard(uid)
            if not self._dependents[owner]:
                del self._dependents[owner]

    def _enqueue(self, uid: str) -> None:
        if uid not in self._queued:
            self._queued.add(uid)
            self._todo.append(uid)

    # The work: decide on a fresh read

    async def _work(self, wake: asyncio.Event) -> None:
        while True:
            await wake.wait()
            wake.clear()
            while self._todo:
                uid = self._todo.popleft()
                self._queued.discard(uid)
                try:
                    await self._attempt(uid)
                except ApiFailure as failure:
                    if failure.code == 404:
                        continue
                    log.info("will try again", uid=uid, why=failure.message)
                    asyncio.get_running_loop().call_later(_TRY_AGAIN_AFTER, self._again, uid, wake)
                except Exception:
                    log.exception("an object cannot be read and is not collected", uid=uid)

    def _again(self, uid: str, wake: asyncio.Event) -> None:
        self._enqueue(uid)
        wake.set()

    async def _attempt(self, uid: str) -> None:
        obj = await self._fresh(uid)
        if obj is None:
            return
        meta = obj["metadata"]
        finalizers = meta.get("finalizers") or ()
        if meta.get("deletionTimestamp") and ORPHAN in finalizers:
            for dependent in sorted(self._dependents.get(uid, ())):
                await self._drop_references(dependent, {uid})
            await self._drop_finalizer(uid, ORPHAN)
        elif meta.get("deletionTimestamp") and FOREGROUND in finalizers:
            await self._foreground(uid)
        elif not meta.get("deletionTimestamp") and meta.get("ownerReferences"):
            await self._judge(uid, obj)

    async def _judge(self, uid: str, obj: Json) -> None:
        """Delete an object whose owners are all gone or going; take out only the dead references otherwise."""
        refs = obj["metadata"]["ownerReferences"]
        states = [await self._owner_state(obj, ref) for ref in refs]
        if "unknown" in states:
            return  # an owner that cannot be looked up: nothing can be concluded from not finding it
        lost = {ref["uid"] for ref, state in zip(refs, states, strict=True) if state != "alive"}
        if not lost:
            return
        if "alive" in states:
            await self._drop_references(uid, lost)
            return
        propagation = "Foreground" if "waiting" in states and self._dependents.get(uid) else "Background"
        await self._delete(uid, propagation, obj["metadata"]["resourceVersion"])

    async def _owner_state(self, obj: Json, ref: Json) -> str:
        kind = self._objects.kinds.by_group_kind(ref["apiVersion"], ref["kind"])
        if kind is None:
            return "unknown"
        namespace = obj["metadata"].get("namespace", "") if kind.namespaced else ""
        if kind.namespaced and not namespace:
            return "unknown"  # an owner in some namespace, which the reference cannot name: it may well live
        record = await self._objects.find(kind, namespace, ref["name"])
        owner = decode(record) if record is not None else None
        if owner is None or owner["metadata"]["uid"] != ref["uid"]:
            return "gone"
        waiting = owner["metadata"].get("deletionTimestamp") and FOREGROUND in (
            owner["metadata"].get("finalizers") or ()
        )
        return "waiting" if waiting else "alive"

    async def _foreground(self, uid: str) -> None:
        """Delete the dependents first; let the owner go when none is left that blocks it."""
        blocking = False
        for dependent in sorted(self._dependents.get(uid, ())):
            obj = await self._fresh(dependent)
            if obj is None:
                continue
            refs = obj["metadata"].get("ownerReferences") or ()
            blocking |= any(ref["uid"] == uid and ref.get("blockOwnerDeletion") for ref in refs)
            if not obj["metadata"].get("deletionTimestamp"):
                await self._judge(dependent, obj)
        if not blocking:
            await self._drop_finalizer(uid, FOREGROUND)

    async def _fresh(self, uid: str) -> Json | None:
        node = self._nodes.get(uid)
        record = await self._objects.store.get(node.key) if node else None
        obj = decode(record) if record is not None else None
        return obj if obj is not None and obj["metadata"]["uid"] == uid else None

    async def _delete(self, uid: str, propagation: str, judged: str) -> None:
        """Delete the version that was judged. Another one may have got an owner that lives: a conflict, and judged anew."""
        node = self._nodes[uid]
        kind = self._objects.kinds.by_resource(node.key.resource)
        if kind is not None:
            options = DeleteOptions(propagation, uid=uid, resource_version=judged)
            await self._objects.delete(kind, node.key.namespace, node.key.name, options)

    async def _drop_references(self, uid: str, owners: set[str]) -> None:
        def dropped(obj: Json) -> Json:
            refs = [ref for ref in obj["metadata"].get("ownerReferences") or () if ref["uid"] not in owners]
            obj["metadata"]["ownerReferences"] = refs
            if not refs:
                del obj["metadata"]["ownerReferences"]
            return obj

        await self._change(uid, dropped)

    async def _drop_finalizer(self, uid: str, finalizer: str) -> None:
        def dropped(obj: Json) -> Json:
            obj["metadata"]["finalizers"] = [f for f in obj["metadata"].get("finalizers") or () if f != finalizer]
            return obj

        await self._change(uid, dropped)

    async def _change(self, uid: str, change: Any) -> None:
        node = self._nodes.get(uid)
        kind = self._objects.kinds.by_resource(node.key.resource) if node else None
        if node is not None and kind is not None:
            await self._objects.change(kind, node.key.namespace, node.key.name, change, _WRITE)
