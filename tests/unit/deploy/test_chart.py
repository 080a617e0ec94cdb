"""What the chart renders: the flags, the names, the fleets, the refusals."""

import re
from pathlib import Path
from typing import Any

import click
import helm_python
import msgspec
import pytest
import yaml
from unit.deploy.rendering import (
    CHART,
    FULL,
    NAMESPACE,
    RELEASE,
    ROOT,
    arguments,
    definitions,
    objects,
    of_kind,
    templates,
)

from paddock import __version__
from paddock.cli import connections, main
from paddock.runners.api import OPERATOR_AUDIENCE, OWNER_LABEL, RUNNER_LABEL, RunnerPool
from paddock.runners.dispatch import http as dispatch
from paddock.runners.http import internal
from paddock.runners.processes.readiness import READY_WITHOUT_STORE_AFTER
from paddock.runners.webhooks import receive

WITH_DISPATCH = {"dispatch": {"enabled": True}}
WITH_CLUSTER_API = {
    "clusterAPI": {"enabled": True},
    "macosFleet": {"enabled": True, "replicas": 3, "machine": {"zone": "fr-par-3"}},
}
CASES: dict[str, dict[str, Any]] = {
    "the default values": {},
    "dispatch": WITH_DISPATCH,
    "Cluster API": WITH_CLUSTER_API,
    "everything": FULL,
}


def flag(values: list[str], name: str) -> list[str]:
    return [value for value in values if value.partition("=")[0] == name]


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_helm_lints_the_chart_without_a_word(values: dict[str, Any]):
    report = helm_python.lint(CHART, values, strict=True, namespace=NAMESPACE)
    said = [message for message in report["messages"] if "icon is recommended" not in message["error"]]
    assert (said, report["errors"]) == ([], [])


# The seeds' two cases, word for word.


def test_the_default_values_report_stranded_hosts_and_reclaim_none():
    given = arguments("operator")
    assert "--default-adopt-pool-prefix=tuist-pool-" in given
    assert "--orphan-reclaim-zones=fr-par-1" in given
    assert not flag(given, "--orphan-reclaim-claim-name-prefix")


def test_active_reclaim_adds_the_claim_name_prefix_and_nothing_else():
    reclaiming = arguments("operator", {"macosFleet": {"orphanReclaim": {"activeReclaim": True}}})
    assert set(reclaiming) - set(arguments("operator")) == {"--orphan-reclaim-claim-name-prefix=tuist-tuist-"}
    assert set(arguments("operator")) <= set(reclaiming)


# What is derived.


def test_the_zones_are_those_of_all_fleets_once_each():
    values = {"runnersFleet": {"machine": {"zone": "fr-par-3"}}, "nightlyFleet": {"machine": {"zone": "fr-par-3"}}}
    assert flag(arguments("operator", values), "--orphan-reclaim-zones") == ["--orphan-reclaim-zones=fr-par-1,fr-par-3"]


def test_the_pool_prefix_reaches_the_flag_and_every_machine():
    values = {"macosFleet": {"enabled": True, "adoptPoolPrefix": "acme-free-"}, "runnersFleet": {"enabled": True}}
    assert "--default-adopt-pool-prefix=acme-free-" in arguments("operator", values)
    fleets = of_kind("MacFleet", values)
    assert {fleet["spec"]["template"]["spec"]["adoptPoolPrefix"] for fleet in fleets} == {"acme-free-"}
    assert len(fleets) == 2


@pytest.mark.parametrize("values", [FULL, WITH_CLUSTER_API], ids=["MacFleet", "Cluster API"])
def test_every_machine_of_the_release_is_named_after_its_claim_name_prefix(values: dict[str, Any]):
    owners = [*of_kind("MacFleet", values), *of_kind("MachineDeployment", values)]
    assert owners
    assert all(owner["metadata"]["name"].startswith(f"{RELEASE}-") for owner in owners)


def test_no_machine_of_another_release_is_named_after_it():
    others = ("tuist-staging", "tuist-tuist2", "other")
    names = [
        fleet["metadata"]["name"] for other in others for fleet in of_kind("MacFleet", {"macosFleet": {"enabled": True}}, other)
    ]  # fmt: skip
    assert len(names) == len(others)
    assert not [name for name in names if name.startswith(f"{RELEASE}-")]


def test_two_long_release_names_are_refused_rather_than_cut_to_the_same_one():
    with pytest.raises(helm_python.HelmRenderError, match="fullnameOverride"):
        templates({}, "a-release-whose-name-is-longer-than-it-may-be")


def test_runner_pods_call_the_service_unless_an_address_for_macs_is_given():
    inside = f"http://{RELEASE}-dispatch.{NAMESPACE}.svc:8080"
    assert f"--runner-dispatch-url={inside}" in arguments("operator", WITH_DISPATCH)
    assert "--runner-dispatch-url=https://runners.example.com" in arguments("operator", FULL)


def test_dispatch_trusts_the_account_of_this_release_s_operator_alone():
    (account,) = [a for a in of_kind("ServiceAccount", WITH_DISPATCH) if a["metadata"]["name"].endswith("-operator")]
    meta = account["metadata"]
    wanted = f"--controller=system:serviceaccount:{meta['namespace']}:{meta['name']}"
    assert flag(arguments("dispatch", WITH_DISPATCH), "--controller") == [wanted]


def test_the_operator_shows_dispatch_a_token_that_the_api_server_refuses():
    [operator] = [
        each for each in of_kind("Deployment", WITH_DISPATCH) if each["metadata"]["name"].endswith("operator")
    ]
    pod = operator["spec"]["template"]["spec"]
    [volume] = [each for each in pod["volumes"] if each["name"] == "dispatch-token"]
    [source] = volume["projected"]["sources"]
    assert source["serviceAccountToken"]["audience"] == OPERATOR_AUDIENCE
    [mount] = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume["name"]]
    default = options("operator")["--dispatch-token-file"].default
    assert f"{mount['mountPath']}/{source['serviceAccountToken']['path']}" == str(default)


# What is refused, and how.


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"macosFleet": {"adoptPoolPrefix": ""}}, "macosFleet.adoptPoolPrefix is empty"),
        ({"nightlyFleet": {"machine": {"zone": ""}}}, "nightlyFleet.machine.zone is empty"),
        ({"macosFleet": {"enabled": True, "machine": {"os": ""}}}, "macosFleet.machine.os is empty"),
        ({"macosFleet": {"enabled": True, "machine": {"type": ""}}}, "macosFleet.machine.type is empty"),
        ({"dispatch": {"enabled": True, "ingress": {"enabled": True}}}, "dispatch.ingress.host is empty"),
        ({"runnerPools": {"macos": {"image": "x"}}}, "dispatch.enabled is false"),
    ],
)
def test_a_value_that_is_missing_is_named(values: dict[str, Any], named: str):
    with pytest.raises(helm_python.HelmRenderError, match=named):
        templates(values)


def test_a_release_whose_name_begins_the_pool_s_names_cannot_reclaim():
    templates({}, "tuist")
    with pytest.raises(helm_python.HelmRenderError, match=r"activeReclaim.*free hosts would look orphaned"):
        templates({"macosFleet": {"orphanReclaim": {"activeReclaim": True}}}, "tuist")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"macOSFlett": {}}, "macOSFlett"),
        ({"macosFleet": {"orphanReclaim": {"activeReclaim": "yes"}}}, "macosFleet/orphanReclaim/activeReclaim"),
        ({"dispatch": {"replica": 3}}, "replica"),
        ({"operator": {"logLevel": "loud"}}, "operator/logLevel"),
    ],
)
def test_a_value_that_nobody_reads_or_that_cannot_be_is_named(values: dict[str, Any], named: str):
    with pytest.raises(helm_python.HelmError, match=named):
        templates(values)


# Flags.


def options(name: str) -> dict[str, click.Option]:
    command = main.get_command(click.Context(main), name)  # pyright: ignore[reportAttributeAccessIssue]
    assert command is not None, f"there is no command `paddock {name}`"
    return {opt: param for param in command.params if isinstance(param, click.Option) for opt in param.opts}


@pytest.mark.parametrize("values", [*CASES.values()], ids=[*CASES])
@pytest.mark.parametrize("component", ["operator", "dispatch"])
def test_every_flag_that_the_chart_passes_exists_and_accepts_its_value(component: str, values: dict[str, Any]):
    if component == "dispatch" and not values.get("dispatch", {}).get("enabled"):
        assert all(d["metadata"]["name"] != f"{RELEASE}-dispatch" for d in of_kind("Deployment", values))
        return
    command, *given = arguments(component, values)
    assert command == component
    known = options(command)
    for each in given:
        name, _, value = each.partition("=")
        assert name in known, f"`paddock {command}` has no {name}"
        if name != "--fleet-config":  # a file that exists in the container alone
            known[name].type.convert(value, known[name], None)


# Objects.


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_every_object_says_to_which_release_it_belongs(values: dict[str, Any]):
    wanted = {"app.kubernetes.io/name": "paddock", "app.kubernetes.io/instance": RELEASE, "app.kubernetes.io/managed-by": "Helm"}  # fmt: skip
    # Definitions belong to the cluster, and to all its releases alike.
    for each in (found for found in objects(values) if found["kind"] != "CustomResourceDefinition"):
        held = each["metadata"].get("labels", {})
        assert wanted.items() <= held.items(), f"{each['kind']} {each['metadata']['name']}"


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_no_two_objects_have_the_same_name(values: dict[str, Any]):
    names = [(e["apiVersion"], e["kind"], e["metadata"].get("namespace"), e["metadata"]["name"]) for e in objects(values)]  # fmt: skip
    assert len(names) == len(set(names))


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_our_own_workloads_are_restricted(values: dict[str, Any]):
    for deployment in of_kind("Deployment", values):
        pod = deployment["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
        assert {next(iter(set(v) - {"name"})) for v in pod["volumes"]} <= {
            "emptyDir",
            "configMap",
            "projected",
            "secret",
        }
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= container["resources"].keys()
            assert {"livenessProbe", "readinessProbe"} <= container.keys()


def test_two_operators_stand_by_and_one_at_a_time_may_be_taken_away():
    (deployment,) = of_kind("Deployment")
    assert deployment["spec"]["replicas"] == 2
    (budget,) = of_kind("PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["selector"] == deployment["spec"]["selector"]


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_services_and_policies_select_the_pods_that_they_are_for(values: dict[str, Any]):
    pods = {
        d["metadata"]["name"]: d["spec"]["template"]["metadata"]["labels"] for d in of_kind("Deployment", values)
    }  # fmt: skip
    for service in of_kind("Service", values):
        assert service["spec"]["selector"].items() <= pods[service["metadata"]["name"]].items()
    for policy in of_kind("NetworkPolicy", values):
        if not policy["metadata"]["name"].endswith("-runners"):
            assert policy["spec"]["podSelector"]["matchLabels"].items() <= pods[policy["metadata"]["name"]].items()


def test_the_monitor_finds_the_services_by_their_labels_and_port():
    (monitor,) = of_kind("ServiceMonitor", FULL)
    services = of_kind("Service", FULL)
    assert len(services) == 2
    for service in services:
        assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert "metrics" in {port["name"] for port in service["spec"]["ports"]}


def test_the_rules_are_those_of_the_repository_with_the_address_of_the_pages():
    (rules,) = of_kind("PrometheusRule", FULL)
    written = (ROOT / "deploy" / "alerts" / "paddock.rules.yaml").read_text()
    pages = yaml.safe_load((CHART / "values.yaml").read_text())["monitoring"]["prometheusRule"]["runbookURL"]
    assert rules["spec"] == yaml.safe_load(written.replace("RUNBOOKS", pages))


def test_the_dashboards_are_those_of_the_repository():
    (held,) = of_kind("ConfigMap", {"monitoring": {"dashboards": {"enabled": True}}})
    assert held["data"] == {path.name: path.read_text() for path in (ROOT / "deploy" / "grafana").glob("*.json")}
    assert held["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_definitions_come_before_the_release_and_are_the_generated_ones():
    """A release with a definition among its templates cannot have objects of that kind: Helm refuses its first installation."""
    made = {path.name: path.read_text() for path in (ROOT / "deploy" / "crds").iterdir()}
    with helm_python.Chart.load(CHART) as chart:
        held = {each["name"]: each["data"] for each in chart.crds}
    assert held == {f"crds/{name}": text for name, text in made.items()}
    assert not [name for name, text in templates(FULL).items() if "kind: CustomResourceDefinition" in text]


def test_the_definitions_keep_what_cluster_api_looks_for():
    looked_at = [each for each in definitions() if each["spec"]["group"].endswith("cluster.x-k8s.io")]
    assert len(looked_at) == 7
    for each in looked_at:
        served = {version["name"] for version in each["spec"]["versions"] if version["served"]}
        labels = each["metadata"]["labels"]
        assert {labels["cluster.x-k8s.io/v1beta1"], labels["cluster.x-k8s.io/v1beta2"]} <= served
        assert "clusterctl.cluster.x-k8s.io" in labels


def test_who_installs_is_told_how_the_definitions_are_upgraded():
    """Force, because they are Helm's since the first installation."""
    (notes,) = [text for name, text in templates().items() if name == "NOTES.txt"]
    for text in (notes, (ROOT / "docs" / "install.md").read_text()):
        assert "kubectl apply --server-side --force-conflicts -f deploy/crds\n" in text


def test_fleets_are_mac_fleets_without_cluster_api_and_machine_deployments_with_it():
    enabled = {"macosFleet": {"enabled": True, "replicas": 3}, "nightBuildsFleet": {"enabled": True, "machine": {"type": "M4-S", "zone": "fr-par-1", "os": "Tahoe"}}}  # fmt: skip
    alone = {fleet["metadata"]["name"]: fleet["spec"] for fleet in of_kind("MacFleet", enabled)}
    assert alone.keys() == {f"{RELEASE}-macos", f"{RELEASE}-night-builds"}
    assert alone[f"{RELEASE}-macos"]["replicas"] == 3
    assert alone[f"{RELEASE}-night-builds"]["template"]["spec"]["type"] == "M4-S"
    assert alone[f"{RELEASE}-night-builds"]["template"]["spec"]["fleetName"] == "night-builds"
    assert not of_kind("MachineDeployment", enabled)

    values = {**enabled, "clusterAPI": {"enabled": True}}
    assert not of_kind("MacFleet", values)
    made = {each["metadata"]["name"]: each["spec"] for each in of_kind("MachineDeployment", values)}
    assert made.keys() == alone.keys()
    shapes = {each["metadata"]["name"]: each for each in of_kind("ScalewayAppleSiliconMachineTemplate", values)}
    for name, spec in made.items():
        shape = shapes[spec["template"]["spec"]["infrastructureRef"]["name"]]
        assert shape["spec"]["template"]["spec"] == alone[name]["template"]["spec"]
    (cluster,) = of_kind("Cluster", values)
    for ref in (cluster["spec"]["infrastructureRef"], cluster["spec"]["controlPlaneRef"]):
        assert [each["metadata"]["name"] for each in of_kind(ref["kind"], values)] == [ref["name"]]


def test_a_changed_template_wipes_nobody_and_a_hung_pod_does_not_block_a_deletion_for_ever():
    (deployment,) = of_kind("MachineDeployment", WITH_CLUSTER_API)
    assert deployment["spec"]["rollout"]["strategy"] == {"type": "OnDelete"}
    limits = deployment["spec"]["template"]["spec"]["deletion"]
    assert limits == {"nodeDrainTimeoutSeconds": 600, "nodeVolumeDetachTimeoutSeconds": 60}


def test_a_changed_machine_gets_a_template_of_another_name_and_the_older_one_is_kept():
    one = of_kind("ScalewayAppleSiliconMachineTemplate", WITH_CLUSTER_API)
    other = of_kind(
        "ScalewayAppleSiliconMachineTemplate",
        {**WITH_CLUSTER_API, "macosFleet": {"enabled": True, "machine": {"zone": "fr-par-3", "type": "M4-S"}}},
    )
    assert one[0]["metadata"]["name"] != other[0]["metadata"]["name"]
    assert one[0]["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_an_autoscaled_pool_s_replicas_are_left_to_the_autoscaler():
    (pool,) = of_kind("RunnerPool", FULL)
    assert "replicas" not in pool["spec"]
    assert pool["metadata"]["namespace"] == "jobs"
    fixed = {"dispatch": {"enabled": True}, "runnerPools": {"p": {"replicas": 4}}}
    assert of_kind("RunnerPool", fixed)[0]["spec"] == {"replicas": 4}


def test_the_namespace_of_running_jobs_outlives_the_release():
    (namespace,) = of_kind("Namespace", FULL)
    assert namespace["metadata"]["name"] == "jobs"
    assert namespace["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert not of_kind("Namespace", {**WITH_DISPATCH, "runners": {"namespace": NAMESPACE}})


def test_jobs_have_a_namespace_of_their_own_without_our_secrets_and_our_pods():
    (namespace,) = of_kind("Namespace", WITH_DISPATCH)
    own = f"{NAMESPACE}-runners"
    assert namespace["metadata"]["name"] == own
    for component in ("operator", "dispatch"):
        assert flag(arguments(component, WITH_DISPATCH), "--runners-namespace") == [f"--runners-namespace={own}"]
    # Who may delete Pods may do so there alone: dispatch cannot end the operator.
    for role in of_kind("Role", WITH_DISPATCH):
        deleting = any("pods" in rule["resources"] and "delete" in rule["verbs"] for rule in role["rules"])
        assert not deleting or role["metadata"]["namespace"] == own, role["metadata"]["name"]
    for role in of_kind("ClusterRole", WITH_DISPATCH):
        if role["metadata"]["name"] == f"{RELEASE}-dispatch":
            assert not [rule for rule in role["rules"] if "pods" in rule["resources"]]


@pytest.mark.parametrize(
    ("pools", "given", "level"),
    [
        ({}, "", "baseline"),
        ({"linux": {"os": "linux", "docker": True}}, "", "privileged"),
        ({"linux": {"os": "linux", "docker": False}}, "", "baseline"),
        ({}, "restricted", "restricted"),
    ],
)
def test_pods_beside_jobs_may_be_no_more_than_the_pools_need(pools: dict[str, Any], given: str, level: str):
    values = {**WITH_DISPATCH, "runnerPools": pools, "runners": {"podSecurity": given}}
    (namespace,) = of_kind("Namespace", values)
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == level


# TLS between the two processes.


def _volumes(component: str, values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    (found,) = [d for d in of_kind("Deployment", values) if d["metadata"]["name"].endswith(f"-{component}")]
    pod = found["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    return {volume["name"]: volume for volume in pod["volumes"]}, mounts


def test_the_operator_asks_dispatch_over_tls_and_mounts_the_authority_without_the_key():
    given = arguments("operator", WITH_DISPATCH)
    host = f"{RELEASE}-dispatch.{NAMESPACE}.svc"
    secret = f"{RELEASE}-dispatch-tls"
    assert {f"--dispatch-url=https://{host}:8443", f"--dispatch-certificate-secret={secret}"} <= set(given)
    volumes, mounts = _volumes("operator", WITH_DISPATCH)
    assert volumes["dispatch-ca"]["secret"] == {
        "secretName": secret,
        "optional": True,
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }
    assert flag(given, "--dispatch-ca-file") == [f"--dispatch-ca-file={mounts['dispatch-ca']}/ca.crt"]
    volumes, mounts = _volumes("dispatch", WITH_DISPATCH)
    assert volumes["tls"]["secret"]["secretName"] == secret
    assert {item["key"] for item in volumes["tls"]["secret"]["items"]} == {"tls.crt", "tls.key"}
    told = arguments("dispatch", WITH_DISPATCH)
    assert {f"--tls-cert-file={mounts['tls']}/tls.crt", "--internal-bind-address=:8443"} <= set(told)
    (service,) = [s for s in of_kind("Service", WITH_DISPATCH) if s["metadata"]["name"].endswith("-dispatch")]
    assert {"name": "internal", "port": 8443, "targetPort": "internal"} in service["spec"]["ports"]


def test_cert_manager_makes_the_certificate_where_an_issuer_is_named():
    values = {"dispatch": {"enabled": True, "tls": {"issuerRef": {"name": "own", "kind": "ClusterIssuer"}}}}
    (certificate,) = of_kind("Certificate", values)
    assert certificate["spec"]["secretName"] == f"{RELEASE}-dispatch-tls"
    assert f"{RELEASE}-dispatch.{NAMESPACE}.svc" in certificate["spec"]["dnsNames"]
    assert not flag(arguments("operator", values), "--dispatch-certificate-secret")
    assert not of_kind("Certificate", WITH_DISPATCH)


def test_without_tls_the_operator_asks_where_the_pods_ask():
    values = {"dispatch": {"enabled": True, "tls": {"enabled": False}}}
    assert f"--dispatch-url=http://{RELEASE}-dispatch.{NAMESPACE}.svc:8080" in arguments("operator", values)
    assert not flag(arguments("dispatch", values), "--internal-bind-address")


# Who may come in.


def _ingress(name: str, values: dict[str, Any]) -> list[dict[str, Any]]:
    (policy,) = [p for p in of_kind("NetworkPolicy", values) if p["metadata"]["name"] == f"{RELEASE}-{name}"]
    return policy["spec"]["ingress"]


@pytest.mark.parametrize("values", CASES.values(), ids=CASES.keys())
def test_every_rule_of_every_policy_says_who_may_come(values: dict[str, Any]):
    for policy in of_kind("NetworkPolicy", values):
        for rule in policy["spec"]["ingress"]:
            assert rule["from"], policy["metadata"]["name"]


def test_no_pod_but_monitoring_and_the_api_servers_tunnel_reads_names_of_accounts():
    (rule,) = [r for r in _ingress("dispatch", WITH_DISPATCH) if {"port": "metrics"} in r["ports"]]
    named = {peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"] for peer in rule["from"]}
    assert named == {"monitoring", "kube-system"}


def test_only_the_operator_reaches_the_internal_port():
    (rule,) = [r for r in _ingress("dispatch", WITH_DISPATCH) if {"port": "internal"} in r["ports"]]
    (peer,) = rule["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "operator"
    assert "namespaceSelector" not in peer


def test_a_list_without_peers_lets_nobody_in_and_not_everybody():
    nobody = {"networkPolicies": {"monitoringFrom": [], "apiServerFrom": []}, **WITH_DISPATCH}
    assert _ingress("operator", nobody) == []
    assert not [r for r in _ingress("dispatch", nobody) if {"port": "metrics"} in r["ports"]]


def test_the_image_can_be_pinned_by_digest():
    digest = "sha256:" + "a" * 64
    for deployment in of_kind("Deployment", {"image": {"digest": digest}, **WITH_DISPATCH}):
        assert deployment["spec"]["template"]["spec"]["containers"][0]["image"].endswith(f"@{digest}")


def test_only_the_webhook_and_the_pods_endpoints_are_published():
    (ingress,) = of_kind("Ingress", FULL)
    paths = ingress["spec"]["rules"][0]["http"]["paths"]
    answered = {receive.PATH, dispatch.PATH, f"{internal.PREFIX}/pods/progress", f"{internal.PREFIX}/pods/log"}
    assert {(path["path"], path["pathType"]) for path in paths} == {(path, "Exact") for path in answered}


def test_runner_pods_reach_no_private_network_but_dns_and_dispatch():
    (policy,) = [p for p in of_kind("NetworkPolicy", FULL) if p["metadata"]["name"].endswith("-runners")]
    assert policy["metadata"]["namespace"] == "jobs"
    assert policy["spec"]["podSelector"] == {"matchLabels": {"tuist.dev/runner": "true"}}
    assert policy["spec"]["ingress"] == []
    (block,) = [to["ipBlock"] for rule in policy["spec"]["egress"] for to in rule["to"] if "ipBlock" in to]
    assert {"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"} <= set(block["except"])


def test_secrets_are_named_and_never_rendered():
    assert not of_kind("Secret", FULL)
    for deployment in of_kind("Deployment", FULL):
        for container in deployment["spec"]["template"]["spec"]["containers"]:
            for each in container.get("env", ()):
                assert "value" not in each or each["name"].endswith("_FILE") or "SECRET" not in each["name"]
            assert all("secretRef" in each for each in container.get("envFrom", ()))


def test_the_apps_key_is_a_file_and_in_no_environment():
    (found,) = [d for d in of_kind("Deployment", FULL) if d["metadata"]["name"].endswith("-dispatch")]
    container = found["spec"]["template"]["spec"]["containers"][0]
    assert "envFrom" not in container
    taken = {each["valueFrom"]["secretKeyRef"]["key"] for each in container["env"] if "valueFrom" in each}
    assert "PADDOCK_GITHUB_PRIVATE_KEY" not in taken
    assert "PADDOCK_GITHUB_WEBHOOK_SECRET" not in taken
    volumes, mounts = _volumes("dispatch", FULL)
    files = {item["key"]: f"{mounts['github']}/{item['path']}" for item in volumes["github"]["secret"]["items"]}
    given = {each["name"]: each.get("value") for each in container["env"]}
    for name in ("PADDOCK_GITHUB_PRIVATE_KEY", "PADDOCK_GITHUB_WEBHOOK_SECRET"):
        assert given[f"{name}_FILE"] == files[name]


def test_the_packed_chart_renders_the_same(tmp_path: Path):
    """Folders of the chart are links to their neighbours: what is packed has their files."""
    with helm_python.Chart.load(CHART) as chart:
        packed = chart.save(tmp_path)
    with helm_python.Chart.load(packed) as chart:
        shown = chart.render(FULL, name=RELEASE, namespace=NAMESPACE)
        files = {file["name"] for file in chart.files}
        assert [yaml.safe_load(each["data"]) for each in chart.crds] == definitions()
    assert {path.rpartition("/")[2]: text for path, text in shown.items()} == templates(FULL)
    assert "alerts/paddock.rules.yaml" in files
    assert "alerts/paddock.tests.yaml" not in files


def test_the_chart_is_of_the_program_s_version():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == chart["version"] == __version__


def test_the_command_line_finds_the_service_that_it_asks():
    (service,) = [s for s in of_kind("Service", FULL) if s["metadata"]["name"].endswith("-dispatch")]
    wanted = {name: value for name, _, value in (pair.partition("=") for pair in connections._DISPATCH.split(","))}
    assert wanted.items() <= service["metadata"]["labels"].items()
    assert "metrics" in {port["name"] for port in service["spec"]["ports"]}


def test_the_variables_that_the_secrets_have_to_hold_are_those_that_the_code_reads():
    source = "".join(path.read_text() for path in sorted((ROOT / "src" / "paddock").rglob("*.py")))
    told = set(re.findall(r"\b(?:PADDOCK|SCW)_[A-Z_]+\b", (CHART / "values.yaml").read_text()))
    given = {each["name"] for d in of_kind("Deployment", FULL) for each in d["spec"]["template"]["spec"]["containers"][0].get("env", ())}  # fmt: skip
    assert {"PADDOCK_DSN", "PADDOCK_GITHUB_APP_ID", "SCW_SECRET_KEY"} <= told
    tart = {"PADDOCK_TART_URL", "PADDOCK_TART_SHA256", "PADDOCK_TART_VERSION", "PADDOCK_ACCEPT_TART_LICENCE"}
    tart |= {"PADDOCK_SOFTNET_URL", "PADDOCK_SOFTNET_SHA256", "PADDOCK_SOFTNET_VERSION"}
    github = {"PADDOCK_GITHUB_APP_ID", "PADDOCK_GITHUB_PRIVATE_KEY_FILE", "PADDOCK_GITHUB_WEBHOOK_SECRET_FILE"}
    github |= {"PADDOCK_GITHUB_WEBHOOK_SECRET_PREVIOUS", "PADDOCK_GITHUB_API_URL"}
    assert given == {"PADDOCK_DSN", *github, *tart}
    assert not [name for name in told | given if f'"{name.removesuffix("_FILE")}"' not in source]


def test_pods_with_a_job_are_never_evicted_and_idle_ones_may_be():
    """Bare Pods: Kubernetes counts a whole number of available Pods for them and nothing else."""
    (budget,) = [
        each for each in of_kind("PodDisruptionBudget", WITH_DISPATCH) if "runners" in each["metadata"]["name"]
    ]
    spec = budget["spec"]
    assert set(spec) == {"minAvailable", "selector"}
    assert spec["minAvailable"] > 100_000
    assert spec["selector"]["matchLabels"] == {RUNNER_LABEL: "true"}
    assert spec["selector"]["matchExpressions"] == [{"key": OWNER_LABEL, "operator": "Exists"}]
    assert not [each for each in of_kind("PodDisruptionBudget") if "runners" in each["metadata"]["name"]]


def test_without_webhooks_no_webhook_secret_is_needed_and_every_pool_asks_github():
    pool = {"image": "r:1", "fleetSelector": "m", "dispatchLabel": "l", "runnerLabels": ["x"]}
    values = {**FULL, "github": {}, "runnerPools": {"macos": pool}}
    (dispatch,) = [each for each in of_kind("Deployment", values) if each["metadata"]["name"].endswith("dispatch")]
    spec = dispatch["spec"]["template"]["spec"]
    taken = {each["name"]: each.get("value") for each in spec["containers"][0]["env"]}
    assert taken["PADDOCK_GITHUB_WEBHOOKS"] == "off"
    assert not [name for name in taken if "WEBHOOK_SECRET" in name]
    assert "PADDOCK_GITHUB_WEBHOOK_SECRET" not in str(spec["volumes"])
    (made,) = of_kind("RunnerPool", values)
    assert msgspec.convert(made, RunnerPool).spec.job_source == "ScaleSet"
    (ingress,) = of_kind("Ingress", values)
    assert "webhooks" not in str(ingress["spec"])
    with pytest.raises(helm_python.HelmError, match=r"set its jobSource to ScaleSet, or github\.webhooks to true"):
        templates({**values, "runnerPools": {"macos": {**pool, "jobSource": "Webhook"}}})


def test_tart_by_its_known_version_needs_its_licence_accepted_and_no_sum():
    def tart(**given: Any) -> dict[str, str]:
        (operator,) = of_kind("Deployment", {"macosFleet": {"tart": given}})
        return {each["name"]: each["value"] for each in operator["spec"]["template"]["spec"]["containers"][0]["env"]}

    taken = {"PADDOCK_TART_VERSION": "2.35.0", "PADDOCK_ACCEPT_TART_LICENCE": "true"}
    assert tart(version="2.35.0", acceptLicence=True) == taken
    with pytest.raises(helm_python.HelmError, match=r"macosFleet\.tart\.acceptLicence is false"):
        tart(version="2.35.0")
    other = tart(version="2.41.1", url="https://files.example/t", sha256="a" * 64)
    assert other["PADDOCK_TART_SHA256"] == "a" * 64


def test_a_chart_of_the_checkout_names_no_image_that_nobody_can_pull():
    with pytest.raises(helm_python.HelmError, match=r"image\.repository is empty"):
        templates({"image": {"repository": ""}})


def test_the_probes_of_dispatch_leave_it_the_minute_in_which_it_waits_for_its_database():
    (deployment,) = (
        each for each in of_kind("Deployment", WITH_DISPATCH) if each["metadata"]["name"].endswith("-dispatch")
    )
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    readiness = container["readinessProbe"]
    assert readiness["httpGet"]["path"] == "/readyz"
    assert readiness["periodSeconds"] <= READY_WITHOUT_STORE_AFTER / 10
    # Of Kubernetes: ten minutes unless told, after which a rollout counts as failed.
    assert deployment["spec"].get("progressDeadlineSeconds", 600) > 2 * READY_WITHOUT_STORE_AFTER
