"""Walks over two objects with the eyes of a `Shape`: what changed, what is declared, and how two become one.

All functions are pure. Results may share unchanged parts with their inputs; treat both as immutable.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from paddock.embedded.api.fields import (
    EMPTY,
    MEMBER,
    PathSet,
    Tree,
    element_text,
    field_element,
    key_element,
    value_element,
)
from paddock.embedded.api.gotext import go_json
from paddock.embedded.api.shapes import Shape

__all__ = ["MISSING", "Changes", "changes", "declared", "ensure_named", "merged", "misfits", "removed"]

MISSING: Final[Any] = object()
"""No value at all, which is not the same as null."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths that one version of an object has and the other has not, or has with another value."""

    removed: PathSet = EMPTY
    modified: PathSet = EMPTY
    added: PathSet = EMPTY

    def written(self) -> PathSet:
        """The paths that whoever made the change has set: modified or added."""
        return self.modified.union(self.added)

    def __bool__(self) -> bool:
        return bool(self.removed or self.modified or self.added)


class _ItemError(ValueError):
    """A list item without an identity."""


def element_of(shape: Shape, item: Any) -> str:
    """The path element that identifies an item of a list that is not atomic."""
    if shape.keys:
        if item is None:
            raise _ItemError("associative list with keys may not have a null element")
        if not isinstance(item, dict):
            raise _ItemError("associative list with keys may not have non-map elements")
        found: dict[str, Any] = {}
        for key in shape.keys:
            if key in item:
                found[key] = item[key]
            elif key in shape.key_defaults:
                found[key] = shape.key_defaults[key]
        if not found:
            keys = " ".join(f'"{key}"' for key in shape.keys)
            raise _ItemError(
                f"associative list with keys has an element that omits all key fields [{keys}] "
                "(and doesn't have default values for any key fields)"
            )
        return key_element(found)
    if isinstance(item, dict):
        raise _ItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise _ItemError("not supported: associative list with lists as elements")
    if item is None:
        raise _ItemError("associative list without keys has an element that's an explicit null")
    return value_element(item)


def _indexed(shape: Shape, items: Iterable[Any]) -> dict[str, list[Any]]:
    """Items by identity; more than one under an element are duplicates. Items without identity are left out."""
    found: dict[str, list[Any]] = {}
    for item in items:
        try:
            found.setdefault(element_of(shape, item), []).append(item)
        except _ItemError:
            continue
    return found


def _form(shape: Shape, value: Any) -> str:
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


# ---------------------------------------------------------------- what changed


def _everything(shape: Shape, value: Any) -> Tree:
    """The value itself and every path below it."""
    form = _form(shape, value) if value else "leaf"
    if form == "map":
        tree: Tree = {".": MEMBER}
        for name, child in value.items():
            below = shape.field_shape(name)
            tree["f:" + name] = _everything(below, child) if below is not None else MEMBER
        return tree
    if form == "list":
        tree = {".": MEMBER}
        item_shape = shape.item_shape()
        for element, items in _indexed(shape, value).items():
            tree[element] = _everything(item_shape, items[0]) if len(items) == 1 else MEMBER
        return tree
    return MEMBER


def _below(shape: Shape, value: Any) -> Tree:
    tree = dict(_everything(shape, value))
    tree.pop(".", None)
    return tree


class _Difference:
    """Three trees that grow during one comparison."""

    __slots__ = ("added", "modified", "removed")

    def __init__(self) -> None:
        self.removed: Tree = {}
        self.modified: Tree = {}
        self.added: Tree = {}

    def take(self, element: str, below: "_Difference") -> None:
        if below.removed:
            self.removed[element] = below.removed
        if below.modified:
            self.modified[element] = below.modified
        if below.added:
            self.added[element] = below.added

    def compare(self, shape: Shape | None, element: str, old: Any, new: Any) -> None:
        """Record how the value under an element changed. Costs little where both sides are equal."""
        if old is new or (old == new and isinstance(old, bool) == isinstance(new, bool)):
            return
        if old is MISSING:
            self.added[element] = _everything(shape, new) if shape is not None else MEMBER
        elif new is MISSING:
            self.removed[element] = _everything(shape, old) if shape is not None else MEMBER
        elif shape is None or (not old and not new):
            self.modified[element] = MEMBER
        else:
            self._inside(shape, element, old, new)

    def _inside(self, shape: Shape, element: str, old: Any, new: Any) -> None:
        old_form, new_form = _form(shape, old), _form(shape, new)
        # Null takes whatever form the other side has.
        if old is None:
            old_form = new_form
        elif new is None:
            new_form = old_form
        below = _Difference()
        if old_form == new_form == "map":
            below.maps(shape, old or {}, new or {})
        elif old_form == new_form == "list":
            below.lists(shape, old or [], new or [])
        else:
            self.modified[element] = MEMBER
            if old_form != new_form:
                below.removed = _below(shape, old)
                below.added = _below(shape, new)
                if below.removed:
                    self.removed[element] = below.removed
                if below.added:
                    self.added[element] = below.added
            return
        self.take(element, below)

    def maps(self, shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> None:
        for name, value in new.items():
            before = old.get(name, MISSING)
            if before is not value:
                self.compare(shape.field_shape(name), "f:" + name, before, value)
        for name, value in old.items():
            if name not in new:
                self.compare(shape.field_shape(name), "f:" + name, value, MISSING)

    def lists(self, shape: Shape, old: list[Any], new: list[Any]) -> None:
        item_shape = shape.item_shape()
        before, after = _indexed(shape, old), _indexed(shape, new)
        for element in {**before, **after}:
            left, right = before.get(element, []), after.get(element, [])
            if len(left) <= 1 and len(right) <= 1:
                self.compare(item_shape, element, left[0] if left else MISSING, right[0] if right else MISSING)
            elif len(left) > 1 and len(right) > 1:
                if left != right:
                    self.modified[element] = MEMBER
            elif len(left) > 1:
                if right:
                    self.added[element] = _everything(item_shape, right[0])
                self.removed[element] = MEMBER
            else:
                if left:
                    self.removed[element] = _everything(item_shape, left[0])
                self.added[element] = MEMBER


def changes(shape: Shape, old: dict[str, Any], new: dict[str, Any], *, ignore: Callable[[str, str], bool]) -> Changes:
    """What changed from old to new, over whole objects.

    `ignore(parent, name)` takes top-level fields (parent "") and fields of metadata (parent "metadata") out of the
    comparison before they cost anything. Equal parts are compared by Python's own equality, so 1 and true count as
    equal inside equal objects; no schema lets a field be both.
    """
    difference = _Difference()
    for name in {**old, **new}:
        before, after = old.get(name, MISSING), new.get(name, MISSING)
        if before is after or ignore("", name):
            continue
        if name == "metadata":
            _compare_metadata(difference, shape, before, after, ignore)
        else:
            difference.compare(shape.field_shape(name), field_element(name), before, after)
    return Changes(PathSet(difference.removed), PathSet(difference.modified), PathSet(difference.added))


def _compare_metadata(
    difference: _Difference, shape: Shape, old: Any, new: Any, ignore: Callable[[str, str], bool]
) -> None:
    metadata = shape.field_shape("metadata")
    assert metadata is not None
    before: dict[str, Any] = old if isinstance(old, dict) else {}
    after: dict[str, Any] = new if isinstance(new, dict) else {}
    below = _Difference()
    for name in {**before, **after}:
        if not ignore("metadata", name):
            below.compare(
                metadata.field_shape(name), field_element(name), before.get(name, MISSING), after.get(name, MISSING)
            )
    difference.take("f:metadata", below)


# ------------------------------------------------------- what is declared


def declared(shape: Shape, value: Any) -> PathSet:
    """The paths that an applied configuration claims: its leaves, its list items, and keys of free maps."""
    return PathSet(dict(_declared(shape, value) or {}))


def _declared(shape: Shape, value: Any) -> Tree | None:
    """The node for a value: None when neither it nor anything below it is claimed."""
    form = _form(shape, value)
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
        for element, items in _indexed(shape, value or []).items():
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


# ------------------------------------------------------------- two become one


def merged(shape: Shape, live: Any, applied: Any) -> Any:
    """The live value with the applied one laid over it: leaves replaced, objects and keyed lists joined."""
    if applied is MISSING:
        return live
    if live is MISSING:
        live = None
    live_form, applied_form = _form(shape, live), _form(shape, applied)
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
    counted = _indexed(shape, live)
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


# ------------------------------------------------------------------- misfits

_GO_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}


def misfits(shape: Shape, value: Any, path: str = "") -> list[str]:
    """Why a value cannot be seen through the shape, one text for each reason: undeclared fields, wrong forms."""
    if value is None:
        return []
    if isinstance(value, dict) and shape.is_map:
        return _map_misfits(shape, value, path)
    if isinstance(value, list) and shape.is_list:
        return _list_misfits(shape, value, path)
    if shape.is_map:
        return (
            []
            if shape.scalar and not isinstance(value, dict | list)
            else [f"{path}: expected map, got {_plain(value)}"]
        )
    if shape.scalar:
        return _scalar_misfits(shape.scalar, value, path)
    return [f"{path}: expected list, got {_plain(value)}"]


def _scalar_misfits(scalar: str, value: Any, path: str) -> list[str]:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if scalar == "numeric" and not number:
        kind = _GO_TYPES.get(type(value), "map[string]interface {}" if isinstance(value, dict) else "[]interface {}")
        return [f"{path}: expected numeric (int or float), got {kind}"]
    if scalar == "string" and not isinstance(value, str):
        return [f"{path}: expected string, got &value.valueUnstructured{{Value:{_plain(value)}}}"]
    if scalar == "boolean" and not isinstance(value, bool):
        return [f"{path}: expected boolean, got {_plain(value)}"]
    if isinstance(value, dict | list):
        return [f"{path}: expected any scalar, got {_plain(value)}"]
    return []


def _map_misfits(shape: Shape, value: dict[str, Any], path: str) -> list[str]:
    found: list[str] = []
    for name, child in value.items():
        below = shape.field_shape(name)
        if below is None:
            # The real server, too, stops at the first field of an object that it does not know.
            found.append(f"{path}.{name}: field not declared in schema")
            break
        found.extend(misfits(below, child, f"{path}.{name}"))
    return found


def _list_misfits(shape: Shape, value: list[Any], path: str) -> list[str]:
    found: list[str] = []
    seen: set[str] = set()
    for index, item in enumerate(value):
        if shape.atomic_list:
            text = f"[{index}]"
        else:
            try:
                element = element_of(shape, item)
            except _ItemError as error:
                found.append(f"{path}: element {index}: {error}")
                return found
            text = element_text(element)
            if element in seen:
                found.append(f"{path}: duplicate entries for key {text}")
            seen.add(element)
        found.extend(misfits(shape.item_shape(), item, path + text))
    return found


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else go_json(value)
