"""What a DELETE means for an object: gone at once, or marked and waiting for finalizers or a grace period. Pure."""

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from paddock.base.clock import rfc3339
from paddock.embedded.api.kinds import Kind

__all__ = ["CLEANUP", "FOREGROUND", "ORPHAN", "DeleteOptions", "ended", "marked_for_deletion"]

Json = dict[str, Any]

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""Holds a definition until the last object of its kind is gone."""
_DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """What a DELETE asks for beyond the name."""

    propagation: str = "Background"
    grace: int | None = None
    uid: str = ""
    resource_version: str = ""
    dry_run: bool = False
    guard: Callable[[Kind, Json | None, Json, str], Awaitable[None]] | None = None
    """Asked with the object that is about to go; it raises to refuse."""


def marked_for_deletion(kind: Kind, old: Json, options: DeleteOptions, now: datetime) -> Json | None:
    """The object as it waits for its end, or None when nothing has to be waited for."""
    new = copy.deepcopy(old)
    meta: Json = new["metadata"]
    first = not meta.get("deletionTimestamp")
    finalizers = _finalizers(meta, options, first=first)
    if first and kind.resource == "customresourcedefinitions.apiextensions.k8s.io":
        finalizers = [*(f for f in finalizers if f != CLEANUP), CLEANUP]
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    grace = _grace(kind, new, options)
    if not _held(kind, new) and grace == 0:
        return None
    if first:
        meta["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
        if kind.generation:
            meta["generation"] = int(meta.get("generation") or 0) + 1
        if kind.resource == "namespaces":
            new["status"] = {**(new.get("status") or {}), "phase": "Terminating"}
    elif grace < int(meta.get("deletionGracePeriodSeconds") or 0):
        meta["deletionTimestamp"] = rfc3339(now + timedelta(seconds=grace))
        meta["deletionGracePeriodSeconds"] = grace
    return new


def ended(kind: Kind, obj: Json) -> bool:
    """Whether a marked object has nothing left to wait for."""
    meta = obj["metadata"]
    return bool(meta.get("deletionTimestamp")) and not _held(kind, obj) and not meta.get("deletionGracePeriodSeconds")


def _held(kind: Kind, obj: Json) -> bool:
    if obj["metadata"].get("finalizers"):
        return True
    return kind.resource == "namespaces" and bool((obj.get("spec") or {}).get("finalizers"))


def _finalizers(meta: Json, options: DeleteOptions, *, first: bool) -> list[str]:
    plain = [f for f in meta.get("finalizers") or () if f not in (FOREGROUND, ORPHAN)]
    match options.propagation:
        case "Foreground":
            return [*plain, FOREGROUND]
        case "Orphan":
            return [*plain, ORPHAN]
        case _:
            # A repeated plain DELETE does not undo an earlier, stricter one.
            return plain if first else list(meta.get("finalizers") or ())


def _grace(kind: Kind, obj: Json, options: DeleteOptions) -> int:
    """How long a Pod may take to stop; nothing else has a grace period, nor has a Pod that runs nowhere."""
    if kind.resource != "pods":
        return 0
    spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
    if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
        return 0
    if options.grace is not None:
        return max(0, options.grace)
    earlier = obj["metadata"].get("deletionGracePeriodSeconds")
    return int(earlier if earlier is not None else spec.get("terminationGracePeriodSeconds", _DEFAULT_GRACE))
