"""What the outside sees of our kinds, held fixed: fields that must be given, columns, labels, names."""

from collections.abc import Iterator
from typing import Any

import pytest
from unit.hosts.made import machine

from paddock.hosts import api
from paddock.kube.crd import crd_of
from paddock.kube.objects import KubeObject

DEFINITIONS = {kind.RESOURCE.kind: crd_of(kind) for kind in api.KINDS}
CONTRACTS = {
    "cluster.x-k8s.io/v1beta1": "v1alpha1",
    "cluster.x-k8s.io/v1beta2": "v1alpha1",
    "clusterctl.cluster.x-k8s.io": "",
}


def version(kind: str) -> dict[str, Any]:
    (only,) = DEFINITIONS[kind]["spec"]["versions"]
    return only


def required(schema: dict[str, Any], path: str = "") -> Iterator[str]:
    for name in schema.get("required", []):
        yield f"{path}.{name}"
    for name, child in schema.get("properties", {}).items():
        yield from required(child, f"{path}.{name}")
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict):
            yield from required(schema[inner], f"{path}[]")


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("ScalewayAppleSiliconMachine", {".status.conditions[].type"}),
        (
            "ScalewayAppleSiliconMachineTemplate",
            {".spec", ".spec.template", ".spec.template.spec"},
        ),
        (
            "ScalewayAppleSiliconCluster",
            {
                ".spec.controlPlaneEndpoint.host",
                ".spec.controlPlaneEndpoint.port",
                ".status.conditions[].type",
            },
        ),
        ("ScalewayAppleSiliconControlPlane", {".status.conditions[].type"}),
        (
            "ScalewayAppleSiliconHost",
            {
                ".spec.claim.machineName",
                ".spec.claim.machineNamespace",
                ".spec.claim.machineUID",
                ".status.conditions[].type",
            },
        ),
        ("ScalewayAppleSiliconRemediation", {".status.conditions[].type"}),
        ("ScalewayAppleSiliconRemediationTemplate", set()),
        ("MacFleet", {".status.conditions[].type"}),
    ],
)
def test_no_field_of_a_served_version_becomes_required(kind: str, fields: set[str]):
    """Do not lengthen these lists: an object written before a required field could not be written any more."""
    assert set(required(version(kind)["schema"]["openAPIV3Schema"])) == fields


def test_the_list_covers_every_kind():
    assert set(DEFINITIONS) == {
        "ScalewayAppleSiliconMachine",
        "ScalewayAppleSiliconMachineTemplate",
        "ScalewayAppleSiliconCluster",
        "ScalewayAppleSiliconControlPlane",
        "ScalewayAppleSiliconHost",
        "ScalewayAppleSiliconRemediation",
        "ScalewayAppleSiliconRemediationTemplate",
        "MacFleet",
    }


@pytest.mark.parametrize(
    ("kind", "short", "plural"),
    [
        ("ScalewayAppleSiliconMachine", "samm", "scalewayapplesiliconmachines.infrastructure.cluster.x-k8s.io"),
        (
            "ScalewayAppleSiliconMachineTemplate",
            "sammt",
            "scalewayapplesiliconmachinetemplates.infrastructure.cluster.x-k8s.io",
        ),
        ("ScalewayAppleSiliconCluster", "sasc", "scalewayapplesiliconclusters.infrastructure.cluster.x-k8s.io"),
        ("ScalewayAppleSiliconHost", "sash", "scalewayapplesiliconhosts.infrastructure.cluster.x-k8s.io"),
        ("ScalewayAppleSiliconRemediation", "sasr", "scalewayapplesiliconremediations.infrastructure.cluster.x-k8s.io"),
        (
            "ScalewayAppleSiliconRemediationTemplate",
            "sasrt",
            "scalewayapplesiliconremediationtemplates.infrastructure.cluster.x-k8s.io",
        ),
        ("MacFleet", "macfleet", "macfleets.tuist.dev"),
    ],
)
def test_the_names_are_those_that_the_outside_knows(kind: str, short: str, plural: str):
    assert DEFINITIONS[kind]["metadata"]["name"] == plural
    assert DEFINITIONS[kind]["spec"]["names"]["shortNames"] == [short]
    assert DEFINITIONS[kind]["spec"]["scope"] == "Namespaced"
    assert version(kind)["name"] == "v1alpha1"
    assert version(kind)["served"]
    assert version(kind)["storage"]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("ScalewayAppleSiliconMachine", ["Host", "Phase", "Ready", "Why", "Age"]),
        ("ScalewayAppleSiliconMachineTemplate", ["Type", "Zone", "OS", "Age"]),
        ("ScalewayAppleSiliconHost", ["State", "Machine", "Type", "Cloud", "Why", "Age"]),
        ("ScalewayAppleSiliconRemediation", ["Strategy", "Phase", "Why", "Age"]),
        ("MacFleet", ["Desired", "Current", "Ready", "Why", "Age"]),
    ],
)
def test_the_columns_answer_which_host_what_state_why_and_how_old(kind: str, columns: list[str]):
    shown = [each["name"] for each in version(kind)["additionalPrinterColumns"] if not each.get("priority")]
    assert shown == columns


@pytest.mark.parametrize(
    "kind",
    ["ScalewayAppleSiliconMachine", "ScalewayAppleSiliconHost", "ScalewayAppleSiliconRemediation", "MacFleet"],
)
def test_the_message_is_one_flag_away(kind: str):
    wide = {each["name"] for each in version(kind)["additionalPrinterColumns"] if each.get("priority")}
    assert "Message" in wide


def column_paths() -> Iterator[tuple[str, str]]:
    for kind in DEFINITIONS:
        for column in version(kind)["additionalPrinterColumns"]:
            yield kind, column["jsonPath"]


@pytest.mark.parametrize(("kind", "path"), list(column_paths()))
def test_every_column_shows_a_field_that_exists(kind: str, path: str):
    schema = version(kind)["schema"]["openAPIV3Schema"]
    head = path.split("[", 1)[0].lstrip(".")
    if head == "metadata.creationTimestamp":
        return
    for name in head.split("."):
        assert name in schema["properties"], f"{kind} has no {head}"
        schema = schema["properties"][name]


@pytest.mark.parametrize("kind", [kind for kind in DEFINITIONS if kind != "MacFleet"])
def test_both_contracts_of_cluster_api_are_served_and_clusterctl_sees_the_kind(kind: str):
    labels = DEFINITIONS[kind]["metadata"]["labels"]
    assert CONTRACTS.items() <= labels.items()


def test_clusterctl_moves_the_hosts_although_no_cluster_owns_them():
    assert "clusterctl.cluster.x-k8s.io/move" in DEFINITIONS["ScalewayAppleSiliconHost"]["metadata"]["labels"]


def test_the_template_is_named_as_a_machine_health_check_expects_it():
    """Core drops `Template` from the template's kind to know what to make."""
    made, template = "ScalewayAppleSiliconRemediation", "ScalewayAppleSiliconRemediationTemplate"
    assert template.removesuffix("Template") == made
    below = version(template)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"]["properties"]
    assert below["spec"] == version(made)["schema"]["openAPIV3Schema"]["properties"]["spec"]


def test_a_strategy_that_does_not_exist_is_refused_by_the_schema_and_the_default_goes_all_the_way():
    spec = version("ScalewayAppleSiliconRemediation")["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert set(spec["strategy"]["enum"]) == {"RestartAgent", "Reboot", "Reinstall", "Replace"}
    assert spec["strategy"]["default"] == "Replace"


def test_a_fleet_can_be_scaled():
    assert version("MacFleet")["subresources"]["scale"] == {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }


@pytest.mark.parametrize(
    "kind",
    ["ScalewayAppleSiliconMachine", "ScalewayAppleSiliconHost", "ScalewayAppleSiliconRemediation", "MacFleet"],
)
def test_status_is_written_apart_from_spec(kind: str):
    assert version(kind)["subresources"]["status"] == {}


def test_the_defaults_of_a_machine_are_visible_to_whoever_reads_it():
    spec = version("ScalewayAppleSiliconMachine")["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert {name: spec[name]["default"] for name in ("type", "zone", "os", "source")} == {
        "type": "M2-L",
        "zone": "fr-par-1",
        "os": "Tahoe",
        "source": "Pool",
    }


def test_every_field_a_person_writes_is_described():
    spec = version("ScalewayAppleSiliconMachine")["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert [name for name, schema in spec.items() if not schema.get("description")] == []


@pytest.mark.parametrize("kind", api.KINDS, ids=lambda kind: kind.RESOURCE.kind)
def test_an_object_of_today_is_read_with_nothing_but_its_required_fields(kind: type[KubeObject]):
    import msgspec

    given: dict[str, Any] = {"metadata": {"name": "x"}}
    if kind is api.ScalewayAppleSiliconMachineTemplate:
        given["spec"] = {"template": {"spec": {}}}
    assert msgspec.convert(given, kind).metadata.name == "x"


def test_a_cached_machine_cannot_be_changed_by_accident():
    with pytest.raises(AttributeError):
        machine().status.ready = True  # pyright: ignore[reportAttributeAccessIssue]
