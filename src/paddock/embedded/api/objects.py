"""The life of one object over the store: create, change, apply, delete.

Every write follows one order: *propose* (what the client asks for), *admit* (restore what only the server may set, prune,
default, validate, count the generation, record who owns which field), then one compare-and-swap in the store. A client
that named no resourceVersion is retried on a lost swap; one that did gets its 409. A write that changes nothing is not
a write: no revision, no event.
"""

import copy
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from paddock.base.clock import Clock, rfc3339
from paddock.base.rng import kube_suffix, new_uuid
from paddock.embedded.api import admission, status
from paddock.embedded.api.builtin import catalogue as builtins
from paddock.embedded.api.deletion import DeleteOptions, ended, marked_for_deletion
from paddock.embedded.api.kinds import Kind, Kinds
from paddock.embedded.api.managed_fields import apply as server_side
from paddock.embedded.api.representation import decode, shown
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.store import (
    ExistsError,
    Key,
    MissingError,
    Record,
    RevisionMismatchError,
    Store,
    StoreUnavailableError,
)

__all__ = ["Objects", "Write", "WriteOutcome"]

Json = dict[str, Any]

_LOST_SWAPS_BEFORE_GIVING_UP = 10
_GENERATED_NAME_TRIES = 8
_LONGEST_GENERATED_BASE = 58
_NOT_TAKEN_FROM_CLIENTS = (
    "uid",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generation",
)

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Write:
    """How a write was asked for: by whom, how strictly, on which subresource, and whether only to try."""

    manager: str = "unknown"
    validation: str = "Warn"
    dry_run: bool = False
    subresource: str = ""
    patching: bool = False
    repeated: tuple[str, ...] = ()
    """Fields that the client's JSON names more than once."""
    guard: Callable[[Kind, Json | None, Json, str], Awaitable[None]] | None = None
    """Asked with the old object (None: there is none) and the new one before anything is stored; it raises to refuse."""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write came to: the status code, the JSON to answer with, and warnings for the client."""

    code: int
    body: bytes
    warnings: list[str] = field(default_factory=list)


class Objects:
    """Reads and writes of single objects, with the rules of a Kubernetes API server."""

    def __init__(self, store: Store, kinds: Kinds, clock: Clock, rng: random.Random) -> None:
        self.store = store
        self.kinds = kinds
        self.clock = clock
        self._rng = rng

    async def find(self, kind: Kind, namespace: str, name: str) -> Record | None:
        return await self.store.get(Key(kind.resource, namespace, name))

    async def read(self, kind: Kind, namespace: str, name: str) -> Record:
        record = await self.find(kind, namespace, name)
        if record is None:
            raise status.not_found(kind, name)
        return record

    # Creating

    async def create(self, kind: Kind, namespace: str, proposed: Json, write: Write) -> WriteOutcome:
        """Store a new object, under its own name or under one generated from `metadata.generateName`."""
        meta = proposed.get("metadata") or {}
        admission.check_identity(kind, namespace, "", proposed)
        if meta.get("resourceVersion"):
            raise ApiFailure(500, "", "resourceVersion should not be set on objects to be created")
        await self._check_namespace(kind, namespace, meta.get("name") or "")
        fixed_name = bool(meta.get("name"))
        for _ in range(1 if fixed_name else _GENERATED_NAME_TRIES):
            new, warnings = self._admit_new(kind, namespace, copy.deepcopy(proposed), write)
            try:
                return await self._store_new(kind, new, write, warnings)
            except ExistsError:
                if fixed_name:
                    raise await self._name_taken(kind, namespace, meta["name"]) from None
        raise status.already_exists(kind, meta.get("generateName", ""))

    async def _name_taken(self, kind: Kind, namespace: str, name: str) -> ApiFailure:
        record = await self.find(kind, namespace, name)
        ending = record is not None and bool(decode(record)["metadata"].get("deletionTimestamp"))
        return status.already_exists(kind, name, ending=ending)

    def _admit_new(
        self, kind: Kind, namespace: str, new: Json, write: Write, *, owned: bool = False
    ) -> tuple[Json, list[str]]:
        meta = new["metadata"] = dict(new.get("metadata") or {})
        for name in _NOT_TAKEN_FROM_CLIENTS:
            meta.pop(name, None)
        if not owned:
            meta.pop("managedFields", None)
        if not meta.get("name") and meta.get("generateName"):
            meta["name"] = meta["generateName"][:_LONGEST_GENERATED_BASE] + kube_suffix(self._rng)
        meta.pop("namespace", None)
        if kind.namespaced:
            meta["namespace"] = namespace
        if kind.status and kind.resource not in builtins.STATUS_AT_CREATION:
            new.pop("status", None)
        now = self.clock.now()
        meta["uid"] = new_uuid(self._rng)
        meta["creationTimestamp"] = rfc3339(now)
        new["apiVersion"], new["kind"] = kind.api_version, kind.kind
        new, warnings = admission.shaped(kind, new, write.validation, patching=write.patching, repeated=write.repeated)
        if not kind.custom:
            new = builtins.prepare_create(kind, new, now)
        if kind.generation:
            new["metadata"]["generation"] = 1
        admission.check_valid(kind, new)
        if not owned:
            new["metadata"]["managedFields"] = server_side.track_update(
                kind, None, new, manager=write.manager, subresource=write.subresource, now=now
            )
        return new, warnings

    async def _store_new(self, kind: Kind, new: Json, write: Write, warnings: list[str]) -> WriteOutcome:
        meta = new["metadata"]
        key = Key(kind.resource, meta.get("namespace", ""), meta["name"])
        if write.guard is not None:
            await write.guard(kind, None, new, write.subresource)
        if write.dry_run:
            if await self.store.get(key) is not None:
                raise ExistsError(f"{key} exists")
            return WriteOutcome(201, _encode(new), warnings)
        record = await _answered(self.store.create(key, admission.stored_form(kind, new)))
        return WriteOutcome(201, shown(kind, record), warnings)

    async def _check_namespace(self, kind: Kind, namespace: str, name: str) -> None:
        if not kind.namespaced:
            return
        home = await self.store.get(Key("namespaces", "", namespace))
        if home is None:
            raise ApiFailure(
                404, "NotFound", f'namespaces "{namespace}" not found', {"name": namespace, "kind": "namespaces"}
            )
        if decode(home)["metadata"].get("deletionTimestamp"):
            raise status.namespace_ends(kind, namespace, name)

    # Changing

    async def replace(self, kind: Kind, namespace: str, name: str, proposed: Json, write: Write) -> WriteOutcome:
        """PUT: the whole object, under the resourceVersion that the client read."""
        admission.check_identity(kind, namespace, name, proposed)
        if not (proposed.get("metadata") or {}).get("name"):
            raise status.bad_request("name must be provided")
        if await self.find(kind, namespace, name) is None:
            if kind.resource not in builtins.MADE_BY_PUT:
                raise status.not_found(kind, name)
            return await self._put_new(kind, namespace, proposed, write)
        admission.check_version_named(kind, name, proposed)
        return await self.change(kind, namespace, name, lambda _: copy.deepcopy(proposed), write)

    async def _put_new(self, kind: Kind, namespace: str, proposed: Json, write: Write) -> WriteOutcome:
        meta = dict(proposed.get("metadata") or {})
        if meta.get("uid"):
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: "
            raise status.conflict(kind, meta["name"], why)
        meta.pop("resourceVersion", None)  # it names a version of an object that is no more
        return await self.create(kind, namespace, {**proposed, "metadata": meta}, write)

    async def change(
        self, kind: Kind, namespace: str, name: str, propose: Callable[[Json], Json], write: Write
    ) -> WriteOutcome:
        """Read, propose, admit, swap; again on a lost swap, unless the proposal names a version that has passed."""
        for _ in range(_LOST_SWAPS_BEFORE_GIVING_UP):
            record = await self.read(kind, namespace, name)
            old = decode(record)
            proposed = propose(decode(record))  # a copy of its own: whoever proposes may change it
            admission.check_place(kind, namespace, name, proposed)
            new, warnings = self._admit_change(kind, old, proposed, write)
            outcome = await self._swap(kind, record, old, new, write, warnings)
            if outcome is not None:
                return outcome
        raise status.conflict(kind, name)

    async def apply(
        self, kind: Kind, namespace: str, name: str, applied: Json, write: Write, *, force: bool
    ) -> WriteOutcome:
        """Server-side apply: create what is not there, merge by field ownership what is."""
        admission.check_depth(applied)
        admission.check_identity(kind, namespace, name, applied)
        applied = copy.deepcopy(applied)
        applied.setdefault("metadata", {})["name"] = name
        if kind.namespaced:
            applied["metadata"]["namespace"] = namespace
        quiet = replace(write, validation="Ignore")  # apply itself refuses fields that the schema does not declare
        for _ in range(_LOST_SWAPS_BEFORE_GIVING_UP):
            record = await self.find(kind, namespace, name)
            if record is None and write.subresource:
                raise status.not_found(kind, name)
            if record is None and (uid := applied["metadata"].get("uid")):
                why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                raise status.conflict(kind, name, why)
            old = decode(record) if record is not None else None
            merged = server_side.apply(
                kind,
                old,
                applied,
                manager=write.manager,
                force=force,
                subresource=write.subresource,
                now=self.clock.now(),
            )
            if record is None or old is None:
                await self._check_namespace(kind, namespace, name)
                new, warnings = self._admit_new(kind, namespace, merged, quiet, owned=True)
                try:
                    return await self._store_new(kind, new, write, warnings)
                except ExistsError:
                    continue
            new, warnings = self._admit_change(kind, old, merged, quiet, owned=True)
            outcome = await self._swap(kind, record, old, new, write, warnings)
            if outcome is not None:
                return outcome
        raise status.conflict(kind, name)

    def _admit_change(
        self, kind: Kind, old: Json, new: Json, write: Write, *, owned: bool = False
    ) -> tuple[Json, list[str]]:
        meta, old_meta = new.get("metadata") or {}, old["metadata"]
        if meta.get("resourceVersion") and meta["resourceVersion"] != old_meta["resourceVersion"]:
            raise status.conflict(kind, old_meta["name"])
        if meta.get("uid") and meta["uid"] != old_meta["uid"]:
            if write.patching and not owned:
                cause = admission.immutable("metadata.uid", meta["uid"])
                raise status.invalid(kind, old_meta["name"], [cause])
            why = f"Precondition failed: UID in precondition: {meta['uid']}, UID in object meta: {old_meta['uid']}"
            raise status.conflict(kind, old_meta["name"], why)
        new = admission.restore_system_fields(kind, old, new, write.subresource)
        new, warnings = admission.shaped(kind, new, write.validation, patching=write.patching, repeated=write.repeated)
        if not kind.custom:
            new = builtins.prepare_update(kind, old, new, write.subresource)
        admission.check_valid(kind, new, old, write.subresource)
        if kind.generation and admission.desired(kind, old) != admission.desired(kind, new):
            new["metadata"]["generation"] = int(old_meta.get("generation") or 0) + 1
        if not owned:
            managed = server_side.track_update(
                kind, old, new, manager=write.manager, subresource=write.subresource, now=self.clock.now()
            )
            new["metadata"].pop("managedFields", None)
            if managed:
                new["metadata"]["managedFields"] = managed
        return new, warnings

    async def _swap(
        self, kind: Kind, record: Record, old: Json, new: Json, write: Write, warnings: list[str]
    ) -> WriteOutcome | None:
        """Store `new` in place of `record`; None when another client was quicker."""
        if write.guard is not None:
            await write.guard(kind, old, new, write.subresource)
        if admission.same(old, new):
            return WriteOutcome(200, shown(kind, record), warnings)
        if write.dry_run:
            return WriteOutcome(200, _encode(new), warnings)
        try:
            if ended(kind, new):
                await _answered(self.store.delete(record.key, record.revision))
                return WriteOutcome(200, _encode(new), warnings)
            update = self.store.update(record.key, admission.stored_form(kind, new), record.revision)
            return WriteOutcome(200, shown(kind, await _answered(update)), warnings)
        except (RevisionMismatchError, MissingError):
            return None

    # Deleting

    async def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> WriteOutcome:
        """Remove an object, or mark it for those whose finalizers (or whose grace period) come first."""
        for _ in range(_LOST_SWAPS_BEFORE_GIVING_UP):
            record = await self.read(kind, namespace, name)
            old = decode(record)
            meta: Json = old["metadata"]
            if options.uid and options.uid != meta["uid"]:
                raise status.precondition_failed(kind, name, "UID", options.uid, meta["uid"])
            if options.resource_version and options.resource_version != meta["resourceVersion"]:
                raise status.precondition_failed(
                    kind, name, "ResourceVersion", options.resource_version, meta["resourceVersion"]
                )
            if options.guard is not None:
                await options.guard(kind, old, old, "")
            marked = marked_for_deletion(kind, old, options, self.clock.now())
            try:
                if marked is None:
                    return await self._remove(kind, record, meta["uid"], options)
                if marked == old or options.dry_run:
                    return WriteOutcome(200, _encode({**marked, "apiVersion": kind.api_version}))
                stored = await _answered(self.store.update(record.key, marked, record.revision))
                return WriteOutcome(200, shown(kind, stored))
            except (RevisionMismatchError, MissingError):
                continue
        raise status.conflict(kind, name)

    async def _remove(self, kind: Kind, record: Record, uid: str, options: DeleteOptions) -> WriteOutcome:
        if not options.dry_run:
            await _answered(self.store.delete(record.key, record.revision))
        if kind.resource in ("pods", "namespaces"):
            return WriteOutcome(200, shown(kind, record))
        return WriteOutcome(200, _encode(status.success(kind, record.key.name, uid)))


async def _answered(operation: Awaitable[Record]) -> Record:
    try:
        return await operation
    except StoreUnavailableError as error:
        raise status.unavailable(f"the store does not answer: {error}") from error
