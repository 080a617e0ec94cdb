"""Server-side apply and field ownership: who wrote which field, and what follows when two disagree.

Every write other than an apply goes through `track_update`, an apply through `apply`; both return what belongs in
`metadata.managedFields`. Nothing here reads a clock: `now` is the time to record.

Never owned: apiVersion, kind, and the parts of metadata that the server sets. Fields that a write cannot change are not
counted: `status` through the main resource of a kind with a status subresource, all but `status` through /status.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.embedded.api.fields import EMPTY, FieldsError, PathSet, element_text
from paddock.embedded.api.gotext import go_json, quoted
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.shapes import Shape, shape_of
from paddock.embedded.api.status import ApiFailure, Cause, bad_request
from paddock.embedded.api.typed import changes, declared, ensure_named, merged, misfits, removed

__all__ = ["LAST_APPLIED", "apply", "manager_from", "track_update"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_UPDATE_MANAGERS: Final = 10
MAX_MANAGER_LENGTH: Final = 128
MAX_ANNOTATIONS: Final = 256 * 1024
_NEVER_OWNED: Final = frozenset(
    {
        "clusterName",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_STRIPPED: Final = PathSet.of(
    [["f:apiVersion"], ["f:kind"], ["f:metadata"], *(["f:metadata", "f:" + name] for name in _NEVER_OWNED)]
)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One manager's record. `stored` is the entry as it stands in the object while nothing about it changed."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str | None
    fields: PathSet
    stored: dict[str, Any] | None = None

    @property
    def identity(self) -> tuple[str, str, str, str]:
        # One apply entry for a manager, whatever version it applied in; one update entry for each version.
        version = "" if self.operation == "Apply" else self.api_version
        return (self.manager, self.operation, version, self.subresource)

    @property
    def sort_text(self) -> str:
        """The identity as the server writes it; conflicts are reported in the order of these texts."""
        body = {"manager": self.manager, "operation": self.operation}
        if self.operation == "Update":
            body["apiVersion"] = self.api_version
        if self.subresource:
            body["subresource"] = self.subresource
        return json.dumps(body, separators=(",", ":"))

    def owning(self, fields: PathSet) -> "_Entry":
        return self if fields is self.fields else replace(self, fields=fields, stored=None)

    def as_json(self) -> dict[str, Any]:
        if self.stored is not None:
            return self.stored
        entry: dict[str, Any] = {"manager": self.manager, "operation": self.operation, "apiVersion": self.api_version}
        if self.time is not None:
            entry["time"] = self.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = self.fields.as_fields()
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry

    def named(self) -> str:
        """The manager as a conflict names it."""
        text = quoted(self.manager)
        if self.subresource:
            text += f" with subresource {quoted(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


_Managers = dict[tuple[str, str, str, str], _Entry]


def manager_from(field_manager: str | None, user_agent: str | None) -> str:
    """The name a write is recorded under: the given field manager, else the User-Agent up to its first slash."""
    if field_manager:
        return field_manager
    name = "".join(c for c in (user_agent or "").split("/", 1)[0] if c.isprintable())
    while len(name.encode()) > MAX_MANAGER_LENGTH:
        name = name[:-1]
    return name or "unknown"


# ------------------------------------------------------------------ managedFields


def _stored_entries(entries: Any) -> _Managers:
    """Entries that this module wrote: taken as they are."""
    managers: _Managers = {}
    for entry in entries or ():
        record = _Entry(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            api_version=entry["apiVersion"],
            subresource=entry.get("subresource", ""),
            time=entry.get("time"),
            fields=PathSet(entry.get("fieldsV1") or {}),
            stored=entry,
        )
        managers[record.identity] = record
    return managers


def _sent_entries(entries: Any) -> _Managers | None:
    """Entries that a client sent, or None if they cannot be used."""
    managers: _Managers = {}
    for entry in entries or ():
        if not isinstance(entry, Mapping) or entry.get("operation") not in {"Apply", "Update"}:
            return None
        if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
            return None
        try:
            fields = PathSet.parse(entry.get("fieldsV1") or {})
        except FieldsError:
            return None
        record = _Entry(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            api_version=entry["apiVersion"],
            subresource=entry.get("subresource", ""),
            time=entry.get("time"),
            fields=fields,
        )
        managers[record.identity] = record
    return managers or None


def _encoded(managers: _Managers) -> list[dict[str, Any]]:
    def order(entry: _Entry) -> tuple[str, str, str, str, str]:
        return (entry.operation, entry.time or "", entry.manager, entry.api_version, entry.subresource)

    return [entry.as_json() for entry in sorted(managers.values(), key=order)]


def _capped(managers: _Managers) -> _Managers:
    """At most ten update entries: the oldest of each version are joined under one name."""
    updates = [entry for entry in managers.values() if entry.operation == "Update"]
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    updates.sort(key=lambda entry: (entry.time or "", entry.sort_text))
    kept = dict(managers)
    first: dict[str, _Entry] = {}
    for entry in updates:
        if excess <= 0:
            break
        oldest = first.setdefault(entry.api_version, entry)
        if oldest is entry:
            continue
        bucket = _Entry("ancient-changes", "Update", entry.api_version, "", entry.time, EMPTY)
        before = kept.get(bucket.identity)
        if before is None:
            del kept[oldest.identity]
            before = oldest
        if entry.identity != bucket.identity:
            kept.pop(entry.identity, None)
        kept[bucket.identity] = replace(bucket, fields=entry.fields.union(before.fields))
        excess -= 1
    return kept


def _not_counted(kind: Kind, subresource: str) -> Callable[[str, str], bool]:
    """Which fields a write through this path cannot change, so that they are neither compared nor owned."""
    if subresource == "status":
        skipped = frozenset({"metadata", "spec"}) if kind.custom else frozenset({"spec"})
    else:
        skipped = frozenset({"status"}) if kind.status else frozenset[str]()

    def ignore(parent: str, name: str) -> bool:
        if parent:
            return name in _NEVER_OWNED
        return name in skipped or name in {"apiVersion", "kind"}

    return ignore


def _reset(kind: Kind, subresource: str) -> PathSet:
    ignore = _not_counted(kind, subresource)
    return PathSet.of([["f:" + name] for name in ("metadata", "spec", "status") if ignore("", name)])


def _metadata(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    metadata = (obj or {}).get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def _blank(kind: Kind, new: Mapping[str, Any]) -> dict[str, Any]:
    """What an object is compared with when it is created.

    The parts of a built-in that its Go type always has are there from the start, so nobody comes to own them as such.
    """
    if kind.custom:
        return {}
    blank: dict[str, Any] = {name: {} for name in ("spec", "status") if isinstance(new.get(name), dict)}
    if kind.kind == "Pod" and "spec" in blank:
        blank["spec"] = {"containers": None}
    return blank


def track_update(
    kind: Kind,
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    subresource: str = "",
    now: datetime,
) -> list[dict[str, Any]]:
    """The managedFields of `new` after a write that is not an apply; `old` is None for a create.

    The manager owns what it changed or added, others lose what it changed, and nobody owns what is gone. A write that
    changes nothing keeps every entry as it was. `new` is the object as it will be stored, defaults included. Entries
    that `new` brings along replace the stored ones (except through a subresource); an empty list sent on purpose clears
    them, and they stay clear until the next apply. Entries that did not change are the very dicts of `old`.
    """
    stored = _metadata(old).get("managedFields") or []
    managers: _Managers | None = None
    if not subresource and "managedFields" in _metadata(new):
        sent = _metadata(new)["managedFields"]
        if sent is not None and (not sent or sent == [{}]):
            managers = {}
        elif sent and sent != stored:
            managers = _sent_entries(sent)
    if managers is None:
        managers = _stored_entries(stored)
    if not managers and old is not None and _metadata(old).get("uid"):
        return []
    before = old if old is not None else _blank(kind, new)
    return _encoded(_capped(_updated(kind, managers, before, new, manager, subresource, rfc3339(now))))


def _updated(
    kind: Kind,
    managers: _Managers,
    old: dict[str, Any],
    new: dict[str, Any],
    manager: str,
    subresource: str,
    now: str,
) -> _Managers:
    difference = changes(shape_of(kind), old, new, ignore=_not_counted(kind, subresource))
    if not difference:
        return managers
    written = difference.written()
    gone = written.union(difference.removed)
    rest: _Managers = {}
    for identity, entry in managers.items():
        fields = entry.fields.difference(gone)
        if fields:
            rest[identity] = entry.owning(fields)
    if written:
        mine = _Entry(manager or "unknown", "Update", kind.api_version, subresource, now, written)
        before = rest.get(mine.identity)
        rest[mine.identity] = mine if before is None else replace(mine, fields=written.union(before.fields))
    return rest


# -------------------------------------------------------------------------- apply


def apply(
    kind: Kind,
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    *,
    manager: str,
    force: bool = False,
    subresource: str = "",
    now: datetime,
) -> dict[str, Any]:
    """The live object (None: it is created) after a server-side apply, managedFields included.

    What is applied wins over what is there; what this manager applied before and has now left out goes, unless somebody
    else owns it. A value that differs from another manager's raises 409 with one cause for each field, unless `force`.
    The caller's duty: prune and default the result (a removed field gets its default back), reset what this path may
    not change, validate, and on a create set what the server sets. The result, its metadata included, may be changed;
    what is below may be shared with the inputs.
    """
    _refuse_unusable(kind, applied, manager)
    shape = shape_of(kind)
    reasons = misfits(shape, applied)
    if reasons:
        text = reasons[0] if len(reasons) == 1 else "\n".join(["errors:", *("  " + reason for reason in reasons)])
        raise ApiFailure(500, "", f"failed to create typed patch object ({_described(kind, applied)}): {text}")
    current = live if live is not None else {"apiVersion": kind.api_version, "kind": kind.kind}
    managers = _stored_entries(_metadata(current).get("managedFields"))
    if not managers and live is not None:
        managers = _updated(kind, {}, _blank(kind, live), live, "before-first-apply", subresource, rfc3339(now))
    run = _Apply(kind, shape, current, applied, manager, subresource, rfc3339(now))
    conflicts = run.conflicts(managers)
    if conflicts and not force and manager == "kubectl":
        conflicts = _beyond_last_applied(kind, shape, current, conflicts)
    if conflicts and not force:
        raise _conflict(conflicts)
    result = dict(run.object(managers))
    metadata = result["metadata"] = dict(_metadata(result))
    entries = _encoded(run.managers(managers))
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)
    if manager == "kubectl" and (metadata.get("annotations") or {}).get(LAST_APPLIED):
        metadata["annotations"] = _with_last_applied(metadata["annotations"], applied)
    return result


def _refuse_unusable(kind: Kind, applied: dict[str, Any], manager: str) -> None:
    if not manager:
        cause = Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
        raise ApiFailure(
            422,
            "Invalid",
            f'PatchOptions.meta.k8s.io "" is invalid: {cause.field}: {cause.message}',
            {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [cause.as_json()]},
        )
    if applied.get("apiVersion") != kind.api_version:
        raise bad_request(
            "Incorrect version specified in apply patch. Specified patch version: "
            f"{applied.get('apiVersion', '')}, expected: {kind.api_version}"
        )
    if _metadata(applied).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _described(kind: Kind, obj: dict[str, Any]) -> str:
    metadata = _metadata(obj)
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return f"{where}; {kind.group}/{kind.version}, Kind={obj.get('kind', '')}"


class _Apply:
    """One apply: the merged object and what follows from it for every manager."""

    def __init__(
        self,
        kind: Kind,
        shape: Shape,
        live: dict[str, Any],
        applied: dict[str, Any],
        manager: str,
        subresource: str,
        now: str,
    ) -> None:
        self._shape = shape
        self._live = live
        self._ignore = _not_counted(kind, subresource)
        self._merged: dict[str, Any] = merged(shape, live, applied)
        fields = declared(shape, applied).without_branches(_reset(kind, subresource))
        self._mine = _Entry(manager, "Apply", kind.api_version, subresource, None, fields)
        self._now = now
        self._result: dict[str, Any] | None = None

    def object(self, managers: _Managers) -> dict[str, Any]:
        """The merged object without what this manager has given up and nobody else owns."""
        if self._result is None:
            before = managers.get(self._mine.identity)
            given_up = before is not None and bool(before.fields)
            self._result = self._pruned(managers, before.fields) if given_up and before else self._merged
        return self._result

    def _pruned(self, managers: _Managers, last: PathSet) -> dict[str, Any]:
        shape, whole = self._shape, self._merged
        last = ensure_named(shape, last)
        owned = self._mine.fields
        for identity, entry in managers.items():
            if identity != self._mine.identity:
                owned = owned.union(entry.fields)
        everything = ensure_named(shape, declared(shape, whole))

        def remaining(value: Any) -> PathSet:
            return ensure_named(shape, declared(shape, value)) if value is not None else EMPTY

        kept = remaining(removed(shape, whole, last)).union(ensure_named(shape, owned))
        # What lives inside a removed item without being anybody's goes with it; all else that was not ours stays.
        without_orphans = removed(shape, whole, everything.difference(kept))
        doomed = everything.difference(remaining(without_orphans)).intersection(last)
        return removed(shape, whole, doomed) or {}

    def _changes(self, managers: _Managers) -> tuple[PathSet, PathSet]:
        difference = changes(self._shape, self._live, self.object(managers), ignore=self._ignore)
        return difference.written(), difference.removed

    def conflicts(self, managers: _Managers) -> list[tuple[_Entry, PathSet]]:
        """The other managers whose fields would get another value, and those fields."""
        written, _ = self._changes(managers)
        found = [
            (entry, entry.fields.intersection(written))
            for identity, entry in managers.items()
            if identity != self._mine.identity
        ]
        return sorted(((e, fields) for e, fields in found if fields), key=lambda pair: pair[0].sort_text)

    def managers(self, managers: _Managers) -> _Managers:
        """Everybody's fields after the apply went through."""
        written, gone = self._changes(managers)
        lost = written.union(gone)
        rest: _Managers = {}
        for identity, entry in managers.items():
            if identity != self._mine.identity and (fields := entry.fields.difference(lost)):
                rest[identity] = entry.owning(fields)
        fields = self._mine.fields.difference(_STRIPPED)
        if fields:
            rest[self._mine.identity] = self._recorded(managers, fields)
        return rest

    def _recorded(self, managers: _Managers, fields: PathSet) -> _Entry:
        before = managers.get(self._mine.identity)
        unchanged = self.object(managers) == self._live
        if (
            before is not None
            and unchanged
            and before.fields == fields
            and before.api_version == self._mine.api_version
        ):
            return before
        # An apply that changes nothing in the object records no time of its own.
        time = (before.time if before is not None else None) if unchanged else self._now
        return replace(self._mine, fields=fields, time=time)


def _conflict(conflicts: Sequence[tuple[_Entry, PathSet]]) -> ApiFailure:
    listed = [(entry, "".join(map(element_text, path))) for entry, fields in conflicts for path in fields.paths()]
    causes = [Cause("FieldManagerConflict", f"conflict with {entry.named()}", path).as_json() for entry, path in listed]
    if len(listed) == 1:
        entry, path = listed[0]
        message = f"Apply failed with 1 conflict: conflict with {entry.named()}: {path}"
    else:
        lines: list[str] = []
        for entry, fields in conflicts:
            lines.append(f"conflicts with {entry.named()}:")
            lines.extend("- " + "".join(map(element_text, path)) for path in fields.paths())
        message = f"Apply failed with {len(listed)} conflicts: " + "\n".join(lines)
    return ApiFailure(409, "Conflict", message, {"causes": causes})


# ------------------------------------------- the annotation of client-side apply


def _beyond_last_applied(
    kind: Kind, shape: Shape, live: dict[str, Any], conflicts: list[tuple[_Entry, PathSet]]
) -> list[tuple[_Entry, PathSet]]:
    """The conflicts that remain when kubectl moves from client-side to server-side apply.

    What the annotation says kubectl applied, and still is so, was kubectl's all along.
    """
    text = (_metadata(live).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else None
    except ValueError:
        last = None
    if not isinstance(last, dict) or last.get("apiVersion") != kind.api_version or misfits(shape, last):
        return conflicts
    difference = changes(shape, last, live, ignore=lambda _parent, _name: False)
    allowed = declared(shape, last).difference(difference.written()).difference(difference.removed)
    if all(not fields.difference(allowed) for _, fields in conflicts):
        return []
    beyond = [(entry, fields.difference(allowed)) for entry, fields in conflicts]
    return [(entry, fields) for entry, fields in beyond if fields]


def _with_last_applied(annotations: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    """The annotations with the configuration just applied, or without it when they would grow too large."""
    config = dict(applied)
    if "metadata" in config:
        config["metadata"] = dict(config["metadata"])
        own = {k: v for k, v in (config["metadata"].get("annotations") or {}).items() if k != LAST_APPLIED}
        if own or "annotations" in config["metadata"]:
            config["metadata"]["annotations"] = own
    updated = {**annotations, LAST_APPLIED: go_json(config) + "\n"}
    if sum(len(k.encode()) + len(str(v).encode()) for k, v in updated.items()) > MAX_ANNOTATIONS:
        del updated[LAST_APPLIED]
    return updated
