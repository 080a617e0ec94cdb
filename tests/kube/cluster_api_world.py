"""A management cluster with everything in it: the real core, our chart, our operator, and simulated Macs.

The operator acts as the chart's own account, with the chart's rights and nothing else; the Macs run the real bootstrap over
SSH, and run the shipped agent's code. Only the cloud, the Macs and their Tart are not real.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from kube.agents import agents_of
from kube.cluster_api_core import Assets, Core, apply, establish, running_core
from kube.controlplane import ControlPlane, running_control_plane
from unit.deploy.rendering import NAMESPACE, RELEASE, ROOT, objects

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.clients.scaleway import ScalewayClient
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as InfraMachine
from paddock.hosts.bootstrap import FleetConfig, Sequencing
from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.bootstrap.node_access import NodeAccess, NodeAccessSettings
from paddock.hosts.operator import HostOperator
from paddock.hosts.roles import NODE_ROLE
from paddock.hosts.settings import HostSettings
from paddock.kube.builtin import Node, SecretObject
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.kube.errors import NotFoundError
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import Condition
from paddock.kube.resource import Resource
from paddock.simulator.agent_payload import with_node_agent
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.cloud.state import Host as CloudHost
from paddock.simulator.mac import Fleet, Pace

CORE = "cluster.x-k8s.io"
CLUSTERS = Resource(CORE, "v1beta2", "Cluster", "clusters")
MACHINES = Resource(CORE, "v1beta2", "Machine", "machines")
DEPLOYMENTS = Resource(CORE, "v1beta2", "MachineDeployment", "machinedeployments")
HEALTH_CHECKS = Resource(CORE, "v1beta2", "MachineHealthCheck", "machinehealthchecks")
FLEET = f"{RELEASE}-macos"
POOL = "tuist-pool-"
VALUES: dict[str, Any] = {"clusterAPI": {"enabled": True}, "macosFleet": {"enabled": True, "replicas": 0}}
NOT_NEEDED = {"CustomResourceDefinition", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy", "ConfigMap"}
DEFINITIONS = ROOT / "deploy" / "crds"
SETTINGS = HostSettings(
    namespace=NAMESPACE,
    default_adopt_pool_prefix=POOL,
    inventory_interval=0.5,
    # One operator without a lease: how leaders follow each other is proven elsewhere.
    lease_duration=0.0,
    request_timeout=9.0,
    bootstrap_spread=0.0,
    expect_nodes=True,
)


@dataclass(frozen=True)
class Site:
    """A control plane with core and our definitions, rights and Cluster in it."""

    plane: ControlPlane
    core: Core
    folder: Path


@contextmanager
def site(binaries: Path, assets: Assets, folder: Path, *, populated: bool = True) -> Iterator[Site]:
    """A site of its own, because core and its webhooks are for a whole cluster; `populated` with the chart's Cluster."""
    folder.mkdir(parents=True, exist_ok=True)
    with running_control_plane(binaries) as plane, running_core(assets, plane) as core:
        establish(plane, folder, [yaml.safe_load(path.read_text()) for path in sorted(DEFINITIONS.glob("*.yaml"))])
        home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        of_core = {"Cluster", "MachineDeployment", "MachineDrainRule"}
        others = [each for each in objects(VALUES) if each["kind"] not in NOT_NEEDED]
        ours = [each for each in others if each["kind"] not in of_core and not each["kind"].startswith("Scaleway")]
        apply(plane, folder, [home, *ours])
        if populated:
            apply(plane, folder, [each for each in others if each not in ours])
        yield Site(plane, core, folder)


class Macs:
    """The cloud and its Macs, which clusters may share."""

    def __init__(self, name: str) -> None:
        self.clock, self.rng = SystemClock(), seeded(name)
        self.cloud = SimulatedCloud(self.clock, self.rng, speed=2000.0)
        self.fleet = Fleet(self.cloud, clock=self.clock, rng=self.rng, pace=Pace(speed=2000.0))

    def scaleway(self) -> ScalewayClient:
        reached = replace(self.cloud.settings(), request_timeout=SETTINGS.request_timeout, requests_per_second=200.0)
        return ScalewayClient(reached, self.clock, self.rng, transport=self.cloud.transport())

    def named(self, name: str) -> CloudHost | None:
        return next((host for host in self.cloud.hosts() if host.name == name), None)

    def wipes(self) -> int:
        """How many disks were lost; each host begins with its first install."""
        return sum(host.install - 1 for host in self.cloud.hosts())


class World:
    """What a person sees of a site at work, and does there."""

    def __init__(self, site: Site, macs: Macs, admin: Client, metrics: KubeMetrics) -> None:
        self.site, self.macs, self.admin = site, macs, admin
        self._metrics = metrics

    async def until(self, what: str, holds: Callable[[], Awaitable[bool]], within: float = 360.0) -> None:
        try:
            async with asyncio.timeout(within):
                while not await holds():
                    await asyncio.sleep(0.2)
        except TimeoutError:
            pytest.fail(f"not within {within:.0f} s: {what}\n{await self.describe()}")

    async def scale(self, replicas: int) -> None:
        """Ask the MachineDeployment for this many, and wait until core says that it has them."""
        await self.ask(replicas)

        async def available() -> bool:
            found = await self.admin.get(DEPLOYMENTS, FLEET, NAMESPACE)
            status = found.get("status", {})
            settled = all(status.get(count, 0) == replicas for count in ("replicas", "availableReplicas"))
            machines = await self.machines()
            return settled and len(machines) == replicas and condition(found, "Available") == "True"

        await self.until(f"{replicas} replicas are available", available)

    async def ask(self, replicas: int) -> None:
        await self.admin.merge_patch(DEPLOYMENTS, FLEET, {"spec": {"replicas": replicas}}, NAMESPACE)

    async def machines(self) -> Sequence[dict[str, Any]]:
        return (await self.admin.list(MACHINES, NAMESPACE)).items

    async def machine(self, name: str) -> dict[str, Any] | None:
        try:
            return await self.admin.get(MACHINES, name, NAMESPACE)
        except NotFoundError:
            return None

    async def infra(self, name: str) -> InfraMachine | None:
        try:
            return await self.admin.get(InfraMachine, name, NAMESPACE)
        except NotFoundError:
            return None

    async def node(self, name: str) -> Node | None:
        try:
            return await self.admin.get(Node, name)
        except NotFoundError:
            return None

    async def given_back(self, host: CloudHost | None, install: int) -> None:
        """Wait until a host has the pool's name and another disk than `install`, and is free in our ledger, too."""
        assert host is not None

        async def free() -> bool:
            shown = self.macs.cloud.host(host.id)
            ledger = await self.admin.get(Host, host.id, NAMESPACE)
            unowned = ledger.spec.claim is None and ledger.spec.release is None
            return shown.name.startswith(POOL) and shown.install > install and unowned

        await self.until(f"host {host.id} is wiped and free again", free)

    async def kubeconfig(self) -> SecretObject:
        return await self.admin.get(SecretObject, f"{RELEASE}-kubeconfig", NAMESPACE)

    def refused(self) -> dict[str, float]:
        """What the API server refused to the operator, by method."""
        samples = (sample for family in self._metrics.requests.collect() for sample in family.samples)
        return {
            sample.labels["method"]: sample.value
            for sample in samples
            if sample.name.endswith("_total") and sample.labels["code"] == "403"
        }

    async def describe(self) -> str:
        shown = self.site.plane.run_kubectl(
            "-n", NAMESPACE, "get", "clusters,machinedeployments,machines,samm,sash,sasc,nodes"
        )
        said = [
            f"{machine.metadata.name}: {_said(machine.status.conditions)}"
            for machine in (await self.admin.list(InfraMachine, NAMESPACE)).items
        ]
        return "\n".join([shown, *said, *self.site.core.log().splitlines()[-15:]])


@asynccontextmanager
async def at_work(where: Site, macs: Macs, **changes: Any) -> AsyncIterator[World]:
    """Our operator and the agents of the Macs, at work on a site. `changes` are of the operator's settings."""
    settings = replace(SETTINGS, **changes)
    metrics = KubeMetrics()
    account = where.plane.service_account(NAMESPACE, f"{RELEASE}-operator")
    agent = where.folder / "agent"
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Client(from_kubeconfig(where.plane.kubeconfig)))
        client = await stack.enter_async_context(
            Client(from_kubeconfig(account.kubeconfig), timeout=settings.request_timeout, metrics=metrics)
        )
        scaleway = await stack.enter_async_context(macs.scaleway())
        stack.callback(shutil.rmtree, agent, ignore_errors=True)
        manager = Manager(clock=macs.clock, rng=macs.rng, metrics=metrics, elector=None, grace=1.0)
        clock, rng = macs.clock, macs.rng
        endpoint = ApiEndpoint(client.config.server, client.config.ca)
        identities = NodeAccessSettings(cluster_role=NODE_ROLE, own_namespace=NAMESPACE)
        access = NodeAccess(client, clock, rng, endpoint, identities)
        bootstrapper = FleetBootstrapper(
            BootstrapContext(client=client, cloud=scaleway, ssh=macs.fleet.ssh(), clock=clock, rng=rng, access=access),
            with_node_agent(FleetConfig(), agent),
            sequencing=Sequencing(clock, rng, spread=0.0),
        )
        HostOperator(manager, client, scaleway, bootstrapper, settings)
        running = [
            asyncio.create_task(manager.run()),
            asyncio.create_task(agents_of(macs.fleet, client.config.server, macs.clock, macs.rng, speed=2000.0).run()),
        ]
        try:
            yield World(where, macs, admin, metrics)
        finally:
            manager.stop()
            running[1].cancel()
            await asyncio.gather(*running, return_exceptions=True)


@asynccontextmanager
async def delivered(where: Site, name: str, hosts: int) -> AsyncIterator[Macs]:
    """Macs that know the fleet's key, which is made before they are delivered."""
    macs = Macs(name)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(macs.fleet.stop)
        admin = await stack.enter_async_context(Client(from_kubeconfig(where.plane.kubeconfig)))
        scaleway = await stack.enter_async_context(macs.scaleway())
        await FleetKeys(admin, scaleway, namespace=NAMESPACE).ensure("macos")
        macs.cloud.seed_pool(hosts, server_type="M2-L")
        living = asyncio.create_task(macs.cloud.run())
        try:
            yield macs
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)


def condition(obj: dict[str, Any], kind: str) -> str:
    """The status of one of core's conditions; empty where it is not set."""
    found = [each for each in obj.get("status", {}).get("conditions", ()) if each["type"] == kind]
    return found[0]["status"] if found else ""


def _said(conditions: Sequence[Condition]) -> str:
    return next((f"{each.reason}: {each.message}" for each in conditions if each.type == "Ready"), "nothing yet")
