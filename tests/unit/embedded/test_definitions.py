"""The kinds that are served, and the files that say so to other clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from paddock.embedded.api.validation.schema import validate
from paddock.embedded.definitions import cluster_api_definitions, definitions, our_definitions
from paddock.hosts.api import MacFleet
from paddock.kube.crd import schema_of, to_yaml
from paddock.kube.objects import KubeObject
from paddock.runners.api import RunnerPool

FILES = Path(__file__).resolve().parents[3] / "deploy" / "crds"


def test_the_files_in_deploy_are_what_the_structs_generate_today() -> None:
    generated = {
        f"{each['spec']['group']}_{each['spec']['names']['plural']}.yaml": to_yaml(each) for each in our_definitions()
    }
    kept = {path.name: path.read_text(encoding="utf-8") for path in FILES.iterdir()}
    assert sorted(kept) == sorted(generated), "run make crds"
    for name, text in generated.items():
        assert kept[name] == text, f"{name} is out of date: run make crds"


def test_the_files_say_the_same_as_the_definitions() -> None:
    for each in our_definitions():
        path = FILES / f"{each['spec']['group']}_{each['spec']['names']['plural']}.yaml"
        assert yaml.safe_load(path.read_text(encoding="utf-8")) == each


def test_the_short_names_that_people_type_are_there_and_no_two_kinds_share_one() -> None:
    short = [name for each in definitions() for name in each["spec"]["names"].get("shortNames", ())]
    assert {"samm", "sammt", "sasc", "sash", "rpool", "macfleet"} <= {
        *short,
        *(each["spec"]["names"]["singular"] for each in definitions()),
    }
    assert len(short) == len(set(short))


def test_every_definition_has_one_storage_version_and_says_how_old_its_objects_are() -> None:
    for each in definitions():
        versions = each["spec"]["versions"]
        assert sum(version["storage"] for version in versions) == 1
        for version in versions:
            assert [c["name"] for c in version.get("additionalPrinterColumns", ())][-1:] == ["Age"], each["metadata"]


def test_cluster_api_kinds_are_served_in_both_versions_and_validate_nothing() -> None:
    for each in cluster_api_definitions():
        assert [version["name"] for version in each["spec"]["versions"]] == ["v1beta1", "v1beta2"]
        for version in each["spec"]["versions"]:
            properties = version["schema"]["openAPIV3Schema"]["properties"]
            assert properties["spec"]["x-kubernetes-preserve-unknown-fields"]


@pytest.mark.parametrize(
    ("kind", "longest"), [(MacFleet, 57), (RunnerPool, 63)], ids=["a fleet's machines need six more", "a label's value"]
)
def test_a_name_that_no_controller_could_work_with_is_refused_where_it_is_made(
    kind: type[KubeObject], longest: int
) -> None:
    shape = schema_of(kind)
    for length, complaints in ((longest, []), (longest + 1, ["metadata.name"])):
        obj = {"metadata": {"name": "n" * length}, "spec": {}}
        found = [cause.field for cause in validate(shape, obj, None, subresource="")]
        assert [field for field in found if field.startswith("metadata")] == complaints
