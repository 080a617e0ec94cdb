"""Why an applied configuration cannot be seen through the shape of its kind."""

from typing import Any

from paddock.embedded.api.managed_fields.fields import element_text
from paddock.embedded.api.managed_fields.items import ItemError, element_of
from paddock.embedded.api.managed_fields.schema import Shape
from paddock.embedded.api.validation.gotext import go_literal, go_plain

__all__ = ["violations"]

_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}


def violations(shape: Shape, value: Any, path: str = "") -> list[str]:
    """Why a value cannot be seen through the shape, one text for each reason: undeclared fields, wrong forms."""
    if value is None:
        return []
    if isinstance(value, dict) and shape.is_map:
        return _map_violations(shape, value, path)
    if isinstance(value, list) and shape.is_list:
        return _list_violations(shape, value, path)
    if shape.is_map:
        return (
            []
            if shape.scalar and not isinstance(value, dict | list)
            else [f"{path}: expected map, got {_plain(value)}"]
        )
    if shape.scalar:
        return _scalar_violations(shape.scalar, value, path)
    return [f"{path}: expected list, got {_plain(value)}"]


def _scalar_violations(scalar: str, value: Any, path: str) -> list[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not number:
        kind = _GO_TYPES.get(type(value), "map[string]interface {}" if isinstance(value, dict) else "[]interface {}")
        return [f"{path}: expected numeric (int or float), got {kind}"]
    if scalar == "string" and not isinstance(value, str):
        return [f"{path}: expected string, got &value.valueUnstructured{{Value:{go_literal(value)}}}"]
    if scalar == "boolean" and not isinstance(value, bool):
        return [f"{path}: expected boolean, got {_plain(value)}"]
    if isinstance(value, dict | list):
        return [f"{path}: expected any scalar, got {_plain(value)}"]
    return []


def _map_violations(shape: Shape, value: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name, child in value.items():
        below = shape.field_shape(name)
        if below is None:
            # The real server, too, stops at the first field of an object that it does not know.
            found.append(f"{path}.{name}: field not declared in schema")
            break
        found.extend(violations(below, child, f"{path}.{name}"))
    return found


def _list_violations(shape: Shape, value: list[Any], path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        if shape.atomic_list:
            text = f"[{index}]"
        else:
            try:
                element = element_of(shape, item)
            except ItemError as error:
                found.append(f"{path}: element {index}: {error}")
                return found
            text = element_text(element)
            if element in seen:
                found.append(f"{path}: duplicate entries for key {text}")
            seen.add(element)
        found.extend(violations(shape.item_shape(), item, path + text))
    return found


def _plain(value: Any) -> str:
    """A wrong value as the real server shows it: a Go struct around it, and no quotes anywhere."""
    return f"&{{{go_plain(value)}}}"
