"""Patches of whole objects: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch for built-ins.

Inputs are never changed. Results share unchanged parts with them. Where the real server departs from an RFC, so do
these functions; each such place says so.
"""

from collections.abc import Callable
from typing import Any, Final

from paddock.embedded.api.patching.strategic import strategic_merge_patch
from paddock.embedded.api.status import ApiFailure, bad_request

__all__ = ["json_patch", "merge_patch", "same_json", "strategic_merge_patch"]

MAX_OPERATIONS: Final = 10_000


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: objects merge, null removes, anything else replaces.

    As on the real server, nulls of a value that is put in place of something else are dropped at any depth, inside
    lists too; the RFC leaves those in lists alone.
    """
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
            continue
        current = result.get(name)
        if isinstance(current, dict):
            result[name] = merge_patch(current, value) if isinstance(value, dict) else value
        else:
            result[name] = _without_nulls(value)
    return result


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(child) for name, child in value.items() if child is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def same_json(left: Any, right: Any) -> bool:
    """Equality of JSON values as they are written: 1 is neither true nor 1.0, though Python says it is both."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return left == right and type(left) is type(right)


# ----------------------------------------------------------------------- JSON patch


class _DoesNotApplyError(ValueError):
    """An operation that cannot be carried out on this document."""


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. 400 for what is no patch, 413 for too many operations, 422 for one that fails or does not apply.

    As on the real server: `replace` of an absent field of an object adds it, `test` against null passes for an absent
    one, negative indices count from the end, and the words of a 422 do not say which operation it was.
    """
    _refuse_other_than(list, operations, "Patch")
    for operation in operations:
        _refuse_other_than(dict, operation, "Operation")
    if len(operations) > MAX_OPERATIONS:
        message = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}"
        raise ApiFailure(413, "RequestEntityTooLarge", f"Request entity too large: {message}")
    document = target
    try:
        for operation in operations:
            document = _operate(document, operation)
    except _DoesNotApplyError:
        # The real server keeps the reason to itself.
        message = "the server rejected our request due to an error in our request"
        raise ApiFailure(422, "Invalid", message) from None
    return document


def _refuse_other_than(wanted: type, value: Any, name: str) -> None:
    if isinstance(value, wanted):
        return
    names = {str: "string", bool: "bool", int: "number", float: "number", dict: "object", list: "array"}
    got = names.get(type(value), "null")
    raise bad_request(f"json: cannot unmarshal {got} into Go value of type jsonpatch.{name}")


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    kind = operation.get("op")
    path = _path(operation, "path")
    match kind:
        case "add":
            return _changed(document, path, lambda parent, key: _add(parent, key, operation.get("value")))
        case "remove":
            return _changed(document, path, _remove)
        case "replace":
            if not path:
                return _whole(operation.get("value"))
            return _changed(document, path, lambda parent, key: _set(parent, key, operation.get("value")))
        case "move" | "copy":
            source = _path(operation, "from")
            value = _get(document, source)
            if kind == "move":
                document = _changed(document, source, _remove)
            return _changed(document, path, lambda parent, key: _add(parent, key, value))
        case "test":
            found = _get(document, path) if path else document
            if not same_json(found, operation.get("value")):
                raise _DoesNotApplyError("test failed")
            return document
        case _:
            raise _DoesNotApplyError(f"unexpected kind: {kind}")


def _path(operation: dict[str, Any], name: str) -> list[str]:
    text = operation.get(name)
    if not isinstance(text, str):
        raise _DoesNotApplyError(f"operation is missing {name}")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _whole(value: Any) -> Any:
    if not isinstance(value, dict | list):
        raise _DoesNotApplyError("the whole document can only be an object or a list")
    return value


def _index(key: str, size: int) -> int:
    try:
        index = int(key)
    except ValueError:
        raise _DoesNotApplyError(f"not an index: {key}") from None
    if index < 0:
        index += size
    if not 0 <= index < size:
        raise _DoesNotApplyError(f"no such index: {key}")
    return index


def _get(document: Any, path: list[str]) -> Any:
    """The value at a path. The last field of an object may be absent, and reads as null; nothing else may."""
    if not path:
        raise _DoesNotApplyError("a path is needed")
    current = document
    for depth, key in enumerate(path):
        if isinstance(current, list):
            current = current[_index(key, len(current))]
        elif isinstance(current, dict) and (key in current or depth == len(path) - 1):
            current = current.get(key)
        else:
            raise _DoesNotApplyError(f"no such path: {path}")
    return current


def _changed(document: Any, path: list[str], change: Callable[[Any, str], Any]) -> Any:
    """A copy of the document whose parent of the path's last element went through `change`."""
    if not path:
        raise _DoesNotApplyError("a path is needed")
    key, *rest = path
    if not rest:
        if not isinstance(document, dict | list):
            raise _DoesNotApplyError(f"no such path: {path}")
        return change(document, key)
    if isinstance(document, list):
        index = _index(key, len(document))
        copied = list(document)
        copied[index] = _changed(document[index], rest, change)
        return copied
    if isinstance(document, dict) and key in document:
        return {**document, key: _changed(document[key], rest, change)}
    raise _DoesNotApplyError(f"no such path: {path}")


def _add(parent: Any, key: str, value: Any) -> Any:
    if isinstance(parent, dict):
        return {**parent, key: value}
    if key == "-":
        return [*parent, value]
    index = _index(key, len(parent) + 1)
    return [*parent[:index], value, *parent[index:]]


def _remove(parent: Any, key: str) -> Any:
    if isinstance(parent, dict):
        if key not in parent:
            raise _DoesNotApplyError(f"nothing to remove at {key}")
        return {name: value for name, value in parent.items() if name != key}
    index = _index(key, len(parent))
    return [*parent[:index], *parent[index + 1 :]]


def _set(parent: Any, key: str, value: Any) -> Any:
    if isinstance(parent, dict):
        return {**parent, key: value}
    index = _index(key, len(parent))
    return [*parent[:index], value, *parent[index + 1 :]]
