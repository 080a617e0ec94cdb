"""A custom resource with one field for each way in which fields can be owned, defaulted and refused."""

from typing import Any

from paddock.embedded.api.kinds import Kind, kinds_from_crd

_ITEM: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "port": {"type": "integer", "format": "int32", "minimum": 1},
        "opts": {"type": "object", "properties": {"x": {"type": "string"}}},
        "mode": {"type": "string", "default": "auto"},
    },
}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "enum": ["M1-M", "M2-M"]},
        "slots": {"type": "integer", "minimum": 1, "maximum": 10, "default": 2},
        "small": {"type": "integer", "format": "int32"},
        "ratio": {"type": "number", "minimum": 0.5},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "plain": {"type": "array", "maxItems": 3, "minItems": 1, "items": {"type": "string", "maxLength": 5}},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _ITEM,
        },
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "proto"],
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer"},
                    "proto": {"type": "string", "default": "TCP"},
                    "v": {"type": "string"},
                },
            },
        },
        "one": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "net": {
            "type": "object",
            "properties": {
                "vpc": {"type": "string"},
                "sub": {"type": "object", "default": {}, "properties": {"z": {"type": "string", "default": "zz"}}},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "half": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"q": {"type": "string"}}}},
        },
        "ios": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "nul": {"type": "string", "nullable": True, "default": "d"},
        "pat": {"type": "string", "pattern": "^a[0-9]+$", "minLength": 3},
        "when": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean"},
        "embed": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "either": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
    },
}
_CONDITION: dict[str, Any] = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"}},
}
STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
}
SCHEMA: dict[str, Any] = {"type": "object", "required": ["spec"], "properties": {"spec": SPEC, "status": STATUS}}
WIDGET: Kind = kinds_from_crd(
    {
        "spec": {
            "group": "h.dev",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": SCHEMA},
                }
            ],
        }
    }
)[0]


def widget(name: str = "w", *, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "h.dev/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": spec,
    }
