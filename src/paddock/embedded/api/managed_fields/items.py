"""One value through a `Shape`: the form it has, and what tells the items of a list apart."""

from collections.abc import Iterable
from typing import Any, Final

from paddock.embedded.api.managed_fields.fields import key_element, value_element
from paddock.embedded.api.managed_fields.schema import Shape

__all__ = ["MISSING", "ItemError", "element_of", "form_of", "indexed"]

MISSING: Final[Any] = object()
"""No value at all, which is not the same as null."""


class ItemError(ValueError):
    """A list item without an identity."""


def element_of(shape: Shape, item: Any) -> str:
    """The path element that identifies an item of a list that is not atomic."""
    if shape.keys:
        if item is None:
            raise ItemError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise ItemError("associative list with keys may not have non-map elements")
        found: dict[str, Any] = {}
        for key in shape.keys:
            if key in item:
                found[key] = item[key]
            elif key in shape.key_defaults:
                found[key] = shape.key_defaults[key]
        if not found:
            keys = " ".join(f'"{key}"' for key in shape.keys)
            raise ItemError(
                f"associative list with keys has an element that omits all key fields [{keys}] "
                "(and doesn't have default values for any key fields)"
            )
        return key_element(found)
    if isinstance(item, dict):
        raise ItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ItemError("not supported: associative list with lists as elements")
    if item is None:
        raise ItemError("associative list without keys has an element that's an explicit null")
    return value_element(item)


def indexed(shape: Shape, items: Iterable[Any]) -> dict[str, list[Any]]:
    """Items by identity; more than one under an element are duplicates. Items without identity are left out."""
    found: dict[str, list[Any]] = {}
    for item in items:
        try:
            found.setdefault(element_of(shape, item), []).append(item)
        except ItemError:
            continue
    return found


def form_of(shape: Shape, value: Any) -> str:
    """Which of the forms that the shape allows the value has: map, list or leaf."""
    if isinstance(value, dict):
        return "map" if shape.is_map and not shape.atomic_map else "leaf"
    if isinstance(value, list):
        return "list" if shape.is_list and not shape.atomic_list else "leaf"
    if value is None:
        if shape.is_map and not shape.atomic_map and not shape.scalar:
            return "map"
        return "list" if shape.is_list and not shape.atomic_list and not shape.scalar else "leaf"
    return "leaf"
