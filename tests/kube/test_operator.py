"""The host subsystem on a real kube-apiserver: our definitions are accepted, and a fleet lives its life there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.definitions import our_definitions
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconHost as Host
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.operator import HostOperator
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.kube.leader import LeaderElectionConfig, LeaderElector
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.fake_macs import FakeBootstrap, FakeMacs

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

CRD = Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
DEPLOYED = Path(__file__).resolve().parents[2] / "deploy" / "crds"
SETTINGS = HostSettings(
    default_adopt_pool_prefix="tuist-pool-",
    inventory_interval=0.5,
    lease_duration=12.0,
    renew_deadline=9.0,
    request_timeout=3.0,
)


async def until(what: str, holds: Callable[[], Awaitable[bool]], within: float = 180.0) -> None:
    try:
        async with asyncio.timeout(within):
            while not await holds():
                await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"not within {within:.0f} s: {what}")


@pytest.fixture
async def client(control_plane: "ControlPlane") -> AsyncIterator[Client]:
    async with Client(from_kubeconfig(control_plane.kubeconfig)) as made:
        for path in sorted(DEPLOYED.glob("*.yaml")):
            definition = yaml.safe_load(path.read_text())
            await made.apply(definition, CRD, force=True)
        for definition in our_definitions():
            name = definition["metadata"]["name"]

            async def served(name: str = name) -> bool:
                status = (await made.get(CRD, name)).get("status") or {}
                conditions = status.get("conditions") or ()
                return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)

            await until(f"{name} is established", served)
        yield made


async def test_a_fleet_is_claimed_ready_and_given_back_under_an_elected_leader(client: Client):
    clock, rng = SystemClock(), seeded("operator on a real server")
    cloud = SimulatedCloud(clock, rng, speed=2000.0)
    cloud.seed_pool(3, server_type="M2-L")
    async with AsyncExitStack() as stack:
        settings = replace(cloud.settings(), request_timeout=SETTINGS.request_timeout, requests_per_second=200.0)
        scaleway = await stack.enter_async_context(ScalewayClient(settings, clock, rng, transport=cloud.transport()))
        metrics = KubeMetrics()
        election = LeaderElectionConfig(
            name="paddock-test",
            namespace="default",
            identity="one",
            lease_duration=SETTINGS.lease_duration,
            renew_deadline=SETTINGS.renew_deadline,
            retry_period=0.5,
        )
        elector = LeaderElector(client, election, clock=clock, rng=rng, metrics=metrics)
        manager = Manager(clock=clock, rng=rng, metrics=metrics, elector=elector, grace=1.0)
        macs = FakeBootstrap(clock, FakeMacs(seconds=0.2))
        HostOperator(manager, client, scaleway, macs, SETTINGS)
        running = [asyncio.create_task(manager.run()), asyncio.create_task(cloud.run())]
        try:
            template = MacFleetTemplate(spec=MachineSpec(type="M2-L"))
            await client.create(
                MacFleet(
                    metadata=ObjectMeta(name="fleet", namespace="default"),
                    spec=MacFleetSpec(replicas=2, template=template),
                )
            )

            async def both_ready() -> bool:
                machines = (await client.list(Machine, "default")).items
                return len(machines) == 2 and all(machine.status.ready for machine in machines)

            await until("two machines are ready", both_ready)
            named = {machine.metadata.name for machine in (await client.list(Machine, "default")).items}
            assert named <= {host.name for host in cloud.hosts()}

            await client.merge_patch(MacFleet, "fleet", {"spec": {"replicas": 0}}, namespace="default")

            async def all_free() -> bool:
                hosts = (await client.list(Host, "default")).items
                machines = (await client.list(Machine, "default")).items
                free = all(h.spec.claim is None and h.spec.release is None for h in hosts)
                return not machines and free and all(h.name.startswith("tuist-pool-") for h in cloud.hosts())

            await until("every host is wiped and free again", all_free)
            assert sum(host.install for host in cloud.hosts()) == 3 + 2
        finally:
            manager.stop()
            running[1].cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await client.delete(MacFleet, "fleet", "default")
