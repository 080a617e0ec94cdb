"""The chart on a real kube-apiserver: one `helm install` is enough, and so are the operator's rights."""

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kube.agents import agents_of
from kube.real_helm import Helm
from kube.supervision import ControlPlaneError
from unit.deploy.rendering import CHART, FULL, NAMESPACE, RELEASE, definitions, objects
from unit.deploy.test_clusterctl import COMPONENTS

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.clients.scaleway import ScalewayClient
from paddock.hosts.api import MacFleet
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.bootstrap.node_access import NodeAccess, NodeAccessSettings
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.kube.leader import LeaderElectionConfig, LeaderElector
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.simulator.agent_payload import with_node_agent
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet, Pace

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

FLEET = f"{RELEASE}-macos"
VALUES: dict[str, Any] = {
    **FULL,
    "runnersFleet": {"enabled": False},
    # The definitions of the Prometheus operator are not on the server.
    "monitoring": {"dashboards": {"enabled": True}},
}
DEFINITIONS = Path(__file__).resolve().parents[2] / "deploy" / "crds"
SETTINGS = HostSettings(
    namespace=NAMESPACE,
    default_adopt_pool_prefix="tuist-pool-",
    claim_name_prefix=f"{RELEASE}-",
    inventory_interval=0.5,
    lease_duration=12.0,
    renew_deadline=9.0,
    request_timeout=3.0,
    bootstrap_spread=0.0,
    expect_nodes=True,
)


def apply(control_plane: "ControlPlane", folder: Path, given: list[dict[str, Any]], *more: str) -> None:
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(given))
    control_plane.run_kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file), *more)


@pytest.fixture(scope="module")
def fresh() -> Iterator["ControlPlane"]:
    """A control plane on which nobody has installed anything."""
    from kube.controlplane import provide_binaries, running_control_plane

    with running_control_plane(provide_binaries()) as started:
        yield started


@pytest.fixture(scope="module")
def helm(fresh: "ControlPlane", tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(fresh, tmp_path_factory.mktemp("helm"), NAMESPACE)


@pytest.fixture(scope="module")
def installed(fresh: "ControlPlane", helm: Helm) -> "ControlPlane":
    """The first `helm install`, fleet and pool in it, where not even the definitions were."""
    assert not fresh.run_kubectl("get", "customresourcedefinitions", "-o", "name")
    release = helm.install(CHART, RELEASE, VALUES)
    assert release["status"] == "deployed", release
    return fresh


async def until(what: str, holds: Callable[[], Awaitable[bool]], within: float = 270.0) -> None:
    try:
        async with asyncio.timeout(within):
            while not await holds():
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"not within {within:.0f} s: {what}")


def test_everything_that_the_chart_renders_is_there_after_one_installation(installed: "ControlPlane", tmp_path: Path):
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(objects(VALUES)))
    names = installed.run_kubectl("get", "-f", str(file), "-o", "name").split()
    assert len(names) == len(objects(VALUES))
    assert {f"macfleet.tuist.dev/{FLEET}", "runnerpool.tuist.dev/macos"} <= set(names)


def test_the_definitions_on_the_server_are_the_generated_ones_and_belong_to_no_release(installed: "ControlPlane"):
    found = yaml.safe_load(installed.run_kubectl("get", "customresourcedefinitions", "-o", "yaml"))["items"]
    labels = {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in found}
    assert labels == {each["metadata"]["name"]: each["metadata"].get("labels", {}) for each in definitions()}
    assert not [each for each in found if "meta.helm.sh/release-name" in each["metadata"].get("annotations", {})]


async def test_the_operator_reconciles_the_charts_fleet_with_the_charts_rights(
    installed: "ControlPlane", tmp_path: Path
):
    """The account, the fleet and the rights are the chart's; the Macs run the real bootstrap, agent and Node included."""
    clock, rng, metrics = SystemClock(), seeded("the chart on a real server"), KubeMetrics()
    operator = installed.service_account(NAMESPACE, f"{RELEASE}-operator")
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Client(from_kubeconfig(installed.kubeconfig)))
        client = await stack.enter_async_context(Client(from_kubeconfig(operator.kubeconfig), metrics=metrics))
        cloud = SimulatedCloud(clock, rng, speed=2000.0)
        macs = Fleet(cloud, clock=clock, rng=rng, pace=Pace(speed=2000.0))
        stack.push_async_callback(macs.stop)
        reached = replace(cloud.settings(), request_timeout=SETTINGS.request_timeout, requests_per_second=200.0)
        scaleway = await stack.enter_async_context(ScalewayClient(reached, clock, rng, transport=cloud.transport()))
        # Keys are put on a Mac when it is installed: the fleet's is known before its Macs are.
        await FleetKeys(client, scaleway, namespace=NAMESPACE).ensure("macos")
        cloud.seed_pool(3, server_type="M2-L")
        election = LeaderElectionConfig(
            name="paddock-chart-test",
            namespace=NAMESPACE,
            identity="one",
            lease_duration=SETTINGS.lease_duration,
            renew_deadline=SETTINGS.renew_deadline,
            retry_period=0.5,
        )
        elector = LeaderElector(client, election, clock=clock, rng=rng, metrics=metrics)
        manager = Manager(clock=clock, rng=rng, metrics=metrics, elector=elector, grace=1.0)
        endpoint = ApiEndpoint(client.config.server, client.config.ca)
        identities = NodeAccessSettings(cluster_role=NODE_ROLE, own_namespace=NAMESPACE)
        access = NodeAccess(client, clock, rng, endpoint, identities)
        bootstrapper = FleetBootstrapper(
            BootstrapContext(client=client, cloud=scaleway, ssh=macs.ssh(), clock=clock, rng=rng, access=access),
            with_node_agent(FleetConfig(), tmp_path / "agent"),
            sequencing=Sequencing(clock, rng, spread=0.0),
        )
        HostOperator(manager, client, scaleway, bootstrapper, SETTINGS)
        running = [
            asyncio.create_task(each)
            for each in (
                manager.run(),
                cloud.run(),
                agents_of(macs, client.config.server, clock, rng, speed=2000.0).run(),
            )
        ]
        try:

            async def all_ready() -> bool:
                return (await admin.get(MacFleet, FLEET, NAMESPACE)).status.ready_replicas == 2

            await until("the chart's two machines are ready", all_ready)
            machines = (await admin.list(Machine, NAMESPACE)).items
            assert {machine.metadata.name.removesuffix(machine.metadata.name[-5:]) for machine in machines} == {
                f"{FLEET}-"
            }
            # Each Mac is a node by a certificate that the cluster signed, and no binding gives it more.
            asked = installed.run_kubectl("get", "certificatesigningrequests", "-o", "wide")
            assert all(machine.metadata.name in asked for machine in machines)
            assert asked.count("Approved,Issued") >= len(machines)
            bindings = installed.run_kubectl("get", "clusterrolebindings", "-o", "name")
            assert not any(machine.metadata.name in bindings for machine in machines)

            await admin.merge_patch(MacFleet, FLEET, {"spec": {"replicas": 0}}, namespace=NAMESPACE)

            async def all_free() -> bool:
                hosts = (await admin.list(Host, NAMESPACE)).items
                free = all(h.spec.claim is None and h.spec.release is None for h in hosts)
                return free and not (await admin.list(Machine, NAMESPACE)).items

            await until("both machines are given back", all_free)
        finally:
            manager.stop()
            for task in running[1:]:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        refused = {
            sample.labels["method"]: sample.value
            for family in metrics.requests.collect()
            for sample in family.samples
            if sample.name.endswith("_total") and sample.labels["code"] == "403"
        }
        assert refused == {}


def test_the_account_may_not_do_what_the_operator_never_does(installed: "ControlPlane"):
    operator = installed.service_account(NAMESPACE, f"{RELEASE}-operator")

    def may(*question: str) -> bool:
        with installed.client(operator) as http:
            verb, resource, namespace = question
            plural, _, of_group = resource.partition(".")
            asked = {"verb": verb, "resource": plural, "group": of_group, "namespace": namespace}
            review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}  # fmt: skip
            answer = http.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", json=review)
            return answer.raise_for_status().json()["status"]["allowed"]

    assert may("patch", "scalewayapplesiliconhosts.infrastructure.cluster.x-k8s.io", NAMESPACE)
    assert may("create", "pods", "jobs")
    for refused in (
        ("get", "secrets", "kube-system"),
        ("create", "pods", NAMESPACE),
        ("update", "clusterroles.rbac.authorization.k8s.io", ""),
        ("delete", "scalewayapplesiliconhosts.infrastructure.cluster.x-k8s.io", "default"),
    ):
        assert not may(*refused), refused


def test_the_kinds_of_a_cluster_api_cluster_are_accepted(installed: "ControlPlane", tmp_path: Path):
    values = {"clusterAPI": {"enabled": True}, "macosFleet": {"enabled": True, "replicas": 2}}
    ours = [each for each in objects(values) if each["kind"].startswith("ScalewayAppleSilicon")]
    assert {each["kind"].removeprefix("ScalewayAppleSilicon") for each in ours} == {
        "Cluster",
        "ControlPlane",
        "MachineTemplate",
    }
    apply(installed, tmp_path, ours, "--dry-run=server")


def test_what_clusterctl_installs_is_accepted(control_plane: "ControlPlane", tmp_path: Path):
    apply(control_plane, tmp_path, COMPONENTS)
    provider = "cluster.x-k8s.io/provider=infrastructure-scaleway-applesilicon"
    shown = control_plane.run_kubectl("-n", "paddock-system", "get", "deployments,serviceaccounts", "-l", provider, "-o", "name")  # fmt: skip
    assert shown.split() == ["deployment.apps/paddock-operator", "serviceaccount/paddock-operator"]
    control_plane.run_kubectl("delete", "clusterroles,clusterrolebindings", "-l", provider)
    control_plane.run_kubectl("delete", "namespace", "paddock-system", "--wait=false")


def test_an_upgrade_takes_new_definitions_first_and_then_the_release(
    installed: "ControlPlane", helm: Helm, tmp_path: Path
):
    """As docs/install.md says it; without force the definitions are refused, because they are Helm's."""
    newer = copy.deepcopy(definitions())
    for each in newer:
        for version in each["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"]["description"] = "of the next version"
    file = tmp_path / "newer.yaml"
    file.write_text(yaml.safe_dump_all(newer))
    with pytest.raises(ControlPlaneError, match="conflict"):
        installed.run_kubectl("apply", "--server-side", "-f", str(file))
    installed.run_kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file))
    scaled = installed.run_kubectl("-n", NAMESPACE, "get", "macfleet", FLEET, "-o", "jsonpath={.spec.replicas}")
    values = {
        **VALUES,
        "operator": {**VALUES["operator"], "replicas": 3},
        # Helm refuses to change back what somebody else has scaled.
        "macosFleet": {**VALUES["macosFleet"], "replicas": int(scaled)},
    }
    release = helm.upgrade(CHART, RELEASE, values)
    assert (release["status"], release["revision"]) == ("deployed", 2)
    deployment = json.loads(installed.run_kubectl("-n", NAMESPACE, "get", "deployment", f"{RELEASE}-operator", "-o", "json"))  # fmt: skip
    assert deployment["spec"]["replicas"] == 3
    described = "jsonpath={.items[*].spec.versions[*].schema.openAPIV3Schema.description}"
    shown = installed.run_kubectl("get", "customresourcedefinitions", "-o", described)
    assert shown.count("of the next version") == len(newer), "Helm does not touch definitions"


def test_definitions_outlive_the_release_and_do_not_hinder_the_next_one(installed: "ControlPlane", helm: Helm):
    before = installed.run_kubectl("get", "customresourcedefinitions", "-o", "name")
    helm.uninstall(RELEASE)
    assert installed.run_kubectl("get", "customresourcedefinitions", "-o", "name") == before
    # Now they are there before Helm is, and are not Helm's.
    installed.run_kubectl("apply", "--server-side", "--force-conflicts", "-f", str(DEFINITIONS))
    assert helm.install(CHART, RELEASE, VALUES)["status"] == "deployed"
