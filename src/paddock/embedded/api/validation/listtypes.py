"""What `x-kubernetes-list-type` promises: items of a set are unique, and so are the keys of a list that is a map."""

from collections.abc import Callable
from typing import Any

from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.gotext import go_json, shown

__all__ = ["list_violations", "unique_check"]

Json = dict[str, Any]


def list_violations(schema: Json, obj: Any, path: str = "") -> list[Cause]:
    """Every duplicate, reported at its second appearance. Keys of free maps are written `spec.zones[par-1]`."""
    causes: list[Cause] = []
    if isinstance(obj, dict):
        properties: dict[str, Any] = schema.get("properties") or {}
        more = schema.get("additionalProperties")
        for name, child in obj.items():
            if not isinstance(child, dict | list):
                continue
            if isinstance(more, dict):
                causes += list_violations(more, child, f"{path}[{name}]")
            if name in properties:
                causes += list_violations(properties[name], child, f"{path}.{name}" if path else name)
    elif isinstance(obj, list):
        how = schema.get("x-kubernetes-list-type")
        if how == "set":
            causes += _duplicates(obj, obj, path)
        elif how == "map":
            causes += _key_duplicates(schema.get("x-kubernetes-list-map-keys") or [], obj, path)
        items = schema.get("items")
        if isinstance(items, dict):
            for index, item in enumerate(obj):
                if isinstance(item, dict | list):
                    causes += list_violations(items, item, f"{path}[{index}]")
    return causes


def _duplicates(identities: list[Any], shown_as: list[Any], path: str) -> list[Cause]:
    seen: dict[str, int] = {}
    causes: list[Cause] = []
    for index, identity in enumerate(identities):
        text = go_json(identity)
        seen[text] = seen.get(text, 0) + 1
        if seen[text] == 2:
            message = f"Duplicate value: {shown(shown_as[index])}"
            causes.append(Cause("FieldValueDuplicate", message, f"{path}[{index}]"))
    return causes


def _key_duplicates(keys: list[str], items: list[Any], path: str) -> list[Cause]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            message = f"Invalid value: {shown(item)}: must be an object for an array of list-type map"
            return [Cause("FieldValueInvalid", message, f"{path}[{index}]")]
    identities = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    return _duplicates(identities, identities, path)


def unique_check(schema: Json) -> Callable[[Any], bool] | None:
    """The quick answer to whether there are no duplicates: yes, or perhaps not. None where nothing need be unique."""
    inner = {
        name: found
        for name, below in (schema.get("properties") or {}).items()
        if (found := unique_check(below)) is not None
    }
    more, items = schema.get("additionalProperties"), schema.get("items")
    each = unique_check(more) if isinstance(more, dict) else None
    item = unique_check(items) if isinstance(items, dict) else None
    how = schema.get("x-kubernetes-list-type")
    keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
    if not inner and each is None and item is None and how not in {"map", "set"}:
        return None

    def check(value: Any) -> bool:
        if value.__class__ is dict:
            for name, below in inner.items():
                child = value.get(name)
                if (child.__class__ is list or child.__class__ is dict) and not below(child):
                    return False
            return each is None or all(map(each, value.values()))
        if value.__class__ is list:
            return distinct(value) and (item is None or all(map(item, value)))
        return True

    def distinct(value: list[Any]) -> bool:
        try:
            if how == "set":
                return len(set(value)) == len(value)
            if how == "map":
                return len({tuple([entry.get(key) for key in keys]) for entry in value}) == len(value)
        except (AttributeError, TypeError):
            # Items that are no objects, or keys that cannot be hashed: the full check says what is wrong.
            return False
        return True

    return check
