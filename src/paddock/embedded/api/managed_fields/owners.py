"""Who owns which field: the entries of `metadata.managedFields`, and how an ordinary write changes them.

Never owned: apiVersion, kind, and the parts of metadata that the server sets. Fields that a write cannot change are not
counted: `status` through the main resource of a kind with a status subresource, all but `status` through /status.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.managed_fields.comparison import changes
from paddock.embedded.api.managed_fields.fields import EMPTY, FieldsError, PathSet
from paddock.embedded.api.managed_fields.schema import shape_of
from paddock.embedded.api.validation.gotext import quoted

__all__ = [
    "STRIPPED",
    "Entry",
    "Managers",
    "blank",
    "encoded",
    "manager_from",
    "metadata_of",
    "not_counted",
    "reset_by",
    "stored_entries",
    "track_update",
    "updated",
]

MAX_UPDATE_MANAGERS: Final = 10
MAX_MANAGER_LENGTH: Final = 128
NEVER_OWNED: Final = frozenset(
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
STRIPPED: Final = PathSet.of(
    [["f:apiVersion"], ["f:kind"], ["f:metadata"], *(["f:metadata", "f:" + name] for name in NEVER_OWNED)]
)


@dataclass(frozen=True, slots=True)
class Entry:
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

    def owning(self, fields: PathSet) -> "Entry":
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


Managers = dict[tuple[str, str, str, str], Entry]


def manager_from(field_manager: str | None, user_agent: str | None) -> str:
    """The name a write is recorded under: the given field manager, else the User-Agent up to its first slash."""
    if field_manager:
        return field_manager
    name = "".join(c for c in (user_agent or "").split("/", 1)[0] if c.isprintable())
    while len(name.encode()) > MAX_MANAGER_LENGTH:
        name = name[:-1]
    return name or "unknown"


def stored_entries(entries: Any) -> Managers:
    """Entries that this module wrote: taken as they are."""
    managers: Managers = {}
    for entry in entries or ():
        record = Entry(
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


def _sent_entries(entries: Any) -> Managers | None:
    """Entries that a client sent, or None if they cannot be used."""
    managers: Managers = {}
    for entry in entries or ():
        if not isinstance(entry, Mapping) or entry.get("operation") not in {"Apply", "Update"}:
            return None
        if not entry.get("apiVersion") or entry.get("fieldsType") != "FieldsV1":
            return None
        try:
            fields = PathSet.parse(entry.get("fieldsV1") or {})
        except FieldsError:
            return None
        record = Entry(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            api_version=entry["apiVersion"],
            subresource=entry.get("subresource", ""),
            time=entry.get("time"),
            fields=fields,
        )
        managers[record.identity] = record
    return managers or None


def encoded(managers: Managers) -> list[dict[str, Any]]:
    def order(entry: Entry) -> tuple[str, str, str, str, str]:
        return (entry.operation, entry.time or "", entry.manager, entry.api_version, entry.subresource)

    return [entry.as_json() for entry in sorted(managers.values(), key=order)]


def _capped(managers: Managers) -> Managers:
    """At most ten update entries: the oldest of each version are joined under one name."""
    updates = [entry for entry in managers.values() if entry.operation == "Update"]
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return managers
    updates.sort(key=lambda entry: (entry.time or "", entry.sort_text))
    kept = dict(managers)
    first: dict[str, Entry] = {}
    for entry in updates:
        if excess <= 0:
            break
        oldest = first.setdefault(entry.api_version, entry)
        if oldest is entry:
            continue
        bucket = Entry("ancient-changes", "Update", entry.api_version, "", entry.time, EMPTY)
        before = kept.get(bucket.identity)
        if before is None:
            del kept[oldest.identity]
            before = oldest
        if entry.identity != bucket.identity:
            kept.pop(entry.identity, None)
        kept[bucket.identity] = replace(bucket, fields=entry.fields.union(before.fields))
        excess -= 1
    return kept


def not_counted(kind: Kind, subresource: str) -> Callable[[str, str], bool]:
    """Which fields a write through this path cannot change, so that they are neither compared nor owned."""
    if subresource == "status":
        skipped = frozenset({"metadata", "spec"}) if kind.custom else frozenset({"spec"})
    else:
        skipped = frozenset({"status"}) if kind.status else frozenset[str]()

    def ignore(parent: str, name: str) -> bool:
        if parent:
            return name in NEVER_OWNED
        return name in skipped or name in {"apiVersion", "kind"}

    return ignore


def reset_by(kind: Kind, subresource: str) -> PathSet:
    ignore = not_counted(kind, subresource)
    return PathSet.of([["f:" + name] for name in ("metadata", "spec", "status") if ignore("", name)])


def metadata_of(obj: Mapping[str, Any] | None) -> Mapping[str, Any]:
    metadata = (obj or {}).get("metadata")
    return metadata if isinstance(metadata, Mapping) else {}


def blank(kind: Kind, new: Mapping[str, Any]) -> dict[str, Any]:
    """What an object is compared with when it is created.

    The parts of a built-in that its Go type always has are there from the start, so no manager comes to own them as such.
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

    The manager owns what it changed or added, others lose what it changed, and no manager owns what is gone. A write that
    changes nothing keeps every entry as it was. `new` is the object as it will be stored, defaults included. Entries
    that `new` brings along replace the stored ones (except through a subresource); an empty list sent on purpose clears
    them, and they stay clear until the next apply. Entries that did not change are the very dicts of `old`.
    """
    stored = metadata_of(old).get("managedFields") or []
    managers: Managers | None = None
    if not subresource and "managedFields" in metadata_of(new):
        sent = metadata_of(new)["managedFields"]
        if sent is not None and (not sent or sent == [{}]):
            managers = {}
        elif sent and sent != stored:
            managers = _sent_entries(sent)
    if managers is None:
        managers = stored_entries(stored)
    if not managers and old is not None and metadata_of(old).get("uid"):
        return []
    before = old if old is not None else blank(kind, new)
    return encoded(_capped(updated(kind, managers, before, new, manager, subresource, rfc3339(now))))


def updated(
    kind: Kind,
    managers: Managers,
    old: dict[str, Any],
    new: dict[str, Any],
    manager: str,
    subresource: str,
    now: str,
) -> Managers:
    difference = changes(shape_of(kind), old, new, ignore=not_counted(kind, subresource))
    if not difference:
        return managers
    written = difference.written()
    gone = written.union(difference.removed)
    rest: Managers = {}
    for identity, entry in managers.items():
        fields = entry.fields.difference(gone)
        if fields:
            rest[identity] = entry.owning(fields)
    if written:
        mine = Entry(manager or "unknown", "Update", kind.api_version, subresource, now, written)
        before = rest.get(mine.identity)
        rest[mine.identity] = mine if before is None else replace(mine, fields=written.union(before.fields))
    return rest
