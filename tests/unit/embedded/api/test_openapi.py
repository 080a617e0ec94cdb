import hashlib

import msgspec
import pytest

from paddock.embedded.api.builtin.catalogue import KINDS
from paddock.embedded.api.documents.openapi import V2_DOCUMENT, document, index
from paddock.embedded.api.kinds import Kind, Kinds

SCHEMA = {
    "type": "object",
    "description": "A Mac mini.",
    "properties": {
        "apiVersion": {"type": "string"},
        "metadata": {"type": "object"},
        "spec": {
            "type": "object",
            "required": ["type"],
            "properties": {"type": {"type": "string", "enum": ["M4-S"], "description": "The model."}},
        },
    },
}
MACHINE = Kind(
    "infrastructure.cluster.x-k8s.io",
    "v1alpha1",
    "ScalewayAppleSiliconMachine",
    "scalewayapplesiliconmachines",
    "scalewayapplesiliconmachine",
    namespaced=True,
    custom=True,
    schema=SCHEMA,
)
GROUP = MACHINE.group


@pytest.fixture
def kinds():
    return Kinds([*KINDS, MACHINE])


def referenced(value):
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for part in value.values():
            yield from referenced(part)
    elif isinstance(value, list):
        for part in value:
            yield from referenced(part)


def test_the_index_names_every_group_and_version_with_a_hash(kinds):
    paths = index(kinds)["paths"]
    digest = hashlib.sha256(msgspec.json.encode(document(kinds, GROUP, "v1alpha1"))).hexdigest().upper()
    url = paths[f"apis/{GROUP}/v1alpha1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/{GROUP}/v1alpha1?hash={digest}"
    assert paths["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


def test_every_kind_that_can_be_patched_promises_to_validate_fields_itself(kinds):
    for kind in kinds:
        made = document(kinds, kind.group, kind.version)
        assert made is not None
        operations = [o for path in made["paths"].values() for o in path.values()]
        own = [o for o in operations if o["x-kubernetes-group-version-kind"]["kind"] == kind.kind]
        for operation in own:
            if operation["x-kubernetes-action"] in ("patch", "post", "put"):
                assert "fieldValidation" in [p["name"] for p in operation["parameters"]]
        assert any(o["x-kubernetes-action"] == "patch" for o in own) == ("patch" in kind.verbs)


def test_a_custom_kind_is_explained_by_its_own_schema(kinds):
    made = document(kinds, GROUP, "v1alpha1")
    assert made is not None
    schema = made["components"]["schemas"]["io.x-k8s.cluster.infrastructure.v1alpha1.ScalewayAppleSiliconMachine"]
    assert schema["description"] == "A Mac mini."
    assert schema["properties"]["spec"] == SCHEMA["properties"]["spec"]
    assert schema["properties"]["metadata"]["allOf"][0]["$ref"].endswith(".ObjectMeta")
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": GROUP, "version": "v1alpha1", "kind": "ScalewayAppleSiliconMachine"}
    ]
    assert (
        "/apis/infrastructure.cluster.x-k8s.io/v1alpha1/namespaces/{namespace}/scalewayapplesiliconmachines/{name}"
        in (made["paths"])
    )


def test_making_documents_leaves_the_definition_alone(kinds):
    document(kinds, GROUP, "v1alpha1")
    assert SCHEMA["properties"]["metadata"] == {"type": "object"}
    assert "x-kubernetes-group-version-kind" not in SCHEMA


def test_a_custom_kind_without_a_schema_may_hold_anything():
    bare = Kind("a.b", "v1", "Thing", "things", "thing", namespaced=False, custom=True)
    made = document(Kinds([bare]), "a.b", "v1")
    assert made is not None
    assert made["components"]["schemas"]["b.a.v1.Thing"]["x-kubernetes-preserve-unknown-fields"] is True
    assert "/apis/a.b/v1/things/{name}" in made["paths"]


@pytest.mark.parametrize(("group", "version"), [("", "v1"), (GROUP, "v1alpha1"), ("rbac.authorization.k8s.io", "v1")])
def test_every_reference_leads_somewhere(kinds, group, version):
    made = document(kinds, group, version)
    assert made is not None
    known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert set(referenced(made)) <= known


def test_every_field_of_the_built_ins_is_described(kinds):
    for group, versions in kinds.groups().items():
        for version in versions:
            made = document(kinds, group, version)
            assert made is not None
            for name, schema in made["components"]["schemas"].items():
                assert schema.get("description"), name
                if name.startswith("io.k8s."):
                    assert all(field.get("description") for field in schema["properties"].values()), name


def test_reviews_can_be_posted_and_nothing_else(kinds):
    made = document(kinds, "authorization.k8s.io", "v1")
    assert made is not None
    assert {tuple(path) for path in made["paths"].values()} == {("post",)}


def test_built_ins_are_not_patched_by_this_guide_but_by_the_types_kubectl_knows(kinds):
    made = document(kinds, "", "v1")
    assert made is not None
    assert all("requestBody" not in path["patch"] for path in made["paths"].values() if "patch" in path)


def test_a_document_is_made_once_for_each_state_of_the_registry(kinds):
    first, paths = document(kinds, "", "v1"), index(kinds)["paths"]
    assert document(kinds, "", "v1") is first
    kinds.remove(GROUP, MACHINE.plural)
    assert document(kinds, GROUP, "v1alpha1") is None
    assert f"apis/{GROUP}/v1alpha1" not in index(kinds)["paths"]
    kinds.add(MACHINE)
    assert index(kinds)["paths"] == paths


def test_what_is_not_served_has_no_document(kinds):
    assert document(kinds, "apps", "v1") is None


def test_the_v2_document_is_the_22_bytes_that_satisfy_old_clients():
    assert len(V2_DOCUMENT) == 22
    assert b"Kubernetes" in V2_DOCUMENT
