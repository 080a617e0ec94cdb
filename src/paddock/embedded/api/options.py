"""What a mutating request asks of the server itself: whether to try only, how strictly, in whose name, and how to delete."""

from dataclasses import replace
from typing import Any

from paddock.embedded.api import status
from paddock.embedded.api.calls import ApiCall, decode_body
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.duplicate_keys import repeated_fields
from paddock.embedded.api.objects import Write
from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.causes import forbidden, missing, unsupported

__all__ = ["delete_options", "delete_options_from", "write_of"]

Json = dict[str, Any]

_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Foreground", "Background", "Orphan")


def write_of(call: ApiCall, subresource: str = "", *, patching: bool = False, applying: bool = False) -> Write:
    """How the write is meant; 422 names every parameter that is wrong."""
    query = call.query
    validation, dry_run = query.get("fieldValidation", ""), query.get("dryRun", "")
    causes: list[Cause] = []
    if applying and not query.get("fieldManager"):
        causes.append(missing("fieldManager", "is required for apply patch"))
    if patching and not applying and "force" in query:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    causes += _dry_run_causes([dry_run] if dry_run else [])
    if validation not in _VALIDATIONS:
        causes.append(unsupported("fieldValidation", validation, _VALIDATIONS))
    if causes:
        raise status.invalid_options(_KINDS[call.method], causes)
    manager = query.get("fieldManager") or call.headers.get("user-agent", "").split("/")[0] or "unknown"
    repeated: tuple[str, ...] = ()
    if validation != "Ignore" and not patching and call.content_type in ("", "application/json"):
        repeated = repeated_fields(call.body)
    return Write(manager, validation or "Warn", bool(dry_run), subresource, patching, repeated, call.guard)


def delete_options(call: ApiCall) -> DeleteOptions:
    """From the body, or from the query where that says more."""
    body = decode_body(call) if call.body else {}
    named: Json = {key: call.query[key] for key in ("propagationPolicy", "gracePeriodSeconds") if call.query.get(key)}
    if call.query.get("dryRun"):
        named["dryRun"] = [call.query["dryRun"]]
    return replace(delete_options_from({**body, **named}), guard=call.guard)


def delete_options_from(body: Json) -> DeleteOptions:
    """The DeleteOptions that a body holds; 422 names everything that is wrong with them."""
    conditions = body.get("preconditions") or {}
    grace, dry_run = body.get("gracePeriodSeconds"), body.get("dryRun") or []
    policy = body.get("propagationPolicy") or ("Orphan" if body.get("orphanDependents") else "Background")
    causes = _dry_run_causes(dry_run)
    if policy not in _PROPAGATIONS:
        causes.append(unsupported("propagationPolicy", policy, (*_PROPAGATIONS, "nil")))
    if causes:
        raise status.invalid_options("DeleteOptions", causes)
    return DeleteOptions(
        propagation=policy,
        grace=int(grace) if grace is not None else None,
        uid=conditions.get("uid") or "",
        resource_version=conditions.get("resourceVersion") or "",
        dry_run=bool(dry_run),
    )


def _dry_run_causes(asked: list[str]) -> list[Cause]:
    return [] if all(value == "All" for value in asked) else [unsupported("dryRun", asked, ("All",))]
