"""The chart on a real kube-apiserver: everything it renders is accepted, and the operator's rights are enough."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from unit.deploy.rendering import FULL, NAMESPACE, RELEASE, objects
from unit.deploy.test_clusterctl import COMPONENTS

from paddock.base.chance import seeded
from paddock.base.clock import SystemClock
from paddock.clients.scaleway import ScalewayClient
from paddock.hosts.api import MacFleet
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.fleet_bootstrapper import FleetBootstrapper
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.kube.leader import LeaderElector
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet, Pace
from paddock.simulator.node import NodeTwins, with_simulated_agent

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

NOT_OURS = {"monitoring.coreos.com", "cluster.x-k8s.io"}
"""Kinds of other projects, whose definitions are not on the server."""
FLEET = f"{RELEASE}-macos"
VALUES: dict[str, Any] = {**FULL, "runnersFleet": {"enabled": False}}
SETTINGS = HostSettings(
    namespace=NAMESPACE,
    default_adopt_pool_prefix="tuist-pool-",
    claim_name_prefix=f"{RELEASE}-",
    inventory_interval=0.5,
    lease_duration=4.0,
    renew_deadline=3.0,
    request_timeout=1.0,
    bootstrap_spread=0.0,
    expect_nodes=True,
)


def group(each: dict[str, Any]) -> str:
    return each["apiVersion"].rpartition("/")[0]


def apply(control_plane: "ControlPlane", folder: Path, given: list[dict[str, Any]], *more: str) -> None:
    file = folder / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(given))
    control_plane.run_kubectl("apply", "--server-side", "--force-conflicts", "-f", str(file), *more)


@pytest.fixture(scope="module")
def installed(control_plane: "ControlPlane", tmp_path_factory: pytest.TempPathFactory) -> Iterator["ControlPlane"]:
    """Everything that the chart renders, but for the kinds of other projects, in the order in which Helm applies it."""
    folder = tmp_path_factory.mktemp("manifests")
    rendered = [each for each in objects(VALUES) if group(each) not in NOT_OURS]
    definitions = [each for each in rendered if each["kind"] == "CustomResourceDefinition"]
    apply(control_plane, folder, definitions)
    names = [f"crd/{each['metadata']['name']}" for each in definitions]
    control_plane.run_kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    # Helm's --create-namespace, then the chart's own namespaces.
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    apply(control_plane, folder, [home, *[each for each in rendered if each["kind"] == "Namespace"]])
    apply(control_plane, folder, [each for each in rendered if each["kind"] != "CustomResourceDefinition"])
    yield control_plane
    mine = f"app.kubernetes.io/instance={RELEASE}"
    control_plane.run_kubectl("delete", "clusterroles,clusterrolebindings", "-l", mine)
    control_plane.run_kubectl("delete", "namespace", NAMESPACE, "jobs", "--wait=false")


async def until(what: str, holds: Callable[[], Awaitable[bool]], within: float = 90.0) -> None:
    try:
        async with asyncio.timeout(within):
            while not await holds():
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"not within {within:.0f} s: {what}")


async def test_the_operator_reconciles_the_charts_fleet_with_the_charts_rights(
    installed: "ControlPlane", tmp_path: Path
):
    """The account, the fleet and the rights are the chart's; the Macs run the real bootstrap, agent and Node included."""
    clock, chance, metrics = SystemClock(), seeded("the chart on a real server"), KubeMetrics()
    operator = installed.service_account(NAMESPACE, f"{RELEASE}-operator")
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Client(from_kubeconfig(installed.kubeconfig)))
        client = await stack.enter_async_context(Client(from_kubeconfig(operator.kubeconfig), metrics=metrics))
        cloud = SimulatedCloud(clock, chance, speed=2000.0)
        macs = Fleet(cloud, clock=clock, chance=chance, pace=Pace(speed=2000.0))
        stack.push_async_callback(macs.stop)
        reached = replace(cloud.settings(), request_timeout=SETTINGS.request_timeout, requests_per_second=200.0)
        scaleway = await stack.enter_async_context(ScalewayClient(reached, clock, chance, transport=cloud.transport()))
        # Keys are put on a Mac when it is installed: the fleet's is known before its Macs are.
        await FleetKeys(client, scaleway, namespace=NAMESPACE).ensure("macos")
        cloud.seed_pool(3, server_type="M2-L")
        elector = LeaderElector(
            client,
            name="paddock-chart-test",
            namespace=NAMESPACE,
            identity="one",
            clock=clock,
            chance=chance,
            lease_duration=SETTINGS.lease_duration,
            renew_deadline=SETTINGS.renew_deadline,
            retry_period=0.5,
            metrics=metrics,
        )
        manager = Manager(clock=clock, chance=chance, metrics=metrics, elector=elector, grace=1.0)
        bootstrapper = FleetBootstrapper(
            client,
            scaleway,
            macs.ssh(),
            with_simulated_agent(FleetConfig(), tmp_path / "agent"),
            clock=clock,
            chance=chance,
            endpoint=ApiEndpoint(client.config.server, client.config.ca),
            cluster_role=NODE_ROLE,
            sequencing=Sequencing(clock, chance, spread=0.0),
        )
        HostOperator(manager, client, scaleway, bootstrapper, SETTINGS, clock=clock, chance=chance, metrics=metrics)
        running = [
            asyncio.create_task(each) for each in (manager.run(), cloud.run(), NodeTwins(macs, admin, clock).run())
        ]
        try:

            async def all_ready() -> bool:
                return (await admin.get(MacFleet, FLEET, NAMESPACE)).status.ready_replicas == 2

            await until("the chart's two machines are ready", all_ready)
            machines = (await admin.list(Machine, NAMESPACE)).items
            assert {machine.metadata.name.removesuffix(machine.metadata.name[-5:]) for machine in machines} == {
                f"{FLEET}-"
            }
            bindings = installed.run_kubectl("get", "clusterrolebindings", "-o", "name")
            assert all(machine.metadata.name in bindings for machine in machines)

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
