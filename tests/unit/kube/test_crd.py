"""Generated CustomResourceDefinitions: structural, and saying what the struct says."""

import types
from collections.abc import Iterator
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, Optional

import pytest
import yaml
from msgspec import Meta, field

from paddock.kube.crd import SchemaError, crd_of, schema_of, to_yaml
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource, Scale


class Policy(Enum):
    REUSE = "reuse"
    TERMINATE = "terminate"


class Door(Struct, frozen=True):
    """One way in."""

    name: str
    port: Annotated[int, Meta(ge=1, le=65535)] = 22
    opened: datetime | None = None


class StableSpec(Struct, frozen=True, kw_only=True):
    """What is wanted."""

    zone: Annotated[str, Meta(min_length=1, max_length=20, pattern="^[a-z]+$", description="Where it stands.")]
    server_id: str = field(default="", name="serverID")
    """The cloud's own name for it."""
    replicas: Annotated[int, Meta(ge=0)] = 1
    quiet: Annotated[int, Meta(extra={"default": False})] = 7
    policy: Policy = Policy.REUSE
    mode: Literal["fast", "safe"] = "safe"
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5
    since: datetime | None = None
    labels: dict[str, str] = {}
    anything: dict[str, Any] = {}
    whatever: Any = None
    doors: Annotated[tuple[Door, ...], Meta(extra={"list_map_keys": ["name"]}, max_length=9)] = ()
    tags: frozenset[str] = frozenset()
    main: Door | None = None
    size: int | str = 0
    enabled: bool = True
    assign: Annotated[str, Meta(extra_json_schema={"format": "date-time"})] = "2026-01-01T00:00:00Z"


class StableStatus(Struct, frozen=True):
    conditions: tuple[Condition, ...] = ()
    replicas: int = 5
    doors: tuple[Door, ...] = ()


class Stable(KubeObject, frozen=True, kw_only=True):
    """A place for horses."""

    RESOURCE: ClassVar[Resource] = Resource(
        "example.dev",
        "v1alpha1",
        "Stable",
        "stables",
        short_names=("st",),
        categories=("farm",),
        scale=Scale(label_selector=".status.selector"),
        columns=(Column("Zone", ".spec.zone"), Column("Age", ".metadata.creationTimestamp", "date", priority=1)),
        selectable=(".spec.zone",),
        labels={"cluster.x-k8s.io/v1beta1": "v1alpha1"},
    )

    spec: StableSpec
    status: StableStatus = StableStatus()


def spec() -> dict[str, Any]:
    return schema_of(Stable)["properties"]["spec"]["properties"]


def every_schema(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield schema
    for child in schema.get("properties", {}).values():
        yield from every_schema(child)
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from every_schema(schema[key])


def test_what_an_api_server_has_rejected_is_never_written():
    for schema in every_schema(schema_of(Stable)):
        assert not {"$ref", "anyOf", "oneOf", "allOf", "title"} & schema.keys()
        if "enum" in schema:
            assert "type" in schema
        if schema.get("format") == "date-time":
            assert "default" not in schema
        assert schema.keys() & {"type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"}
        if schema.get("x-kubernetes-list-type") == "map":
            for key in schema["x-kubernetes-list-map-keys"]:
                assert key in schema["items"]["required"]


def test_constraints_and_descriptions_are_carried_over():
    assert spec()["zone"] == {
        "description": "Where it stands.",
        "type": "string",
        "minLength": 1,
        "maxLength": 20,
        "pattern": "^[a-z]+$",
    }
    assert spec()["serverID"] == {"description": "The cloud's own name for it.", "type": "string"}
    assert spec()["ratio"] == {
        "type": "number",
        "minimum": 0,
        "exclusiveMinimum": True,
        "maximum": 1,
        "exclusiveMaximum": True,
        "default": 0.5,
    }
    assert spec()["main"]["description"] == "One way in."
    assert schema_of(Stable)["description"] == "A place for horses."
    assert schema_of(Stable)["properties"]["spec"]["description"] == "What is wanted."


def test_defaults_are_shown_in_spec_only_and_may_be_kept_out():
    assert spec()["replicas"] == {"type": "integer", "format": "int64", "minimum": 0, "default": 1}
    assert spec()["policy"] == {"type": "string", "enum": ["reuse", "terminate"], "default": "reuse"}
    assert spec()["mode"] == {"type": "string", "enum": ["fast", "safe"], "default": "safe"}
    assert spec()["enabled"]["default"] is True
    assert "default" not in spec()["quiet"]
    assert "default" not in spec()["serverID"], "an empty default says nothing"
    status = schema_of(Stable)["properties"]["status"]["properties"]
    assert "default" not in status["replicas"]


def test_only_fields_without_a_default_are_required_and_only_in_spec():
    schema = schema_of(Stable)
    assert schema["required"] == ["spec"]
    assert schema["properties"]["spec"]["required"] == ["zone"]
    assert spec()["main"]["required"] == ["name"]
    status = schema["properties"]["status"]
    assert "required" not in status
    assert "required" not in status["properties"]["doors"]["items"]


def test_containers_become_maps_lists_and_what_keeps_anything():
    assert spec()["labels"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert spec()["anything"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert spec()["whatever"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert spec()["size"] == {"x-kubernetes-int-or-string": True}
    assert spec()["tags"] == {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    assert spec()["doors"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec()["doors"]["maxItems"] == 9
    conditions = schema_of(Stable)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-type"] == "map"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]


def test_the_definition_says_how_people_see_the_kind():
    crd = crd_of(Stable)
    assert crd["metadata"] == {"name": "stables.example.dev", "labels": {"cluster.x-k8s.io/v1beta1": "v1alpha1"}}
    assert crd["spec"]["names"] == {
        "kind": "Stable",
        "listKind": "StableList",
        "plural": "stables",
        "singular": "stable",
        "shortNames": ["st"],
        "categories": ["farm"],
    }
    version = crd["spec"]["versions"][0]
    assert version["subresources"] == {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    }
    assert version["additionalPrinterColumns"][1] == {
        "name": "Age",
        "type": "date",
        "jsonPath": ".metadata.creationTimestamp",
        "priority": 1,
    }
    assert version["selectableFields"] == [{"jsonPath": ".spec.zone"}]


def test_yaml_is_the_same_every_time_and_reads_back():
    text = to_yaml(crd_of(Stable), crd_of(Stable))
    assert text == to_yaml(crd_of(Stable), crd_of(Stable))
    assert "&id" not in text
    assert list(yaml.safe_load_all(text)) == [crd_of(Stable)] * 2


class Loop(Struct, frozen=True):
    inner: Optional["Loop"] = None


class Odd(Struct, frozen=True):
    value: int | Door = 3


@pytest.mark.parametrize(
    ("inner", "complaint"), [(Loop, "contains itself"), (Odd, "union"), (dict[int, str], "keys of a mapping")]
)
def test_what_no_structural_schema_can_say_is_refused_by_its_field(inner: type, complaint: str):
    members = {
        "__annotations__": {"spec": inner, "RESOURCE": ClassVar[Resource]},
        "RESOURCE": Resource("example.dev", "v1", "Bad", "bads"),
        "__module__": __name__,
    }
    bad = types.new_class("Bad", (KubeObject,), {"frozen": True, "kw_only": True}, lambda body: body.update(members))
    with pytest.raises(SchemaError, match=rf"Bad\.spec.*{complaint}"):
        schema_of(bad)
