"""What changed between two versions of an object, as paths that a manager can own.

The cost is that of the difference: parts that are equal are passed over.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paddock.embedded.api.managed_fields.fields import EMPTY, MEMBER, PathSet, Tree, field_element
from paddock.embedded.api.managed_fields.items import MISSING, form_of, indexed
from paddock.embedded.api.managed_fields.schema import Shape

__all__ = ["Changes", "changes"]


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


def _everything(shape: Shape, value: Any) -> Tree:
    """The value itself and every path below it."""
    form = form_of(shape, value) if value else "leaf"
    if form == "map":
        tree: Tree = {".": MEMBER}
        for name, child in value.items():
            below = shape.field_shape(name)
            tree["f:" + name] = _everything(below, child) if below is not None else MEMBER
        return tree
    if form == "list":
        tree = {".": MEMBER}
        item_shape = shape.item_shape()
        for element, items in indexed(shape, value).items():
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
        old_form, new_form = form_of(shape, old), form_of(shape, new)
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
        before, after = indexed(shape, old), indexed(shape, new)
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
