"""Whether metadata has the types it must have, before anything looks inside. In the words of the real server's decoder."""

from datetime import datetime
from typing import Any, Final

from paddock.embedded.api.validation.gotext import quoted

__all__ = ["malformed_metadata"]

_JSON_TYPES: Final = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
_GO_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"string": str, "types.UID": str, "int64": int, "bool": bool}
_SCALARS: Final = {
    "deletionGracePeriodSeconds": "int64",
    "generateName": "string",
    "generation": "int64",
    "name": "string",
    "namespace": "string",
    "resourceVersion": "string",
    "selfLink": "string",
    "uid": "types.UID",
}
_TIMES: Final = ("creationTimestamp", "deletionTimestamp")
_MAPS: Final = ("annotations", "labels")
_LISTS: Final = {
    "finalizers": "string",
    "managedFields": "v1.ManagedFieldsEntry",
    "ownerReferences": "v1.OwnerReference",
}
_OWNER: Final = {
    "apiVersion": "string",
    "blockOwnerDeletion": "bool",
    "controller": "bool",
    "kind": "string",
    "name": "string",
    "uid": "types.UID",
}


def malformed_metadata(metadata: Any) -> str | None:
    """What cannot be read in an object's metadata, or None. Nulls read as nothing, wherever they are."""
    if metadata is None:
        return None
    if not isinstance(metadata, dict):
        return f"json: cannot unmarshal {_json_type(metadata)} into Go value of type v1.ObjectMeta"
    for name, value in metadata.items():
        if value is not None and (text := _malformed(name, value)) is not None:
            return text
    return None


def _malformed(name: str, value: Any) -> str | None:
    if name in _SCALARS:
        return _mismatch(f"ObjectMeta.{name}", _SCALARS[name], value)
    if name in _TIMES:
        return _mismatch(f"ObjectMeta.{name}", "string", value) or _unreadable_time(value)
    if name in _MAPS:
        if not isinstance(value, dict):
            return _cannot(f"ObjectMeta.{name}", "map[string]string", value)
        return _first(_mismatch(f"ObjectMeta.{name}", "string", child) for child in value.values())
    if name in _LISTS:
        if not isinstance(value, list):
            return _cannot(f"ObjectMeta.{name}", f"[]{_LISTS[name]}", value)
        return _first(_malformed_item(name, item) for item in value)
    return None


def _malformed_item(name: str, item: Any) -> str | None:
    if _LISTS[name] == "string":
        return _mismatch(f"ObjectMeta.{name}", "string", item)
    if item is not None and not isinstance(item, dict):
        return _cannot(f"ObjectMeta.{name}", _LISTS[name], item)
    if name != "ownerReferences" or item is None:
        return None
    wrong = (_mismatch(f"OwnerReference.{name}.{key}", kind, item.get(key)) for key, kind in _OWNER.items())
    return _first(wrong)


def _first(texts: Any) -> str | None:
    return next((text for text in texts if text is not None), None)


def _json_type(value: Any) -> str:
    return _JSON_TYPES.get(type(value), "null")


def _cannot(field: str, wanted: str, value: Any) -> str:
    return f"json: cannot unmarshal {_json_type(value)} into Go struct field {field} of type {wanted}"


def _mismatch(field: str, wanted: str, value: Any) -> str | None:
    fits = value is None or (isinstance(value, _GO_TYPES[wanted]) and (wanted == "bool" or not isinstance(value, bool)))
    return None if fits else _cannot(field, wanted, value)


def _unreadable_time(text: str) -> str | None:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return f'parsing time {quoted(text)} as "2006-01-02T15:04:05Z07:00": cannot parse {quoted(text)} as "2006"'
    return None
