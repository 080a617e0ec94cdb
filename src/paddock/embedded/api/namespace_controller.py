"""What keeps the API's own objects in order: kinds that come and go, namespaces that end, default ServiceAccounts."""

from typing import Any

from paddock.base.logs import get_logger
from paddock.embedded.api.deletion import CLEANUP, DeleteOptions
from paddock.embedded.api.kinds import Kind, Kinds, kinds_from_crd
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.watch_fanout import WatchFanout
from paddock.embedded.store import Change, Key, Store

__all__ = ["FIRST_NAMESPACES", "NamespaceController", "create_first_namespaces", "serve_stored_kinds"]

Json = dict[str, Any]
log = get_logger("namespaces")
FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_TRY_AGAIN_AFTER = 1.0
_CRDS = "customresourcedefinitions.apiextensions.k8s.io"
_WRITE = Write(manager="paddock")
_FINALIZE = Write(manager="paddock", subresource="finalize")


async def serve_stored_kinds(store: Store, kinds: Kinds) -> None:
    """Serve every kind whose definition is stored: done once before the first request is answered."""
    for record in (await store.list(_CRDS)).records:
        _serve(kinds, decode(record))


async def create_first_namespaces(objects: Objects) -> None:
    """The namespaces that every cluster has."""
    kind = objects.kinds.get("", "v1", "namespaces")
    assert kind is not None
    for name in FIRST_NAMESPACES:
        if await objects.find(kind, "", name) is None:
            await objects.create(kind, "", {"metadata": {"name": name}}, _WRITE)


def _serve(kinds: Kinds, crd: Json) -> None:
    for kind in kinds_from_crd(crd):
        known = kinds.get(kind.group, kind.version, kind.plural)
        # `schema` does not count in equality, but a changed schema must be served: compare it by itself.
        if known is None or known != kind or known.schema != kind.schema:
            kinds.add(kind)


class NamespaceController:
    """Reacts to definitions, namespaces and the end of what lives in them. Every step can be repeated."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def run(self) -> None:
        """Work until cancelled."""
        async with WatchFanout(self._objects.store, self._objects.kinds).follow() as changes:
            async for change in changes:
                while not await self._reacted(change):
                    await self._objects.clock.sleep(_TRY_AGAIN_AFTER)

    async def _reacted(self, change: Change) -> bool:
        """Whether no more is to be done about a change; what the store was away for is, and no later change may tell of it."""
        try:
            await self._react(change)
        except ApiFailure as failure:
            log.warning("namespace step failed", key=str(change.record.key), why=failure.message)
            return failure.code != 503
        except Exception:  # one object that cannot be read stops no namespace and no definition
            log.exception("an object cannot be read and is left alone", object=str(change.record.key))
        return True

    async def _react(self, change: Change) -> None:
        key = change.record.key
        if key.resource == _CRDS:
            await self._definition(change)
        elif change.kind == "DELETED" and "." in key.resource:
            await self._end_definition(key.resource)
        if key.resource == "namespaces":
            await self._namespace(key.name)
        elif change.kind == "DELETED" and key.namespace:
            await self._namespace(key.namespace, only_if_ending=True)
        if change.kind == "DELETED" and key.resource == "serviceaccounts" and key.name == "default":
            await self._namespace(key.namespace)

    async def _definition(self, change: Change) -> None:
        crd = decode(change.record)
        if change.kind != "DELETED":
            _serve(self._objects.kinds, crd)
            await self._end_definition(change.record.key.name)
            return
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        self._objects.kinds.remove(group, plural)
        store = self._objects.store
        for record in (await store.list(f"{plural}.{group}")).records:
            # What was written later belongs to a definition that was made anew under the name before we looked.
            if record.revision < change.revision:
                await store.delete(record.key, record.revision)

    async def _end_definition(self, name: str) -> None:
        """Delete the objects of a kind whose definition ends; let the definition go when none is left."""
        record = await self._objects.store.get(Key(_CRDS, "", name))
        crd = decode(record) if record is not None else {"metadata": {}}
        if not crd["metadata"].get("deletionTimestamp") or CLEANUP not in (crd["metadata"].get("finalizers") or ()):
            return
        kind, definitions = self._objects.kinds.by_resource(name), self._objects.kinds.by_resource(_CRDS)
        assert definitions is not None
        if kind is not None and await self._delete_all(kind, None):
            return

        def released(obj: Json) -> Json:
            obj["metadata"]["finalizers"] = [f for f in obj["metadata"]["finalizers"] if f != CLEANUP]
            return obj

        await self._objects.change(definitions, "", name, released, _WRITE)

    async def _delete_all(self, kind: Kind, namespace: str | None) -> int:
        """Ask every object of a kind to go; how many are still there, because something holds them."""
        left = 0
        for record in (await self._objects.store.list(kind.resource, namespace)).records:
            if not decode(record)["metadata"].get("deletionTimestamp"):
                await self._objects.delete(kind, record.key.namespace, record.key.name, DeleteOptions())
            left += await self._objects.store.get(record.key) is not None
        return left

    async def _namespace(self, name: str, *, only_if_ending: bool = False) -> None:
        kinds = self._objects.kinds
        kind = kinds.get("", "v1", "namespaces")
        assert kind is not None
        record = await self._objects.find(kind, "", name)
        if record is None:
            return
        ending = bool(decode(record)["metadata"].get("deletionTimestamp"))
        if ending:
            await self._empty(name)
        elif not only_if_ending:
            accounts = kinds.get("", "v1", "serviceaccounts")
            assert accounts is not None
            if await self._objects.find(accounts, name, "default") is None:
                await self._objects.create(accounts, name, {"metadata": {"name": "default"}}, _WRITE)

    async def _empty(self, namespace: str) -> None:
        """Delete everything in a namespace that ends; let it go when nothing is left."""
        left = 0
        for kind in list(self._objects.kinds):
            if not kind.namespaced or kind.version != kind.storage_version or "list" not in kind.verbs:
                continue
            left += await self._delete_all(kind, namespace)
        if left:
            return
        kind = self._objects.kinds.get("", "v1", "namespaces")
        assert kind is not None

        def emptied(obj: Json) -> Json:
            obj["spec"] = {**(obj.get("spec") or {}), "finalizers": []}
            return obj

        await self._objects.change(kind, "", namespace, emptied, _FINALIZE)
