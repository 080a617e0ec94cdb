"""How the fields of a kind are owned: the view of an object that server-side apply needs.

A `Shape` says of one value whether it is a leaf, an object whose fields are owned one by one, or a list whose items are
(by keys, or by value in a set). For custom resources it is derived from the schema; for built-ins from `merge_keys`.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from paddock.embedded.api.kinds import Kind
from paddock.embedded.api.patching.merge_keys import ATOMIC_MAPS, FREE_MAPS, list_merge

__all__ = ["DEDUCED", "Shape", "shape_of"]


@dataclass(slots=True, eq=False)
class Shape:
    """What one value may be, and how it is owned. A value may be of several forms (`x-kubernetes-int-or-string`).

    scalar: "" when it may not be a scalar, else string, numeric, boolean or untyped.
    is_map / is_list: whether it may be an object or a list. atomic_map / atomic_list: owned as one value.
    fields: the declared fields; `element`: the shape of any other key (None: there may be none).
    open: undeclared keys count as declared fields whose shape follows from their name (built-ins).
    item, keys, key_defaults: of list items; a list that is neither atomic nor has keys is a set.
    """

    scalar: str = ""
    is_map: bool = False
    is_list: bool = False
    atomic_map: bool = False
    atomic_list: bool = True
    fields: dict[str, "Shape"] = field(default_factory=dict)
    element: "Shape | None" = None
    open: "OpenFields | None" = None
    item: "Shape | None" = None
    keys: tuple[str, ...] = ()
    key_defaults: dict[str, Any] = field(default_factory=dict)

    def field_shape(self, name: str) -> "Shape | None":
        """The shape of the value under a key, declared or not; None for a key that may not be there."""
        declared = self.fields.get(name)
        if declared is not None:
            return declared
        if self.open is not None:
            return self.open.shape(name)
        return self.element

    def declares(self, name: str) -> bool:
        """Whether the key is a field of the type, not merely a key of a map."""
        return self.open is not None or name in self.fields

    def item_shape(self) -> "Shape":
        return self.item if self.item is not None else UNTYPED


def _untyped() -> Shape:
    shape = Shape(scalar="untyped", is_map=True, is_list=True, atomic_map=True)
    shape.element = shape
    shape.item = shape
    return shape


def _deduced() -> Shape:
    shape = Shape(scalar="untyped", is_map=True, is_list=True, item=UNTYPED)
    shape.element = shape
    return shape


UNTYPED: Final = _untyped()
"""Anything at all, as one value."""
DEDUCED: Final = _deduced()
"""Anything at all: objects are owned key by key, lists as one value."""
_STRING: Final = Shape(scalar="string")
_STRINGS: Final = Shape(is_map=True, element=_STRING)
_NUMBER: Final = Shape(scalar="numeric")
_BOOLEAN: Final = Shape(scalar="boolean")
_SCALAR: Final = Shape(scalar="untyped")


def _metadata() -> Shape:
    names = ("generateName", "name", "namespace", "resourceVersion", "selfLink", "uid")
    owner = Shape(
        is_map=True,
        atomic_map=True,
        fields={
            **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _STRING),
            **dict.fromkeys(("blockOwnerDeletion", "controller"), _BOOLEAN),
        },
    )
    return Shape(
        is_map=True,
        fields={
            **dict.fromkeys(names, _STRING),
            "annotations": _STRINGS,
            "creationTimestamp": _SCALAR,
            "deletionGracePeriodSeconds": _NUMBER,
            "deletionTimestamp": _SCALAR,
            "finalizers": Shape(is_list=True, atomic_list=False, item=_STRING),
            "generation": _NUMBER,
            "labels": _STRINGS,
            "managedFields": Shape(is_list=True, item=UNTYPED),
            "ownerReferences": Shape(is_list=True, atomic_list=False, item=owner, keys=("uid",)),
        },
    )


METADATA: Final = _metadata()


class OpenFields:
    """The shapes of a built-in's fields by name, made when first asked for."""

    def __init__(self, kind: Kind, parent: str) -> None:
        self._kind = kind
        self._parent = parent
        self._known: dict[str, Shape] = {}

    def shape(self, name: str) -> Shape:
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = self._made(name)
        return known

    def _made(self, name: str) -> Shape:
        if name in ATOMIC_MAPS:
            return UNTYPED
        below = OpenFields(self._kind, name)
        shape = Shape(scalar="untyped", is_map=True, is_list=True, item=UNTYPED)
        if name in FREE_MAPS:
            shape.element = _SCALAR
        else:
            shape.open = below
        merge = list_merge(self._kind, self._parent, name)
        if merge is not None and not merge.atomic:
            shape.atomic_list = False
            shape.keys = merge.keys
            shape.key_defaults = dict(merge.key_defaults)
            keyed = Shape(scalar="untyped", is_map=True, is_list=True, item=UNTYPED, open=below)
            shape.item = UNTYPED if merge.atomic_items else keyed
        return shape


@lru_cache(maxsize=256)
def _builtin(kind: Kind) -> Shape:
    return Shape(
        is_map=True,
        fields={"apiVersion": _STRING, "kind": _STRING, "metadata": METADATA},
        open=OpenFields(kind, ""),
    )


_compiled: dict[int, tuple[dict[str, Any], Shape]] = {}
_COMPILED_LIMIT: Final = 512


def shape_of(kind: Kind) -> Shape:
    """The shape of whole objects of a kind; made once for each schema."""
    if kind.schema is None:
        return DEDUCED_ROOT if kind.custom else _builtin(kind)
    # The schema itself is kept beside its shape, so its id cannot come to mean another schema.
    known = _compiled.get(id(kind.schema))
    if known is not None and known[0] is kind.schema:
        return known[1]
    if len(_compiled) >= _COMPILED_LIMIT:
        _compiled.clear()
    shape = _resource(_from_schema(kind.schema, preserve=False))
    _compiled[id(kind.schema)] = (kind.schema, shape)
    return shape


def _resource(shape: Shape) -> Shape:
    fields = {**shape.fields, "apiVersion": _STRING, "kind": _STRING, "metadata": METADATA}
    # An object without any declared field is free-form, and stays so when the fields of every resource are added.
    return Shape(is_map=True, atomic_map=shape.atomic_map, fields=fields, element=shape.element)


def _from_schema(schema: dict[str, Any], *, preserve: bool) -> Shape:
    """What the real server derives from an OpenAPI schema; `preserve` is inherited by everything below."""
    preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    if kind in {"integer", "number"}:
        return _NUMBER
    if kind == "boolean":
        return _BOOLEAN
    if kind == "string":
        return _STRING if schema.get("format", "") in {"", "byte"} else _SCALAR
    shape = Shape(scalar="" if kind else "untyped")
    if kind in {"", "object"}:
        _as_map(shape, schema, preserve=preserve)
    if kind in {"", "array"}:
        _as_list(shape, schema, preserve=preserve)
    return _resource(shape) if schema.get("x-kubernetes-embedded-resource") is True else shape


def _as_map(shape: Shape, schema: dict[str, Any], *, preserve: bool) -> None:
    properties: dict[str, Any] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    shape.is_map = True
    shape.atomic_map = schema.get("x-kubernetes-map-type") == "atomic"
    shape.fields = {name: _from_schema(below, preserve=preserve) for name, below in properties.items()}
    if isinstance(more, dict):
        shape.element = _from_schema(more, preserve=preserve)
    elif more is True or (more is None and (preserve or not properties)):
        shape.element = DEDUCED


def _as_list(shape: Shape, schema: dict[str, Any], *, preserve: bool) -> None:
    items = schema.get("items")
    shape.is_list = True
    shape.item = _from_schema(items, preserve=preserve) if isinstance(items, dict) else UNTYPED
    how = schema.get("x-kubernetes-list-type", "atomic")
    shape.atomic_list = how not in {"map", "set"}
    if how == "map":
        shape.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        below: dict[str, Any] = (items or {}).get("properties") or {}
        shape.key_defaults = {key: below[key]["default"] for key in shape.keys if "default" in below.get(key, {})}


DEDUCED_ROOT: Final = _resource(DEDUCED)
