"""Sets of field paths, as `metadata.managedFields` records who owns what (FieldsV1).

A set is kept in the very form in which it is stored: a tree of dicts whose keys are path elements (`f:spec` a field,
`k:{"type":"Ready"}` an item of a keyed list, `v:22` an item of a set, `i:0` an index). A node without children is a
member; a node with children is a member if it also has the key `.`. So reading what is stored costs nothing, two sets
share their common subtrees, and every operation walks only where both sides have something.
"""

import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

from paddock.embedded.api.validation.gotext import go_json, go_number, quoted

__all__ = [
    "EMPTY",
    "MEMBER",
    "FieldsError",
    "PathSet",
    "Tree",
    "element_text",
    "field_element",
    "key_element",
    "value_element",
]

Tree = dict[str, Any]
MEMBER: Final[Tree] = {}
"""A node that is a member and has no children. Shared, and never changed."""


class FieldsError(ValueError):
    """A FieldsV1 document that cannot be read; take the entry out of managedFields, or send none."""


def field_element(name: str) -> str:
    return "f:" + name


def value_element(value: Any) -> str:
    return "v:" + go_json(value)


def key_element(keys: dict[str, Any]) -> str:
    return "k:" + go_json(keys)


@lru_cache(maxsize=8192)
def _canonical(element: str) -> str:
    """The one spelling of a path element, so that equal elements are equal strings."""
    kind, content = element[:2], element[2:]
    if kind == "f:":
        return element
    if kind == "i:":
        try:
            return f"i:{int(content)}"
        except ValueError as error:
            raise FieldsError(f"parsing key as path element: {element}") from error
    if kind in {"k:", "v:"}:
        try:
            return kind + go_json(json.loads(content))
        except ValueError as error:
            raise FieldsError(f"parsing key as path element: {element}") from error
    if len(element) < 2 or element[1] != ":":
        raise FieldsError(f"missing colon: {element}")
    return ""


def _value_order(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return (2, value)
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (1, value)
    return (3, go_json(value))


@lru_cache(maxsize=8192)
def _order(element: str) -> tuple[Any, ...]:
    kind, content = element[0], element[2:]
    if kind == "f":
        return (0, content)
    if kind == "i":
        return (3, int(content))
    value = json.loads(content)
    if kind == "k":
        return (1, [(name, _value_order(value[name])) for name in sorted(value)])
    return (2, _value_order(value))


@lru_cache(maxsize=8192)
def element_text(element: str) -> str:
    """A path element as people read it in a conflict: `.spec`, `[type="Ready"]`, `[=22]`, `[0]`."""
    kind, content = element[0], element[2:]
    if kind == "f":
        return "." + content
    if kind == "i":
        return f"[{content}]"
    value = json.loads(content)
    if kind == "k":
        return "[" + ",".join(f"{name}={_value_text(value[name])}" for name in sorted(value)) + "]"
    return f"[={_value_text(value)}]"


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool) or value is None:
        return go_json(value)
    return go_number(value) if isinstance(value, int | float) else go_json(value)


def _read(node: Any) -> Tree:
    if not isinstance(node, dict):
        raise FieldsError("a field set is made of objects")
    read: Tree = {}
    for element, child in node.items():
        if element == ".":
            read["."] = MEMBER
        elif name := _canonical(element):
            child_tree = _read(child)
            read[name] = _united(read[name], child_tree) if name in read else child_tree
    return MEMBER if len(read) == 1 and "." in read else read


def _sorted(node: Tree) -> list[str]:
    """The elements below a node, in the server's order. Fields alone, the usual case, sort as they are."""
    elements = [element for element in node if element != "."]
    if len(elements) > 1:
        elements.sort(key=None if all(element[0] == "f" for element in elements) else _order)
    return elements


def _written(node: Tree) -> Tree:
    if not node:
        return {}
    written: Tree = {".": {}} if "." in node else {}
    for element in _sorted(node):
        child = node[element]
        written[element] = _written(child) if child else {}
    return written


def _united(left: Tree, right: Tree) -> Tree:
    """Both nodes with all below them. A node without children stands for itself alone."""
    if left is right:
        return left
    if not left or not right:
        # One side is a bare member: the other side, made a member too.
        more = left or right
        return more if not more or "." in more else {".": MEMBER, **more}
    united = left
    for element, child in right.items():
        before = left.get(element)
        if before is None:
            joined = child
        elif element == ".":
            continue
        else:
            joined = _united(before, child)
            if joined is before:
                continue
        if united is left:
            united = dict(left)
        united[element] = joined
    return united


def _without(left: Tree, right: Tree, *, below: bool) -> Tree | None:
    """The members of `left` that are not members of `right`; with `below`, a member of `right` takes all under it."""
    right_is_member = not right or "." in right
    if right_is_member and below:
        return None
    left_is_member = not left or "." in left
    rest = left
    if left and right:
        for element, child in right.items():
            before = left.get(element)
            if before is None or element == ".":
                continue
            kept = _without(before, child, below=below)
            if kept is before:
                continue
            if rest is left:
                rest = dict(left)
            if kept is None:
                del rest[element]
            else:
                rest[element] = kept
    if left_is_member and right_is_member:
        if not left:
            return None
        if rest is left:
            rest = dict(left)
        rest.pop(".", None)
        return rest or None
    if rest is left:
        return left
    if len(rest) == 1 and "." in rest:
        return MEMBER
    return rest or None


def _shared(left: Tree, right: Tree) -> Tree | None:
    if left is right:
        return left
    member = (not left or "." in left) and (not right or "." in right)
    shared: Tree = {}
    if left and right:
        small, large = (left, right) if len(left) <= len(right) else (right, left)
        for element, child in small.items():
            other = large.get(element)
            if other is None or element == ".":
                continue
            both = _shared(child, other)
            if both is not None:
                shared[element] = both
    if not shared:
        return MEMBER if member else None
    if member:
        shared["."] = MEMBER
    return shared


def _paths(node: Tree, prefix: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Members first, then what is below them, each in order: the order in which the server lists conflicts."""
    ordered = _sorted(node)
    for element in ordered:
        child = node[element]
        if not child or "." in child:
            yield (*prefix, element)
    for element in ordered:
        if node[element]:
            yield from _paths(node[element], (*prefix, element))


class PathSet:
    """An immutable set of field paths. Membership of a parent says nothing about its children, and the reverse.

    `tree` is the set itself and may be shared with other sets and with stored objects: read it, never change it.
    """

    __slots__ = ("tree",)

    def __init__(self, tree: Tree | None = None) -> None:
        """Take a tree that is canonical already (one that this module made, or `parse`)."""
        self.tree: Tree = tree if tree is not None else MEMBER

    @classmethod
    def parse(cls, document: Any) -> "PathSet":
        """Read a FieldsV1 document from outside: spellings are made canonical, unknown kinds of elements dropped."""
        tree = dict(_read(document))
        # The whole object is never a member; an empty document is the empty set.
        tree.pop(".", None)
        return cls(tree)

    @classmethod
    def of(cls, paths: Iterable[Iterable[str]]) -> "PathSet":
        """The set of these paths, each a sequence of elements such as `f:spec`."""
        tree: Tree = {}
        for path in paths:
            elements = [_canonical(element) for element in path]
            if elements:
                branch: Tree = MEMBER
                for element in reversed(elements):
                    branch = {element: branch}
                tree = _united(tree, branch) if tree else branch
        return cls(tree)

    def as_fields(self) -> Tree:
        """The FieldsV1 document, in the order of the real server. A fresh one: the caller may keep it."""
        return _written(self.tree)

    def union(self, other: "PathSet") -> "PathSet":
        if not self.tree:
            return other
        if not other.tree:
            return self
        united = _united(self.tree, other.tree)
        return self if united is self.tree else PathSet(united)

    def difference(self, other: "PathSet") -> "PathSet":
        """The paths that are not in the other set. Returns itself when nothing was taken."""
        return self._less(other, below=False)

    def without_branches(self, other: "PathSet") -> "PathSet":
        """The paths that are neither in the other set nor anywhere below one of its paths."""
        return self._less(other, below=True)

    def _less(self, other: "PathSet", *, below: bool) -> "PathSet":
        if not self.tree or not other.tree:
            return self
        # A root is not a member, so both get a harmless marker of their own by being handled as inner nodes.
        rest = _inner_without(self.tree, other.tree, below=below)
        return self if rest is self.tree else PathSet(rest)

    def intersection(self, other: "PathSet") -> "PathSet":
        if not self.tree or not other.tree:
            return EMPTY
        shared: Tree = {}
        for element, child in self.tree.items():
            counterpart = other.tree.get(element)
            if counterpart is not None and (both := _shared(child, counterpart)) is not None:
                shared[element] = both
        return PathSet(shared)

    def has(self, path: Iterable[str]) -> bool:
        node: Tree | None = self.tree
        depth = 0
        for element in path:
            node = node.get(element) if node else None
            if node is None:
                return False
            depth += 1
        return depth > 0 and (not node or "." in node)

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Every member, parents before children, siblings in order."""
        return _paths(self.tree, ())

    def __bool__(self) -> bool:
        return bool(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PathSet) and self.tree == other.tree

    def __hash__(self) -> int:
        return hash(frozenset(self.paths()))

    def __repr__(self) -> str:
        return f"PathSet({', '.join(''.join(map(element_text, path)) for path in self.paths())})"


def _inner_without(left: Tree, right: Tree, *, below: bool) -> Tree:
    rest = left
    for element, child in right.items():
        before = left.get(element)
        if before is None:
            continue
        kept = _without(before, child, below=below)
        if kept is before:
            continue
        if rest is left:
            rest = dict(left)
        if kept is None:
            del rest[element]
        else:
            rest[element] = kept
    return rest


EMPTY: Final = PathSet()
