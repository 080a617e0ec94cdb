"""What clusterctl installs: current, complete, and labelled as it wants."""

import re
import runpy
from typing import Any

import pytest
import yaml
from unit.deploy.rendering import ROOT

from paddock import __version__

SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "hack" / "clusterctl.py"))
FOLDER = ROOT / "deploy" / "clusterctl"
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::=([^}]*))?\}")


def objects(name: str, **given: str) -> list[dict[str, Any]]:
    """The objects of a file after clusterctl has put the variables in; one that has no value fails."""

    def value(found: re.Match[str]) -> str:
        variable, otherwise = found.groups()
        return given[variable] if otherwise is None or variable in given else otherwise

    return list(yaml.safe_load_all(VARIABLE.sub(value, (FOLDER / name).read_text())))


COMPONENTS = objects(
    "infrastructure-components.yaml", SCW_SECRET_KEY="key", SCW_DEFAULT_PROJECT_ID="project", PADDOCK_IMAGE="i:1"
)
CLUSTER = objects("cluster-template.yaml", CLUSTER_NAME="macs", WORKER_MACHINE_COUNT="2")


def of_kind(kind: str) -> list[dict[str, Any]]:
    return [each for each in COMPONENTS if each["kind"] == kind]


def test_the_files_are_what_the_chart_renders_today():
    assert {path.name: path.read_text() for path in FOLDER.iterdir()} == SCRIPT["files"](), "run make clusterctl"


def test_the_release_series_of_this_version_follows_the_contract():
    (document,) = yaml.safe_load_all((FOLDER / "metadata.yaml").read_text())
    assert document["apiVersion"] == "clusterctl.cluster.x-k8s.io/v1alpha3"
    series = {(each["major"], each["minor"]): each["contract"] for each in document["releaseSeries"]}
    major, minor = (int(part) for part in __version__.split(".")[:2])
    assert series[major, minor] == "v1beta2"


def test_every_object_is_known_as_the_provider_s_and_as_nobody_else_s():
    for each in COMPONENTS:
        labels = each["metadata"]["labels"]
        assert labels["cluster.x-k8s.io/provider"] == "infrastructure-scaleway-applesilicon"
        assert "helm" not in str(each["metadata"]).lower()


def test_everything_lives_in_one_namespace_which_comes_first():
    assert COMPONENTS[0]["kind"] == "Namespace"
    home = COMPONENTS[0]["metadata"]["name"]
    assert {each["metadata"].get("namespace", home) for each in COMPONENTS} == {home}
    for binding in (*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding")):
        assert {subject["namespace"] for subject in binding["subjects"]} == {home}


def test_the_definitions_of_the_infrastructure_say_which_contract_they_follow():
    found = [each for each in of_kind("CustomResourceDefinition") if "cluster.x-k8s.io" in each["spec"]["group"]]
    assert found
    for each in found:
        if each["metadata"]["name"].startswith("scalewayapplesiliconhosts"):
            continue  # our own inventory; Cluster API never looks at it
        served = [version["name"] for version in each["spec"]["versions"] if version["served"]]
        assert each["metadata"]["labels"]["cluster.x-k8s.io/v1beta2"] in served


def test_the_operator_runs_with_the_rights_and_the_secret_that_are_installed_with_it():
    (deployment,) = of_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    accounts = {each["metadata"]["name"] for each in of_kind("ServiceAccount")}
    assert pod["serviceAccountName"] in accounts
    (secret,) = of_kind("Secret")
    assert pod["containers"][0]["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    assert secret["stringData"] == {"SCW_SECRET_KEY": "key", "SCW_DEFAULT_PROJECT_ID": "project"}
    assert pod["containers"][0]["name"] == "manager", "clusterctl overrides the image of the container of this name"
    args = pod["containers"][0]["args"]
    assert {"--default-adopt-pool-prefix=tuist-pool-", "--orphan-reclaim-zones=fr-par-1"} <= set(args)
    assert "--orphan-reclaim-claim-name-prefix=" in args, "stranded hosts are reported only, unless a prefix is given"


def test_no_secret_has_a_value_of_its_own():
    text = (FOLDER / "infrastructure-components.yaml").read_text()
    assert "SCW_SECRET_KEY: ${SCW_SECRET_KEY}\n" in text


def test_the_provider_works_in_every_namespace():
    text = (ROOT / "deploy" / "clusterctl" / "infrastructure-components.yaml").read_text("utf-8")
    assert "--watch-namespace" not in text


def test_a_cluster_is_made_of_objects_that_name_each_other():
    kinds = {each["kind"]: each for each in CLUSTER}
    cluster = kinds["Cluster"]["spec"]
    for ref in (cluster["infrastructureRef"], cluster["controlPlaneRef"]):
        assert kinds[ref["kind"]]["metadata"]["name"] == ref["name"] == "macs"
    deployment = kinds["MachineDeployment"]["spec"]
    assert deployment["replicas"] == 2
    ref = deployment["template"]["spec"]["infrastructureRef"]
    assert kinds[ref["kind"]]["metadata"]["name"] == ref["name"]
    assert all("namespace" not in each["metadata"] for each in CLUSTER)


@pytest.mark.parametrize("name", ["infrastructure-components.yaml", "cluster-template.yaml"])
def test_variables_are_written_as_clusterctl_reads_them(name: str):
    text = (FOLDER / name).read_text()
    assert text.count("${") == len(VARIABLE.findall(text))
    assert VARIABLE.findall(text)
