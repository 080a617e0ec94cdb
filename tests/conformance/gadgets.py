"""The kind that the conformance cases work on: one field for every rule that a schema can state."""

from __future__ import annotations

from typing import Any

from conformance.target import GROUP

Json = dict[str, Any]

NAME = f"gadgets.{GROUP}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

_TEXT: Json = {"type": "string"}
_SPEC: Json = {
    "type": "object",
    "properties": {
        "size": {
            "type": "string",
            "enum": ["small", "medium", "large"],
            "default": "medium",
            "description": "How big.",
        },
        "slots": {"type": "integer", "minimum": 1, "maximum": 10},
        "ratio": {"type": "number"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
        "enabled": {"type": "boolean"},
        "replicas": {"type": "integer", "minimum": 0, "default": 1},
        "color": _TEXT,
        "note": {"type": "string", "nullable": True},
        "limit": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "tags": {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"},
        "steps": {
            "type": "array",
            "maxItems": 4,
            "x-kubernetes-list-type": "atomic",
            "items": {"type": "object", "properties": {"run": _TEXT}, "required": ["run"]},
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": _TEXT,
                },
            },
        },
        "network": {
            "type": "object",
            "required": ["vpc"],
            "properties": {"vpc": _TEXT, "mode": {"type": "string", "default": "nat"}},
        },
        "settings": {"type": "object", "additionalProperties": _TEXT},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_CONDITION: Json = {
    "type": "object",
    "required": ["type", "status"],
    "properties": dict.fromkeys(("type", "status", "reason", "message"), _TEXT),
}
_STATUS: Json = {
    "type": "object",
    "properties": {
        "phase": _TEXT,
        "replicas": {"type": "integer"},
        "selector": _TEXT,
        "observedGeneration": {"type": "integer"},
        "checkedAt": {"type": "string", "format": "date-time"},
        "conditions": {
            "type": "array",
            "items": _CONDITION,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
        },
    },
}
COLUMNS: list[Json] = [
    {"name": "Size", "type": "string", "jsonPath": ".spec.size", "description": "How big."},
    {"name": "Slots", "type": "integer", "jsonPath": ".spec.slots"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
    {"name": "Tag", "type": "string", "jsonPath": ".spec.tags[*]", "priority": 1},
    {"name": "Checked", "type": "date", "jsonPath": ".status.checkedAt"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def _version(name: str, *, storage: bool, columns: list[Json]) -> Json:
    schema = {
        "type": "object",
        "description": "A thing that tests turn over.",
        "properties": {"spec": _SPEC, "status": _STATUS},
    }
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    }


def definition() -> Json:
    """The Gadget's CustomResourceDefinition: two versions that differ in name and columns."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "plural": "gadgets",
                "singular": "gadget",
                "kind": "Gadget",
                "listKind": "GadgetList",
                "shortNames": ["gd"],
                "categories": ["conformance"],
            },
            "conversion": {"strategy": "None"},
            "versions": [
                _version("v1", storage=True, columns=COLUMNS),
                _version("v1beta1", storage=False, columns=COLUMNS[:1]),
            ],
        },
    }


def small_definition(plural: str, kind: str, properties: Json | None = None, **version: Any) -> Json:
    """A definition of one version, for cases that change or delete it."""
    spec = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties or {"text": _TEXT}}}}
    one = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": spec}, **version}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [one],
        },
    }


def is_established(crd: Json) -> bool:
    conditions = crd.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
