"""Server-side apply: one manager states what it wants, and whoever wants something else is told.

Every write other than an apply goes through `track_update`, an apply through `apply`; both return what belongs in
`metadata.managedFields`. Nothing here reads a clock: `now` is the time to record.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.embedded.api.builtin import schemas as builtin_schemas
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.managed_fields.comparison import changes
from paddock.embedded.api.managed_fields.fields import EMPTY, PathSet, element_text
from paddock.embedded.api.managed_fields.owners import (
    STRIPPED,
    Entry,
    Managers,
    blank,
    encoded,
    manager_from,
    metadata_of,
    not_counted,
    reset_by,
    stored_entries,
    track_update,
    updated,
)
from paddock.embedded.api.managed_fields.schema import Shape, shape_of
from paddock.embedded.api.managed_fields.typed import declared, ensure_named, merged, removed
from paddock.embedded.api.managed_fields.violations import violations
from paddock.embedded.api.status import ApiFailure, Cause, bad_request
from paddock.embedded.api.validation.gotext import go_json

__all__ = ["LAST_APPLIED", "apply", "manager_from", "track_update"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
MAX_ANNOTATIONS: Final = 256 * 1024


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

    What is applied wins over what is there; what this manager applied before and has now left out goes, unless another
    manager owns it. A value that differs from another manager's raises 409 with one cause for each field, unless `force`.
    The caller's duty: prune and default the result (a removed field gets its default back), reset what this path may
    not change, validate, and on a create set what the server sets. The result, its metadata included, may be changed;
    what is below may be shared with the inputs.
    """
    _refuse_unusable(kind, applied, manager)
    shape = shape_of(kind)
    reasons = violations(shape, applied)
    if not kind.custom:
        unknown = builtin_schemas.prune(kind.group, kind.kind, applied)[1]
        reasons += [f".{path}: field not declared in schema" for path in unknown]
    if reasons:
        text = reasons[0] if len(reasons) == 1 else "\n".join(["errors:", *("  " + reason for reason in reasons)])
        raise ApiFailure(500, "", f"failed to create typed patch object ({_described(kind, applied)}): {text}")
    current = live if live is not None else {"apiVersion": kind.api_version, "kind": kind.kind}
    managers = stored_entries(metadata_of(current).get("managedFields"))
    if not managers and live is not None:
        managers = updated(kind, {}, blank(kind, live), live, "before-first-apply", subresource, rfc3339(now))
    run = _Apply(kind, shape, current, applied, manager, subresource, rfc3339(now))
    conflicts = run.conflicts(managers)
    if conflicts and not force and manager == "kubectl":
        conflicts = _beyond_last_applied(kind, shape, current, conflicts)
    if conflicts and not force:
        raise _conflict(conflicts)
    result = dict(run.object(managers))
    metadata = result["metadata"] = dict(metadata_of(result))
    entries = encoded(run.managers(managers))
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
    if applied.get("apiVersion") != kind.api_version or applied.get("kind") != kind.kind:
        version = applied.get("apiVersion") or ""
        named = version if "/" in version else "/" + version
        raise bad_request(f"invalid object type: {named}, Kind={applied.get('kind') or ''}")
    if metadata_of(applied).get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def _described(kind: Kind, obj: dict[str, Any]) -> str:
    metadata = metadata_of(obj)
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    return f"{where}; {kind.group}/{kind.version}, Kind={obj.get('kind', '')}"


class _Apply:
    """One apply: the merged object and what follows from it for every manager.

    The managers passed to its methods are those of the live object, the same each time.
    """

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
        self._ignore = not_counted(kind, subresource)
        self._merged: dict[str, Any] = merged(shape, live, applied)
        fields = declared(shape, applied).without_branches(reset_by(kind, subresource))
        self._mine = Entry(manager, "Apply", kind.api_version, subresource, None, fields)
        self._now = now
        self._result: dict[str, Any] | None = None
        self._changed: tuple[PathSet, PathSet] | None = None

    def object(self, managers: Managers) -> dict[str, Any]:
        """The merged object without what this manager has given up and no other manager owns."""
        if self._result is None:
            before = managers.get(self._mine.identity)
            # What is applied again stays, and all that it is in: only fields that were left out can take anything away.
            given_up = before is not None and before.fields.difference(self._mine.fields)
            self._result = self._pruned(managers, before.fields) if before and given_up else self._merged
        return self._result

    def _pruned(self, managers: Managers, last: PathSet) -> dict[str, Any]:
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

    def _changes(self, managers: Managers) -> tuple[PathSet, PathSet]:
        if self._changed is None:
            difference = changes(self._shape, self._live, self.object(managers), ignore=self._ignore)
            self._changed = (difference.written(), difference.removed)
        return self._changed

    def conflicts(self, managers: Managers) -> list[tuple[Entry, PathSet]]:
        """The other managers whose fields would get another value, and those fields."""
        written, _ = self._changes(managers)
        found = [
            (entry, entry.fields.intersection(written))
            for identity, entry in managers.items()
            if identity != self._mine.identity
        ]
        return sorted(((e, fields) for e, fields in found if fields), key=lambda pair: pair[0].sort_text)

    def managers(self, managers: Managers) -> Managers:
        """Everybody's fields after the apply went through."""
        written, gone = self._changes(managers)
        lost = written.union(gone)
        rest: Managers = {}
        for identity, entry in managers.items():
            if identity != self._mine.identity and (fields := entry.fields.difference(lost)):
                rest[identity] = entry.owning(fields)
        fields = self._mine.fields.difference(STRIPPED)
        if fields:
            rest[self._mine.identity] = self._recorded(managers, fields)
        return rest

    def _recorded(self, managers: Managers, fields: PathSet) -> Entry:
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


def _conflict(conflicts: Sequence[tuple[Entry, PathSet]]) -> ApiFailure:
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


def _beyond_last_applied(
    kind: Kind, shape: Shape, live: dict[str, Any], conflicts: list[tuple[Entry, PathSet]]
) -> list[tuple[Entry, PathSet]]:
    """The conflicts that remain when kubectl moves from client-side to server-side apply.

    What the annotation says kubectl applied, and still is so, was kubectl's all along.
    """
    text = (metadata_of(live).get("annotations") or {}).get(LAST_APPLIED)
    try:
        last = json.loads(text) if text else None
    except ValueError:
        last = None
    if not isinstance(last, dict) or last.get("apiVersion") != kind.api_version or violations(shape, last):
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
