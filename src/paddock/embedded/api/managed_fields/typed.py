"""What an applied configuration claims, and how it becomes one with the live object.

All functions are pure. Results may share unchanged parts with their inputs; treat both as immutable.
"""

from typing import Any

from paddock.embedded.api.managed_fields.fields import MEMBER, PathSet, Tree, field_element
from paddock.embedded.api.managed_fields.items import MISSING, element_of, form_of, indexed
from paddock.embedded.api.managed_fields.schema import Shape

__all__ = ["declared", "ensure_named", "merged", "removed"]


def declared(shape: Shape, value: Any) -> PathSet:
    """The paths that an applied configuration claims: its leaves, its list items, and keys of free maps."""
    return PathSet(dict(_declared(shape, value) or {}))


def _declared(shape: Shape, value: Any) -> Tree | None:
    """The node for a value: None when neither it nor anything below it is claimed."""
    form = form_of(shape, value)
    tree: Tree = {}
    if form == "map":
        for name, child in (value or {}).items():
            below = shape.field_shape(name)
            node = _declared(below, child) if below is not None else MEMBER
            if child is None or child == {} or not shape.declares(name):
                node = _member(node)
            if node is not None:
                tree[field_element(name)] = node
        return tree or None
    if form == "list":
        item_shape = shape.item_shape()
        for element, items in indexed(shape, value or []).items():
            tree[element] = _member(_declared(item_shape, items[0])) if len(items) == 1 else MEMBER
        return tree or None
    return MEMBER


def _member(node: Tree | None) -> Tree:
    if not node:
        return MEMBER
    return node if "." in node else {".": MEMBER, **node}


def ensure_named(shape: Shape, fields: PathSet) -> PathSet:
    """The set, with every declared field on the way to a member made a member itself."""
    return PathSet(_ensure_named(shape, fields.tree))


def _ensure_named(shape: Shape | None, node: Tree) -> Tree:
    named: Tree = {}
    for element, child in node.items():
        if element == "." or not child:
            named[element] = child
            continue
        is_field = element.startswith("f:")
        below = None
        if shape is not None:
            below = shape.field_shape(element[2:]) if is_field else shape.item
        inner = _ensure_named(below, child)
        named[element] = _member(inner) if is_field and shape is not None and shape.declares(element[2:]) else inner
    return named


def merged(shape: Shape, live: Any, applied: Any) -> Any:
    """The live value with the applied one laid over it: leaves replaced, objects and keyed lists joined."""
    if applied is MISSING:
        return live
    if live is MISSING:
        live = None
    live_form, applied_form = form_of(shape, live), form_of(shape, applied)
    if live is None:
        live_form = applied_form
    elif applied is None and not shape.scalar:
        applied_form = live_form
    if live_form == applied_form == "map" and (live or applied):
        return _merged_maps(shape, live or {}, applied or {})
    if live_form == applied_form == "list" and (live or applied):
        return _merged_lists(shape, live or [], applied or [])
    return applied


def _merged_maps(shape: Shape, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    result = dict(live)
    for name, value in applied.items():
        below = shape.field_shape(name)
        result[name] = value if below is None else merged(below, live.get(name, MISSING), value)
    return result


def _merged_lists(shape: Shape, live: list[Any], applied: list[Any]) -> list[Any]:
    """Items of both. Shared ones come in the applied order; those of one side keep their place among their own."""
    item_shape = shape.item_shape()
    left = [element_of(shape, item) for item in live]
    right = [element_of(shape, item) for item in applied]
    counted = indexed(shape, live)
    mine = {element: items[0] if len(items) == 1 else MISSING for element, items in counted.items()}
    wanted = dict(zip(right, applied, strict=True))
    shared = iter([element for element in right if element in mine])
    upcoming = next(shared, None)
    placed: set[str] = set()
    result: list[Any] = []

    def place(element: str) -> None:
        placed.add(element)
        result.append(merged(item_shape, mine.get(element, MISSING), wanted[element]))

    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right):
            if left[i] == right[j]:
                place(left[i])
                i, j, upcoming = i + 1, j + 1, next(shared, None)
                continue
            if left[i] in wanted and upcoming is not None and upcoming != left[i]:
                i += 1
                continue
        if i < len(left):
            if left[i] not in wanted:
                result.append(live[i])
                i += 1
                continue
            if left[i] in placed:
                i += 1
        if j < len(right):
            place(right[j])
            if upcoming == right[j]:
                upcoming = next(shared, None)
            j += 1
    return result


def removed(shape: Shape, value: Any, fields: PathSet) -> Any:
    """The value without the members of a set. Objects and lists that become empty become null."""
    return _removed(shape, value, fields.tree) if fields else value


def _removed(shape: Shape, value: Any, tree: Tree) -> Any:
    if isinstance(value, dict) and shape.is_map:
        if not value or shape.atomic_map:
            return None
        kept: dict[str, Any] = {}
        for name, child in value.items():
            node = tree.get("f:" + name)
            if node is None:
                kept[name] = child
            elif node and "." not in node:
                below = shape.field_shape(name)
                kept[name] = child if below is None else _removed(below, child, node)
        return kept or None
    if isinstance(value, list) and shape.is_list:
        if not value or shape.atomic_list:
            return None
        items: list[Any] = []
        for item in value:
            node = tree.get(element_of(shape, item))
            if node is None:
                items.append(item)
            elif node and "." not in node:
                items.append(_removed(shape.item_shape(), item, node))
        return items or None
    return value
