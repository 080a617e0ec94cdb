"""The field guide as OpenAPI schemas: for `kubectl explain`, and to refuse values of a wrong type before anything reads them."""

import re
from functools import cache
from typing import Any

from paddock.embedded.api.builtin import field_guide

__all__ = ["META", "definitions", "mistyped", "prune", "reference"]

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""Prefix of the definitions that every group shares."""

_TEXTS: dict[str, tuple[str, str]] = {
    "": ("io.k8s.api.core.v1.", field_guide.CORE),
    "coordination.k8s.io": ("io.k8s.api.coordination.v1.", field_guide.COORDINATION),
    "rbac.authorization.k8s.io": ("io.k8s.api.rbac.v1.", field_guide.RBAC),
    "apiextensions.k8s.io": ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.", field_guide.EXTENSIONS),
    "certificates.k8s.io": ("io.k8s.api.certificates.v1.", field_guide.CERTIFICATES),
    "authentication.k8s.io": ("io.k8s.api.authentication.v1.", field_guide.AUTHENTICATION),
    "authorization.k8s.io": ("io.k8s.api.authorization.v1.", field_guide.AUTHORIZATION),
}

_SCALARS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "int": {"type": "integer", "format": "int64"},
    "bool": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "quantity": {"x-kubernetes-int-or-string": True},
    "bytes": {"type": "string", "format": "byte"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "int|string": {"x-kubernetes-int-or-string": True},
}
_LINE = re.compile(r"(?P<indent> *)(?P<name>[\w]+)(?P<required>!?)(?: (?P<type>\S+))? \| (?P<says>.+)")


def reference(group: str, kind: str) -> str:
    """The full name of a built-in definition."""
    return _TEXTS[group][0] + kind


@cache
def definitions(group: str | None) -> dict[str, dict[str, Any]]:
    """Full name → schema for one group of built-ins, or for what all groups share (None). Callers must not change it."""
    prefix, text = _TEXTS.get(group, ("", "")) if group is not None else (META, field_guide.SHARED)
    shared = re.findall(r"^(\w+) \|", field_guide.SHARED, re.MULTILINE)
    found: dict[str, dict[str, Any]] = {}
    current: dict[str, Any] = {}
    for line in text.strip().splitlines():
        parsed = _LINE.fullmatch(line)
        assert parsed is not None, line
        if not parsed["indent"]:
            current = {"type": "object", "description": parsed["says"], "properties": {}}
            found[prefix + parsed["name"]] = current
            continue
        if parsed["required"]:
            current.setdefault("required", []).append(parsed["name"])
        schema = _schema(parsed["type"], prefix, shared)
        if "$ref" in schema:
            schema = {"allOf": [schema]}
        current["properties"][parsed["name"]] = {"description": parsed["says"], **schema}
    return found


@cache
def _known(group: str) -> dict[str, dict[str, Any]]:
    """Everything that a definition of this group may refer to."""
    return definitions(group) | definitions(None)


def _schema(kind: str, prefix: str, shared: list[str]) -> dict[str, Any]:
    if kind.startswith("[]"):
        return {"type": "array", "items": _schema(kind[2:], prefix, shared)}
    if kind.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema(kind[2:], prefix, shared)}
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    return {"$ref": f"#/components/schemas/{META if kind in shared else prefix}{kind}"}


_JSON_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
_GO_NAMES = {"string": "string", "integer": "int64", "boolean": "bool"}

_Definitions = dict[str, dict[str, Any]]

_NULL_IS_MEANT = frozenset({"CustomResourceDefinitionVersion"})
"""A schema's `default` and `enum` may hold null."""
_PARTIAL = frozenset({"Node", "Pod", "Service"})


def mistyped(group: str, kind: str, obj: dict[str, Any]) -> str | None:
    """The first value whose type contradicts the field guide, in the words of the real decoder; None if there is none.

    Null fits everywhere, as it does there, but not as an item of a list: the real decoder makes an empty item of it, which nobody
    means. What passes can be read by code that trusts the types of the guide.
    """
    known = _known(group)
    root = known.get(reference(group, kind)) if group in _TEXTS else None
    if root is None:
        return None
    meta = {"$ref": f"#/components/schemas/{META}ObjectMeta"}
    return _mistyped(root, obj, kind, "", known) or _mistyped(meta, obj.get("metadata"), kind, ".metadata", known)


def _mistyped(schema: dict[str, Any], value: Any, struct: str, path: str, known: _Definitions) -> str | None:
    """`struct` is the definition that holds the value, `path` where the value is in the whole object."""
    if value is None:
        return None
    target = (schema.get("allOf") or [schema])[0].get("$ref")
    inner = known[target.rpartition("/")[2]] if target else schema
    wanted = inner.get("type", "string")
    fits = isinstance(value, (str, int, float)) if inner.get("x-kubernetes-int-or-string") else _fits(wanted, value)
    if not fits:
        found = _JSON_NAMES.get(type(value), "value")
        return f"json: cannot unmarshal {found} into Go struct field {struct}{path} of type {_go_type(schema)}"
    if wanted == "array":
        if None in value:
            return _null_item(struct, path)
        return next((bad for item in value if (bad := _mistyped(inner["items"], item, struct, path, known))), None)
    if wanted != "object":
        return None
    if inner.get("x-kubernetes-preserve-unknown-fields"):
        return None if struct in _NULL_IS_MEANT else _unguided(value, struct, path)
    struct = target.rpartition(".")[2] if target else struct
    fields, rest = inner.get("properties", {}), inner.get("additionalProperties")
    for name, part in value.items():
        if name in fields:
            bad = _mistyped(fields[name], part, struct, f"{path}.{name}", known)
        else:
            bad = _mistyped(rest, part, struct, path, known) if rest else _unguided(part, struct, f"{path}.{name}")
        if bad is not None:
            return bad
    return None


def _unguided(value: Any, struct: str, path: str) -> str | None:
    """The first null among the items of a list, in a part that the guide does not tell."""
    if isinstance(value, list):
        if None in value:
            return _null_item(struct, path)
        return next((bad for item in value if (bad := _unguided(item, struct, path))), None)
    if not isinstance(value, dict):
        return None
    return next((bad for name, part in value.items() if (bad := _unguided(part, struct, f"{path}.{name}"))), None)


def _null_item(struct: str, path: str) -> str:
    return f"json: null is no item of the list {struct}{path}: leave it out"


def prune(group: str, kind: str, obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The object without fields that its kind does not have, and where they were.

    Of kinds in `_PARTIAL` the guide does not tell everything, so only their outermost fields are judged.
    """
    known = _known(group)
    root = known.get(reference(group, kind)) if group in _TEXTS else None
    if root is None:
        return obj, []
    unknown: list[str] = []
    declared = {*root["properties"], "apiVersion", "kind", "metadata"}
    meta = {"$ref": f"#/components/schemas/{META}ObjectMeta"}
    kept: dict[str, Any] = {}
    for name, part in obj.items():
        if name not in declared:
            unknown.append(name)
        elif _says_nothing(root["properties"].get(name, {}), part):
            continue
        elif name == "metadata":
            kept[name] = _pruned(meta, part, name, known, unknown)
        else:
            schema = root["properties"].get(name)
            kept[name] = part if schema is None or kind in _PARTIAL else _pruned(schema, part, name, known, unknown)
    return kept, unknown


def _pruned(schema: dict[str, Any], value: Any, path: str, known: _Definitions, unknown: list[str]) -> Any:
    target = (schema.get("allOf") or [schema])[0].get("$ref")
    inner = known[target.rpartition("/")[2]] if target else schema
    if isinstance(value, list) and "items" in inner:
        return [_pruned(inner["items"], v, f"{path}[{i}]", known, unknown) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if (rest := inner.get("additionalProperties")) and value:
        return {name: _pruned(rest, part, f"{path}.{name}", known, unknown) for name, part in value.items()}
    fields = inner.get("properties")
    if not fields:
        return value
    unknown += [f"{path}.{name}" for name in value if name not in fields]
    return {
        name: _pruned(fields[name], part, f"{path}.{name}", known, unknown)
        for name, part in value.items()
        if name in fields and not _says_nothing(fields[name], part)
    }


def _says_nothing(schema: dict[str, Any], value: Any) -> bool:
    """An empty map is the same as none; an empty struct (`emptyDir: {}`) is not."""
    return value == {} and "additionalProperties" in schema


def _go_type(schema: dict[str, Any]) -> str:
    target = (schema.get("allOf") or [schema])[0].get("$ref")
    if target:
        return f"v1.{target.rpartition('.')[2]}"
    if "items" in schema:
        return f"[]{_go_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map[string]{_go_type(schema['additionalProperties'])}"
    return _GO_NAMES.get(schema.get("type", "string"), "object")


def _fits(wanted: str, value: Any) -> bool:
    match wanted:
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)
