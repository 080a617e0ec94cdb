"""What every write must pass before it is stored: identity, shape, validity, generation. Pure."""

from dataclasses import replace
from typing import Any

import msgspec

from paddock.embedded.api import status
from paddock.embedded.api.builtin import catalogue as builtins
from paddock.embedded.api.builtin import schemas as builtin_schemas
from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.status import ApiFailure, Cause
from paddock.embedded.api.validation import schema
from paddock.embedded.api.validation.cel import rule_violations

__all__ = [
    "check_depth",
    "check_identity",
    "check_place",
    "check_valid",
    "check_version_named",
    "immutable",
    "refreshed",
    "restore_system_fields",
    "same",
    "shaped",
    "stored_form",
    "too_deep",
]

Json = dict[str, Any]

_DEEPEST = 120
"""A definition's schema of a whole Pod template is nested half as deep."""
_SET_BY_THE_SERVER = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "name",
    "namespace",
    "selfLink",
    "generateName",
)


def check_place(kind: Kind, namespace: str, name: str, body: Json) -> None:
    """The body must not contradict the URL about where the object is."""
    meta = body.get("metadata") or {}
    if not isinstance(meta, dict):
        raise status.bad_request("metadata must be an object")
    if name and meta.get("name") and meta["name"] != name:
        raise status.bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if kind.namespaced and meta.get("namespace") and meta["namespace"] != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def check_identity(kind: Kind, namespace: str, name: str, body: Json) -> None:
    """The body must not contradict the URL: version, kind, name and namespace."""
    version, of_kind = body.get("apiVersion"), body.get("kind")
    if version and version != kind.api_version:
        raise status.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({kind.api_version})"
        )
    if of_kind and of_kind != kind.kind and kind.custom:
        cause = Cause("FieldValueInvalid", f'Invalid value: "{of_kind}": must be {kind.kind}', "kind")
        raise status.invalid(replace(kind, kind=of_kind), (body.get("metadata") or {}).get("name") or "", [cause])
    if of_kind and of_kind != kind.kind:
        raise status.bad_request(f'{of_kind} in version "{kind.version}" cannot be handled as a {kind.kind}')
    check_place(kind, namespace, name, body)


def check_version_named(kind: Kind, name: str, body: Json) -> None:
    """A PUT of these kinds must say which version it was made from."""
    if (kind.custom or kind.resource in builtins.UPDATES_NEED_VERSION) and not (body.get("metadata") or {}).get(
        "resourceVersion"
    ):
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(kind, name, [cause])


def restore_system_fields(kind: Kind, old: Json, new: Json, subresource: str) -> Json:
    """`new` with what only the server may set taken from `old`.

    A write to the status subresource changes the status only: whatever else the client sent is what it read, maybe long ago.
    A binding travels with the condition that tells of it.
    """
    meta, old_meta = dict(new.get("metadata") or {}), old["metadata"]
    if subresource == "status":
        fresh = {key: value for key, value in old.items() if key != "status"}
        if "status" in new:
            fresh["status"] = new["status"]
        fresh["metadata"] = dict(old_meta)
        if "managedFields" in meta:
            fresh["metadata"]["managedFields"] = meta["managedFields"]
        new = fresh
    else:
        new = {**new, "metadata": meta}
        if kind.status and subresource != "binding":
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        for key in _SET_BY_THE_SERVER:
            meta.pop(key, None)
            if key in old_meta:
                meta[key] = old_meta[key]
    new["metadata"]["resourceVersion"] = old_meta["resourceVersion"]
    new["apiVersion"], new["kind"] = kind.api_version, kind.kind
    return new


def shaped(
    kind: Kind, new: Json, validation: str, *, patching: bool, repeated: tuple[str, ...] = ()
) -> tuple[Json, list[str]]:
    """Prune what the schema does not know (or refuse it, or warn of it), and fill in what it defaults."""
    check_depth(new)
    if kind.schema is None:
        pruned, unknown = builtin_schemas.prune(kind.group, kind.kind, new)
    else:
        pruned, unknown = schema.prune(kind.schema, new)
    slips = [f'duplicate field "{path}"' for path in repeated] + [f'unknown field "{path}"' for path in unknown]
    if slips and validation == "Strict":
        raise _strict(kind, new, slips, patching=patching)
    shape = pruned if kind.schema is None else schema.apply_defaults(kind.schema, pruned)
    return shape, slips if validation == "Warn" else []


def check_depth(value: Any) -> None:
    """400 for what is nested deeper than the code that reads objects level by level can follow."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
        level = [part for part in level if isinstance(part, (dict, list))]
        if not level:
            return
    raise too_deep()


def too_deep() -> ApiFailure:
    return status.bad_request(f"the object is nested too deeply: {_DEEPEST} levels at most")


def refreshed(kind: Kind, obj: Json) -> Json:
    """An object that was stored under an earlier definition, as today's would have stored it."""
    if kind.schema is None:
        return obj
    return schema.apply_defaults(kind.schema, schema.prune(kind.schema, obj)[0])


def immutable(field: str, value: str) -> Cause:
    return Cause("FieldValueInvalid", f'Invalid value: "{value}": field is immutable', field)


def check_valid(kind: Kind, new: Json, old: Json | None = None, subresource: str = "") -> None:
    """422 with every violation at once."""
    causes = list(schema.validate_metadata(kind, new))
    if old is not None and old["metadata"].get("deletionTimestamp"):
        had = set(old["metadata"].get("finalizers") or ())
        added = sorted(set(new["metadata"].get("finalizers") or ()) - had)
        if added:
            listed = ", ".join(f'"{finalizer}"' for finalizer in added)
            message = (
                "Forbidden: no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(Cause("FieldValueForbidden", message, "metadata.finalizers"))
    if kind.schema is not None:
        causes += schema.validate(kind.schema, new, old, subresource=subresource)
        causes += rule_violations(kind.schema, new, old)
    else:
        causes += builtins.validate_builtin(kind, new)
    if causes:
        raise status.invalid(kind, new["metadata"].get("name", ""), causes)


def desired(kind: Kind, obj: Json) -> Json:
    """The part of an object that its generation counts: everything but the metadata, and the status if it is apart."""
    apart = ("metadata", "apiVersion", "kind", *(("status",) if kind.status else ()))
    return {key: value for key, value in obj.items() if key not in apart}


def stored_form(kind: Kind, obj: Json) -> Json:
    """The object as it is stored: under the storage version's name, which with its kind comes first."""
    stored_api = f"{kind.group}/{kind.storage_version}" if kind.group else kind.storage_version
    rest = {name: part for name, part in obj.items() if name not in ("apiVersion", "kind")}
    return {"apiVersion": stored_api, "kind": kind.kind, **rest}


def same(old: Json, new: Json) -> bool:
    """Whether a write changes nothing that counts: times in managedFields do not."""
    if any(old.get(key) != new.get(key) for key in {*old, *new} - {"metadata", "apiVersion"}):
        return False
    mine, theirs = ({k: v for k, v in o["metadata"].items() if k != "managedFields"} for o in (old, new))
    return mine == theirs and _untimed(old) == _untimed(new)


def _untimed(obj: Json) -> list[Json]:
    return [{k: v for k, v in entry.items() if k != "time"} for entry in obj["metadata"].get("managedFields") or ()]


def _strict(kind: Kind, new: Json, slips: list[str], *, patching: bool) -> ApiFailure:
    listed = ", ".join(slips)
    if patching:
        whole = msgspec.json.encode(new).decode()
        cause = Cause("FieldValueInvalid", f"Invalid value: {whole}: strict decoding error: {listed}", "patch")
        return status.invalid(kind, new["metadata"].get("name", ""), [cause])
    return status.bad_request(
        f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: {listed}'
    )
