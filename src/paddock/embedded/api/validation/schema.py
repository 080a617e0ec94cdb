"""What a CustomResourceDefinition's schema does to an object: prune what it does not know, fill in defaults, validate.

The three work on structural OpenAPI v3 schemas, where metadata is implied: apiVersion, kind and metadata of the root
and of embedded resources are left to `validate_metadata`. Each schema is compiled once; an object that needs no change
is returned as it is. Results share unchanged parts with their inputs; inputs are never changed.

Rules written in CEL (`x-kubernetes-validations`) are evaluated as far as `cel` goes: an object that only other ones would
refuse is accepted.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from paddock.embedded.api.status import Cause
from paddock.embedded.api.validation.metadata import METADATA_FIELDS, validate_metadata
from paddock.embedded.api.validation.violations import Validator

__all__ = ["apply_defaults", "prune", "validate", "validate_metadata"]

Json = dict[str, Any]
_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_KEPT_SCHEMAS: Final = 512
_ENCODE: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class _Compiled:
    source: Json
    clean: Callable[[Any], bool]
    prune: Callable[[Any, str, list[str]], Any]
    drop_nulls: Callable[[Any], Any] | None
    default: Callable[[Any], Any] | None
    validator: Validator


_compiled: dict[int, _Compiled] = {}


def _of(schema: Json) -> _Compiled:
    # The schema is kept beside what was made of it, so its id cannot come to mean another schema.
    known = _compiled.get(id(schema))
    if known is not None and known.source is schema:
        return known
    if len(_compiled) >= _KEPT_SCHEMAS:
        _compiled.clear()
    made = _Compiled(
        source=schema,
        clean=_clean_check(schema, embedded=True) or _always,
        prune=_pruner(schema, embedded=True) or _keep,
        drop_nulls=_null_dropper(schema),
        default=_defaulter(schema),
        validator=Validator(schema),
    )
    _compiled[id(schema)] = made
    return made


def prune(schema: Json, obj: Json) -> tuple[Json, list[str]]:
    """The object without fields that the schema does not declare, and their paths (`spec.ports[0].x`), sorted."""
    compiled = _of(schema)
    unknown: list[str] = []
    if compiled.clean(obj):
        return obj, unknown
    pruned = compiled.prune(obj, "", unknown)
    unknown.sort()
    return pruned, unknown


def apply_defaults(schema: Json, obj: Json) -> Json:
    """The object with the schema's defaults filled in, also inside objects and list items that are there.

    An explicit null stays where the schema says nullable; elsewhere it gives way to the default, and goes if there is
    none.
    """
    compiled = _of(schema)
    # Encoding is far quicker than a walk; a null inside a string only costs the walk.
    if compiled.drop_nulls is not None and b"null" in _ENCODE(obj):
        obj = compiled.drop_nulls(obj)
    return compiled.default(obj) if compiled.default is not None else obj


def validate(schema: Json, obj: Json, old: Json | None = None, *, subresource: str = "") -> list[Cause]:
    """Every violation of the schema at once, in the words of the real server.

    With `old`, the object as it is stored, what was invalid before and has not changed is let through, as an update
    is. Through the subresource `status` only `status` is looked at. CEL rules are `cel`'s.
    """
    return _of(schema).validator.causes(obj, old, subresource)


# ------------------------------------------------------------------------ pruning


def _always(_value: Any) -> bool:
    return True


def _clean_metadata(value: Any) -> bool:
    return value.__class__ is dict and value.keys() <= METADATA_FIELDS and all(value.values())


def _clean_check(schema: Json, *, embedded: bool = False) -> Callable[[Any], bool] | None:
    """The quick answer to whether there is nothing to prune: yes, or perhaps. None where there never is."""
    embedded = embedded or schema.get("x-kubernetes-embedded-resource") is True
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") is True
    properties: dict[str, Any] = schema.get("properties") or {}
    more, items = schema.get("additionalProperties"), schema.get("items")
    inner = {name: found for name, below in properties.items() if (found := _clean_check(below)) is not None}
    if embedded:
        inner = {**{name: found for name, found in inner.items() if name not in _META}, "metadata": _clean_metadata}
    known = frozenset(properties) | (_META if embedded else frozenset())
    open_ = preserve or isinstance(more, dict)
    each = _clean_check(more) if isinstance(more, dict) else None
    item = _clean_check(items) if isinstance(items, dict) else None
    if schema.get("type") in {"string", "integer", "number", "boolean"} or (
        open_ and not inner and each is None and item is None
    ):
        return None
    if schema.get("type") == "array":
        return lambda value: value.__class__ is list and (item is None or all(map(item, value)))

    def check(value: Any) -> bool:
        if value.__class__ is not dict or not (open_ or value.keys() <= known):
            return False
        for name, below in inner.items():
            child = value.get(name)
            if child is not None and not below(child):
                return False
        return each is None or all(each(child) for name, child in value.items() if name not in known)

    return check


def _keep(value: Any, _path: str, _unknown: list[str]) -> Any:
    return value


def _drop_all(value: Any, path: str, unknown: list[str]) -> Any:
    """No schema here: objects lose all their fields, scalars stay."""
    if isinstance(value, dict):
        unknown.extend(f"{path}.{name}" if path else name for name in value)
        return {} if value else value
    if isinstance(value, list):
        return [_drop_all(item, f"{path}[{i}]", unknown) for i, item in enumerate(value)]
    return value


def _prune_metadata(value: Any, path: str, unknown: list[str]) -> Any:
    """Unknown fields go, and so do empty ones: the real server reads metadata into a type that does not keep them."""
    if not isinstance(value, dict) or (value.keys() <= METADATA_FIELDS and all(value.values())):
        return value
    unknown.extend(f"{path}.{name}" for name in value if name not in METADATA_FIELDS)
    return {
        name: child
        for name, child in value.items()
        if name in METADATA_FIELDS and (child or name == "deletionGracePeriodSeconds")
    }


def _pruner(schema: Json | None, *, embedded: bool = False) -> Callable[[Any, str, list[str]], Any] | None:
    """How values under a schema are pruned; None where nothing can be unknown."""
    if schema is None:
        return _drop_all
    embedded = embedded or schema.get("x-kubernetes-embedded-resource") is True
    preserve = schema.get("x-kubernetes-preserve-unknown-fields") is True
    properties: dict[str, Any] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    items = schema.get("items")
    below = {name: _pruner(inner) for name, inner in properties.items() if not (embedded and name in _META)}
    inner = {name: pruner for name, pruner in below.items() if pruner is not None}
    has_more = more is not None and more is not False
    each = _pruner(more) if isinstance(more, dict) else (_drop_all if more is True else None)
    item = _pruner(items) if isinstance(items, dict) else (None if preserve else _drop_all)
    scalar = schema.get("type") in {"string", "integer", "number", "boolean"}
    if scalar or (preserve and not embedded and not inner and each is None and item is None):
        return None
    if embedded:
        inner = {"metadata": _prune_metadata, **inner}
    known = frozenset(properties) | (_META if embedded else frozenset())
    return _object_pruner(
        known=known,
        meta=_META if embedded else frozenset(),
        inner=inner,
        each=each,
        open_=preserve or has_more,
        item=item,
    )


def _object_pruner(
    *,
    known: frozenset[str],
    meta: frozenset[str],
    inner: dict[str, Callable[[Any, str, list[str]], Any]],
    each: Callable[[Any, str, list[str]], Any] | None,
    open_: bool,
    item: Callable[[Any, str, list[str]], Any] | None,
) -> Callable[[Any, str, list[str]], Any]:
    def run(value: Any, path: str, unknown: list[str]) -> Any:
        if isinstance(value, dict):
            return in_object(value, path, unknown)
        if isinstance(value, list) and item is not None:
            pruned = [item(entry, f"{path}[{i}]", unknown) for i, entry in enumerate(value)]
            return value if all(map(_is, pruned, value)) else pruned
        return value

    def in_object(value: Json, path: str, unknown: list[str]) -> Json:
        result = value
        if not open_ and not value.keys() <= known:
            result = {name: child for name, child in value.items() if name in known}
            unknown.extend(f"{path}.{name}" if path else name for name in value if name not in known)
        prefix = path + "." if path else ""
        for name, pruner in inner.items():
            child = value.get(name)
            if child.__class__ is dict or child.__class__ is list:
                pruned = pruner(child, prefix + name, unknown)
                if pruned is not child:
                    result = dict(value) if result is value else result
                    result[name] = pruned
        if each is not None:
            for name, child in value.items():
                if name not in known and name not in meta:
                    pruned = each(child, prefix + name, unknown)
                    if pruned is not child:
                        result = dict(value) if result is value else result
                        result[name] = pruned
        return result

    return run


def _is(left: Any, right: Any) -> bool:
    return left is right


# --------------------------------------------------------------- nulls and defaults


def _null_dropper(schema: Json) -> Callable[[Any], Any] | None:
    """Takes out explicit nulls that are neither nullable nor have a default; None where there can be none."""
    properties: dict[str, Any] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    items = schema.get("items")
    forbidden = frozenset(name for name, inner in properties.items() if _null_goes(inner))
    inner = {name: dropper for name, below in properties.items() if (dropper := _null_dropper(below)) is not None}
    more_schema = more if isinstance(more, dict) else None
    more_forbidden = more_schema is not None and _null_goes(more_schema)
    each = _null_dropper(more_schema) if more_schema is not None else None
    item = _null_dropper(items) if isinstance(items, dict) else None
    if not forbidden and not inner and not more_forbidden and each is None and item is None:
        return None

    def run(value: Any) -> Any:
        if isinstance(value, dict):
            result = value
            if None in value.values():
                result = {
                    name: child
                    for name, child in value.items()
                    if child is not None or not (name in forbidden or (more_forbidden and name not in properties))
                }
            result = _mapped(result, inner)
            if each is not None:
                result = _mapped(result, {name: each for name in result if name not in properties})
            return result
        if isinstance(value, list) and item is not None:
            return _mapped_list(value, item)
        return value

    return run


def _null_goes(schema: Json) -> bool:
    return not schema.get("nullable") and schema.get("default") is None


def _mapped(value: Json, inner: dict[str, Callable[[Any], Any]]) -> Json:
    result = value
    for name, change in inner.items():
        child = value.get(name)
        if child.__class__ is dict or child.__class__ is list:
            changed = change(child)
            if changed is not child:
                result = dict(value) if result is value else result
                result[name] = changed
    return result


def _mapped_list(value: list[Any], item: Callable[[Any], Any]) -> list[Any]:
    changed = [item(entry) for entry in value]
    return value if all(map(_is, changed, value)) else changed


def _defaulter(schema: Json) -> Callable[[Any], Any] | None:
    """Fills in defaults at and below a schema; None where there are none."""
    properties: dict[str, Any] = schema.get("properties") or {}
    more = schema.get("additionalProperties")
    items = schema.get("items")
    own = {
        name: (inner["default"], not inner.get("nullable"))
        for name, inner in properties.items()
        if inner.get("default") is not None
    }
    inner = {name: default for name, below in properties.items() if (default := _defaulter(below)) is not None}
    more_schema: Json | None = more if isinstance(more, dict) else None
    each = _replacing_null(more_schema)
    item = _replacing_null(items if isinstance(items, dict) else None)
    if not own and not inner and each is None and item is None:
        return None

    def run(value: Any) -> Any:
        if isinstance(value, dict):
            result = value
            for name, (default, over_null) in own.items():
                if name not in value or (over_null and value[name] is None):
                    result = dict(value) if result is value else result
                    result[name] = copy.deepcopy(default)
            result = _mapped(result, inner)
            if each is not None:
                for name, child in value.items():
                    if name not in properties:
                        changed = each(child)
                        if changed is not child:
                            result = dict(value) if result is value else result
                            result[name] = changed
            return result
        if isinstance(value, list) and item is not None:
            return _mapped_list(value, item)
        return value

    return run


def _replacing_null(schema: Json | None) -> Callable[[Any], Any] | None:
    """For values that have no key of their own in the schema: list items, and values of a map."""
    if schema is None:
        return None
    below = _defaulter(schema)
    default = schema.get("default")
    if below is None and default is None:
        return None
    over_null = default is not None and not schema.get("nullable")

    def run(value: Any) -> Any:
        if value is None and over_null:
            value = copy.deepcopy(default)
        return below(value) if below is not None else value

    return run
