"""The bootstrap as the machine controller uses it: against the simulated cloud, its Macs, and a cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import yaml
from unit.hosts.bootstrap.clusters import Cluster
from unit.hosts.bootstrap.fleets import example

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.scaleway import ScalewayClient
from paddock.clients.ssh import Unreachable
from paddock.hosts.api import HostSpec, HostStatus, MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap import Bootstrap, Sequencing
from paddock.hosts.bootstrap.contract import BootstrapFailed, Bootstrapped, Bootstrapper, KeyOffer
from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper, fleet_of
from paddock.hosts.bootstrap.identity import ApiEndpoint
from paddock.hosts.bootstrap.node_access import NodeAccess
from paddock.kube.builtin import ConfigMap, Node, SecretObject
from paddock.kube.client import Client
from paddock.kube.errors import ForbiddenError, NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet, Pace

ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
MACHINE = ScalewayAppleSiliconMachine(
    metadata=ObjectMeta(name="mac-1", namespace="default", uid="1"),
    spec=MachineSpec(fleet_name="runners", host_cpu=4, provider_id="scw-applesilicon://fr-par-1/1"),
)


class World:
    def __init__(self, client: Client, folder: Path) -> None:
        clock, rng = SystemClock(), seeded("world")
        self.client = client
        self.cloud = SimulatedCloud(clock, rng, speed=10_000.0)
        self.macs = Fleet(self.cloud, clock=clock, rng=rng, pace=Pace(speed=2000.0))
        self.scaleway = ScalewayClient(self.cloud.settings(), clock, rng, transport=self.cloud.transport())
        self.fleet = example(folder)
        self.steps: list[str] = []
        access = NodeAccess(client, clock, rng, ApiEndpoint("https://api.example"))
        self.bootstrapper: Bootstrapper = FleetBootstrapper(
            BootstrapContext(
                client=client, cloud=self.scaleway, ssh=self.macs.ssh(), clock=clock, rng=rng, access=access
            ),
            self.fleet,
            sequencing=Sequencing(clock, rng, spread=0.0),
            bootstrap=Bootstrap(self.macs.ssh(), clock, rng, reach_for=0.0, dial_timeout=0.5),
        )

    async def progress(self, step: str) -> None:
        self.steps.append(step)

    async def host(self) -> ScalewayAppleSiliconHost:
        [server] = self.cloud.seed_pool(1, prefix="tuist-pool-")
        fetched = await self.scaleway.get_server("fr-par-1", server.id)
        self.credentials = fetched.credentials
        return ScalewayAppleSiliconHost(
            metadata=ObjectMeta(name="host-1", namespace="default"),
            spec=HostSpec(zone="fr-par-1", server_id=server.id),
            status=HostStatus(ip=fetched.server.ip),
        )


@pytest.fixture
async def world(client: Client, tmp_path: Path) -> AsyncIterator[World]:
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    await client.create({"metadata": {"name": "paddock-node"}, "rules": rules}, ROLE)
    made = World(client, tmp_path)
    yield made
    await made.macs.stop()
    await made.scaleway.aclose()


async def test_a_claimed_host_becomes_a_node_with_an_identity_of_its_own(world: World, cluster: Cluster):
    assert await world.bootstrapper.prepare_claim(MACHINE) is None
    host = await world.host()
    outcome = await world.bootstrapper.bootstrap(MACHINE, host, world.credentials, world.progress)
    mac = world.macs.mac(host.spec.server_id)
    assert outcome == Bootstrapped(mac.host_key, world.bootstrapper.desired_hash(MACHINE))
    assert world.steps[0] == "reach-ssh"
    assert world.steps[-1] == "payload-tart-kubelet"
    kubeconfig = yaml.safe_load(mac.read("/etc/tart-kubelet/kubeconfig"))
    assert kubeconfig["users"][0]["name"] == "system:node:mac-1"
    assert not await world.bootstrapper.identity_due(MACHINE)
    async with cluster.node(Secret(yaml.safe_dump(kubeconfig))) as node:
        assert (await node.create(Node(metadata=ObjectMeta(name="mac-1")))).metadata.name == "mac-1"
        with pytest.raises(ForbiddenError):
            await node.list(Node)
    assert b"--host-cpu=4" in mac.read("/Library/LaunchDaemons/dev.tuist.tart-kubelet.plist")
    again = await world.bootstrapper.restart_agent(MACHINE, host, world.credentials, world.progress)
    assert isinstance(again, Bootstrapped)
    await world.bootstrapper.forget(MACHINE)
    await world.bootstrapper.forget(MACHINE)
    with pytest.raises(NotFoundError):
        await world.client.get(SecretObject, "paddock-node-certificate-mac-1", "default")
    assert (await world.client.get(ConfigMap, "paddock-revoked-mac-1", "default")).data["node"] == "mac-1"
    assert (await world.client.get(SecretObject, "runners-ssh", "default")).data, "other machines use the key"


async def test_a_host_installed_before_the_key_was_registered_is_blamed_and_says_why(world: World):
    host = await world.host()
    assert await world.bootstrapper.prepare_claim(MACHINE) is None
    outcome = await world.bootstrapper.bootstrap(MACHINE, host, world.credentials, world.progress)
    assert isinstance(outcome, BootstrapFailed)
    assert (outcome.step, outcome.reason, outcome.blames_host) == ("reach-ssh", "SSHAuthRefused", True)
    assert await world.bootstrapper.identity_due(MACHINE), "the certificate that was made for it did not reach it"


async def test_what_is_missing_in_the_cluster_is_not_the_hosts_fault(world: World):
    host = await world.host()
    secret = SecretObject(metadata=ObjectMeta(name="runners-ssh", namespace="default"))
    await world.client.create(secret)
    problem = await world.bootstrapper.prepare_claim(MACHINE)
    assert problem is not None
    assert "runners-ssh" in problem
    outcome = await world.bootstrapper.bootstrap(MACHINE, host, world.credentials, world.progress)
    assert isinstance(outcome, BootstrapFailed)
    assert not outcome.blames_host
    assert world.steps == []


async def test_a_host_whose_ssh_key_is_not_pinned_is_given_no_key_for_the_gateway(world: World):
    host = await world.host()
    offer = KeyOffer(1, Secret("k" * 43))
    outcome = await world.bootstrapper.give_key(MACHINE, host, world.credentials, world.progress, offer=offer)
    assert isinstance(outcome, BootstrapFailed)
    assert "not pinned" in outcome.message
    assert not outcome.blames_host
    assert world.steps == []


def test_a_machines_own_offer_is_part_of_what_its_host_should_carry(tmp_path: Path):
    fleet = example(tmp_path)
    own = fleet_of(MACHINE, fleet)
    assert (own.host_cpu, own.host_memory_mb) == (4, fleet.host_memory_mb)
    assert ("tuist.dev/fleet", "runners") in own.node_labels


async def test_an_update_may_take_the_address_that_the_node_says_and_a_first_bootstrap_may_not(
    world: World, client: Client
):
    made: FleetBootstrapper = world.bootstrapper  # pyright: ignore[reportAssignmentType]
    host = await world.host()
    await client.create(Node(metadata=ObjectMeta(name="mac-1")))
    said = [{"type": "Hostname", "address": "mac-1"}, {"type": "InternalIP", "address": "10.3.0.7"}]
    await client.merge_patch(Node, "mac-1", {"status": {"addresses": said}}, subresource="status")
    assert await made._fallback(MACHINE, host) == "", "without a pinned key anybody could answer there"
    pinned = msgspec.structs.replace(host, status=msgspec.structs.replace(host.status, host_key="SHA256:x"))
    assert await made._fallback(MACHINE, pinned) == "10.3.0.7"
    same = msgspec.structs.replace(pinned, status=msgspec.structs.replace(pinned.status, ip="10.3.0.7"))
    assert await made._fallback(MACHINE, same) == ""


async def test_a_reboot_forgives_the_dials_that_failed(world: World):
    made: FleetBootstrapper = world.bootstrapper  # pyright: ignore[reportAssignmentType]
    host = await world.host()

    async def fail() -> None:
        async with made.dials.turn(host.status.ip, 22):
            raise Unreachable("silence", address=host.status.ip, port=22)

    with pytest.raises(Unreachable):
        await fail()
    assert made.dials.wait_for(host.status.ip, 22) > 0
    made.forgive(host)
    assert made.dials.wait_for(host.status.ip, 22) == 0.0
