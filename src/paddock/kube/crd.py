"""A kind's CustomResourceDefinition, generated from its struct.

The schema is structural, as the API server demands: no `$ref`, no `anyOf`, every enum with its `type`, no default on a
date-time. What the struct says is what the schema says:

- `spec` requires the fields that have no default; in `status` only the keys of a list-map are required, because a status
  is written by us and in parts;
- a scalar default in `spec` that is not empty (`1`, `True`, `"reuse"`) becomes an OpenAPI default, so that people see the
  value that holds; `Meta(extra={"default": False})` keeps one out. Nothing in `status` is defaulted;
- `T | None` is simply optional;
- descriptions come from `Meta(description=…)`, else from the text below the field, else from the docstring of its struct;
- lists are tuples (a set has no order of its own, so that applying it twice may send it twice);
- a tuple of `Condition` is a list-map by `type`; `Meta(extra={"list_map_keys": ["name"]})` makes others, and
  `Meta(extra={"list_type": "set"})` a set;
- `Any` and `dict[str, Any]` keep whatever they are given.
"""

import ast
import inspect
import itertools
import textwrap
from enum import Enum
from functools import cache
from typing import Any, Final

import msgspec
import yaml
from msgspec import inspect as types

from paddock.kube.objects import Condition, KubeObject
from paddock.kube.resource import Resource

__all__ = ["SchemaError", "crd_of", "schema_of", "to_yaml"]

Json = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"


class SchemaError(TypeError):
    """The struct says something that no structural schema can: the message names the field."""


def crd_of(kind: type[KubeObject]) -> Json:
    """The CustomResourceDefinition of a kind, with one version that is served and stored."""
    resource = kind.RESOURCE
    names: Json = {"kind": resource.kind, "listKind": f"{resource.kind}List", "plural": resource.plural}
    names["singular"] = resource.singular or resource.kind.lower()
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    if resource.categories:
        names["categories"] = list(resource.categories)
    metadata: Json = {"name": f"{resource.plural}.{resource.group}"}
    if resource.labels:
        metadata["labels"] = dict(sorted(resource.labels.items()))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [_version(kind, resource)],
        },
    }


def to_yaml(*documents: Json) -> str:
    """YAML that is the same for the same input: keys in the order given, no anchors."""
    return yaml.dump_all(
        documents,
        Dumper=_Plain,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=120,
        explicit_start=True,
    )


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - pyyaml's own signature
        return True


def _version(kind: type[KubeObject], resource: Resource) -> Json:
    version: Json = {"name": resource.version, "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema_of(kind)}
    subresources: Json = {}
    if resource.status:
        subresources["status"] = {}
    if (scale := resource.scale) is not None:
        subresources["scale"] = {
            "specReplicasPath": scale.spec_replicas,
            "statusReplicasPath": scale.status_replicas,
        } | ({"labelSelectorPath": scale.label_selector} if scale.label_selector else {})
    if subresources:
        version["subresources"] = subresources
    if resource.columns:
        version["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            | ({"format": column.format} if column.format else {})
            | ({"description": column.description} if column.description else {})
            | ({"priority": column.priority} if column.priority else {})
            for column in resource.columns
        ]
    if resource.selectable:
        version["selectableFields"] = [{"jsonPath": path} for path in resource.selectable]
    return version


def schema_of(kind: type[KubeObject]) -> Json:
    """The structural schema of the whole object."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    properties: Json = {
        "apiVersion": {"type": "string", "description": "The version of the schema that this object follows."},
        "kind": {"type": "string", "description": "What this object is."},
        "metadata": _metadata(kind.RESOURCE.longest_name),
    }
    required: list[str] = []
    for field in info.fields:
        if field.encode_name in properties:
            continue
        in_spec = field.encode_name != "status"
        schema = _Translator(kind.RESOURCE.kind, defaults=in_spec, strict=in_spec).field(kind, field)
        properties[field.encode_name] = schema
        if field.required:
            required.append(field.encode_name)
    text = kind.RESOURCE.description or _docstring(kind)
    return ({"description": text} if text else {}) | _object(properties, required)


def _metadata(longest_name: int) -> Json:
    """Of metadata a definition may restrict the name alone."""
    if not longest_name:
        return {"type": "object"}
    return {"type": "object", "properties": {"name": {"type": "string", "maxLength": longest_name}}}


def _object(properties: Json, required: list[str]) -> Json:
    return {"type": "object", "properties": properties} | ({"required": sorted(required)} if required else {})


_PASSED_ON: Final = ("description", "format", "x-kubernetes-validations")


class _Translator:
    """From msgspec's types to a structural schema; `defaults` and `strict` say whether this is spec or status."""

    def __init__(self, where: str, *, defaults: bool, strict: bool, inside: tuple[type, ...] = ()) -> None:
        self._where = where
        self._defaults = defaults
        self._strict = strict
        self._inside = inside

    def field(self, owner: type, field: types.Field) -> Json:
        deeper = _Translator(
            f"{self._where}.{field.encode_name}", defaults=self._defaults, strict=self._strict, inside=self._inside
        )
        meta = field.type if isinstance(field.type, types.Metadata) else None
        extra: Json = (meta.extra if meta is not None else None) or {}
        schema = deeper.of(field.type, extra)
        said = meta is not None and "description" in (meta.extra_json_schema or {})
        if not said and (text := _field_docs(owner).get(field.name)):
            schema = {"description": text} | {k: v for k, v in schema.items() if k != "description"}
        default = _plain(field.default)
        dated = schema.get("format") == "date-time"
        scalar = isinstance(default, str | int | float) and bool(default)
        if self._defaults and scalar and not dated and extra.get("default", True):
            schema["default"] = default
        return schema

    def of(self, kind: types.Type, extra: Json | None = None) -> Json:
        marks = extra or {}
        match kind:
            case types.Metadata():
                described = {k: v for k, v in (kind.extra_json_schema or {}).items() if k in _PASSED_ON}
                return described | {
                    k: v for k, v in self.of(kind.type, marks | (kind.extra or {})).items() if k not in described
                }
            case types.UnionType():
                return self._union(kind, marks)
            case types.BoolType():
                return {"type": "boolean"}
            case types.IntType():
                return {"type": "integer", "format": "int64"} | _number(kind)
            case types.FloatType():
                return {"type": "number"} | _number(kind)
            case types.StrType():
                return {"type": "string"} | _text(kind)
            case types.BytesType():
                return {"type": "string", "format": "byte"}
            case types.DateTimeType():
                return {"type": "string", "format": "date-time"}
            case types.EnumType():
                return self._enum([member.value for member in kind.cls])
            case types.LiteralType():
                return self._enum(list(kind.values))
            case types.DictType():
                return self._mapping(kind)
            case types.ListType() | types.VarTupleType():
                return self._array(kind, marks)
            case types.SetType() | types.FrozenSetType():
                return self._array(kind, {"list_type": "set"} | marks)
            case types.StructType():
                return self._struct(kind.cls, kind.fields)
            case types.AnyType() | types.RawType():
                return {PRESERVE: True}
            case _:
                raise SchemaError(f"{self._where}: {type(kind).__name__} has no structural schema")

    def _union(self, kind: types.UnionType, marks: Json) -> Json:
        members = [each for each in kind.types if not isinstance(each, types.NoneType)]
        if len(members) == 1:
            return self.of(members[0], marks)
        if {type(each) for each in members} == {types.IntType, types.StrType}:
            return {"x-kubernetes-int-or-string": True}
        raise SchemaError(f"{self._where}: a union of several types has no structural schema")

    def _enum(self, values: list[Any]) -> Json:
        if all(isinstance(value, str) for value in values):
            return {"type": "string", "enum": values}
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            return {"type": "integer", "enum": values}
        raise SchemaError(f"{self._where}: an enum must be all texts or all integers")

    def _mapping(self, kind: types.DictType) -> Json:
        key = kind.key_type.type if isinstance(kind.key_type, types.Metadata) else kind.key_type
        if not isinstance(key, types.StrType):
            raise SchemaError(f"{self._where}: the keys of a mapping must be texts")
        if isinstance(kind.value_type, types.AnyType):
            return {"type": "object", PRESERVE: True}
        return {"type": "object", "additionalProperties": self.of(kind.value_type)}

    def _array(
        self, kind: types.ListType | types.VarTupleType | types.SetType | types.FrozenSetType, marks: Json
    ) -> Json:
        item = kind.item_type
        cls = item.cls if isinstance(item, types.StructType) else None
        keys = list(marks.get("list_map_keys", ()))
        if not keys and cls is not None and issubclass(cls, Condition):
            keys = ["type"]
        items = self.of(item)
        if keys:
            items["required"] = sorted({*items.get("required", ()), *keys})
        schema: Json = {"type": "array", "items": items}
        for name, value in (("minItems", kind.min_length), ("maxItems", kind.max_length)):
            if value is not None:
                schema[name] = value
        if keys:
            schema |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys}
        elif "list_type" in marks:
            schema["x-kubernetes-list-type"] = marks["list_type"]
        return schema

    def _struct(self, cls: type, fields: tuple[types.Field, ...]) -> Json:
        if cls in self._inside:
            raise SchemaError(f"{self._where}: {cls.__name__} contains itself, which no structural schema can")
        inner = _Translator(self._where, defaults=self._defaults, strict=self._strict, inside=(*self._inside, cls))
        properties = {field.encode_name: inner.field(cls, field) for field in fields}
        required = [field.encode_name for field in fields if field.required] if self._strict else []
        text = _docstring(cls)
        return ({"description": text} if text else {}) | _object(properties, required)


def _number(kind: types.IntType | types.FloatType) -> Json:
    found: Json = {}
    if kind.ge is not None or kind.gt is not None:
        found["minimum"] = kind.ge if kind.ge is not None else kind.gt
        if kind.ge is None:
            found["exclusiveMinimum"] = True
    if kind.le is not None or kind.lt is not None:
        found["maximum"] = kind.le if kind.le is not None else kind.lt
        if kind.le is None:
            found["exclusiveMaximum"] = True
    if kind.multiple_of is not None:
        found["multipleOf"] = kind.multiple_of
    return found


def _text(kind: types.StrType) -> Json:
    all_limits = {"minLength": kind.min_length, "maxLength": kind.max_length, "pattern": kind.pattern}
    return {name: value for name, value in all_limits.items() if value is not None}


def _plain(default: Any) -> Any:
    return default.value if isinstance(default, Enum) else default


def _docstring(cls: type) -> str:
    return " ".join(inspect.cleandoc(cls.__doc__).split()) if cls.__doc__ else ""


@cache
def _field_docs(cls: type) -> dict[str, str]:
    """The texts that stand right below fields in the class's source, its bases included."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not issubclass(base, msgspec.Struct) or base is msgspec.Struct:
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            continue  # without its source a class has no such texts
        body = tree.body[0].body if tree.body and isinstance(tree.body[0], ast.ClassDef) else []
        for field, below in itertools.pairwise(body):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
                and isinstance(below.value.value, str)
            ):
                docs[field.target.id] = " ".join(below.value.value.split())
    return docs
