"""The host subsystem lives a long life, and its role fits it: nothing missing, nothing wider."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from doubles.clocks import ShiftedClock
from integration.roles.deployed import OPERATOR_ROLES, files
from integration.roles.recording import Requests, Right, install
from simulation.hosts.interrupting import quick

from paddock.base.rng import seeded
from paddock.hosts.api import (
    MacFleet,
    MacFleetSpec,
    MacFleetTemplate,
    MachineSpec,
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconMachine,
    ScalewayAppleSiliconRemediation,
)
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import ApiEndpoint, NodeIdentities
from paddock.hosts.bootstrap.node_access import NodeAccess
from paddock.hosts.cluster_api import cluster_resource, machine_resource
from paddock.hosts.controllers.health_check import HealthChecks
from paddock.hosts.roles import OPERATOR_CLUSTER_RULES, OPERATOR_NAMESPACE_RULES
from paddock.kube.builtin import Node, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.kube.roles import Role
from paddock.simulator.fleet_world import FleetWorld
from paddock.simulator.process import World, simulate

Machine = ScalewayAppleSiliconMachine
VERSION = "v1beta1"
ROLES = (Role("in the cluster", OPERATOR_CLUSTER_RULES), Role("in its namespace", OPERATOR_NAMESPACE_RULES, "default"))

EXPLAINED = {
    # Asked about by admission, not by a request: only where OwnerReferencesPermissionEnforcement is on.
    Right("", "tuist.dev", "macfleets/finalizers", "update"),
    # Asked about by the server itself when a request for a certificate is approved.
    Right("", "certificates.k8s.io", "signers", "approve"),
    # Asked about by the server itself when a ClusterRoleBinding is created.
    Right("", "rbac.authorization.k8s.io", "clusterroles", "bind"),
}


class RecordedFleet(FleetWorld):
    """A fleet whose operators are recorded and act under the deployed roles; the test itself does neither."""

    def __init__(self, world: World, requests: Requests, **how: Any) -> None:
        self.requests = requests
        super().__init__(world, **how)

    def client(self, *, faults: bool = True, timeout: float = 10.0, lag: float = 0.0) -> Client:
        made = super().client(faults=faults, timeout=timeout, lag=lag)
        return self.requests.attach(made, "default:paddock-operator") if faults else made

    async def _api(self) -> None:
        async with self.plane.running():
            await install(self.api, files()["operator.yaml"])
            self.ready.set()
            await asyncio.Event().wait()


class Keys:
    """The part of the cloud that knows SSH keys."""

    async def ensure_ssh_key(self, name: str, public_key: str) -> str:
        return f"id of {name}"


async def _whole_life(world: World) -> Requests:
    """Everything that the host subsystem does at some time, once."""
    fleet = RecordedFleet(
        world,
        Requests(),
        hosts=4,
        elect=True,
        cluster_api=True,
        settings=quick(expect_nodes=True, claim_name_prefix="m-", reclaim_interval=30.0),
    )
    fleet.macs.seconds = 5.0
    fleet.cloud.behaviour.reinstall = (40.0, 50.0)
    await fleet.ready.wait()
    await _clusters(fleet)
    await _owned_machine(fleet)
    await _owned_cluster(fleet)
    fleet.cloud.foreign_rename(fleet.pool[3].id, "m-stray")
    await fleet.all_ready(1, within=900)
    await _unhealthy(fleet)
    await fleet.api.delete(Machine, "m-1", "default")
    await _fleet_of_two(fleet)

    async def given_back() -> bool:
        hosts = await fleet.hosts()
        return "m-1" not in {m.metadata.name for m in await fleet.machines()} and all(
            host.spec.release is None for host in hosts.values()
        )

    await fleet.eventually("the machine is gone, and its host and the stray are wiped", given_back, within=1800)
    free = next(host for host in (await fleet.hosts()).values() if host.spec.claim is None)
    fleet.cloud.delete_host(free.spec.server_id)

    async def forgotten() -> bool:
        return free.spec.server_id not in await fleet.hosts()

    await fleet.eventually("a server that somebody deleted is forgotten", forgotten, within=300)
    await fleet.machine("m-too-many", type="M4-M")
    await fleet.api.delete(ScalewayAppleSiliconCluster, "c", "default")
    await fleet.clock.sleep(900)
    await _bootstrap_of_a_mac(fleet)
    return fleet.requests


async def _clusters(fleet: FleetWorld) -> None:
    where = ObjectMeta(name="c", namespace="default")
    await fleet.create(ScalewayAppleSiliconCluster(metadata=where))
    await fleet.create(ScalewayAppleSiliconControlPlane(metadata=where))


async def _owned_machine(fleet: FleetWorld) -> None:
    """A machine below Cluster API's, with its Node."""
    cluster: dict[str, Any] = {"metadata": {"name": "c", "namespace": "default"}, "spec": {}}
    await fleet.api.create(cluster, cluster_resource(VERSION))
    ready = {"status": {"infrastructureReady": True}}
    await fleet.api.merge_patch(cluster_resource(VERSION), "c", ready, "default", subresource="status")
    named = {"metadata": {"name": "m-1", "namespace": "default"}, "spec": {"clusterName": "c"}}
    made = await fleet.api.create(named, machine_resource(VERSION))
    await fleet.machine("m-1")
    owner = {"apiVersion": f"cluster.x-k8s.io/{VERSION}", "kind": "Machine", "name": "m-1", "controller": True}
    owner["uid"] = made["metadata"]["uid"]
    await fleet.api.merge_patch(Machine, "m-1", {"metadata": {"ownerReferences": [owner]}}, "default")
    await fleet.api.create(Node(metadata=ObjectMeta(name="m-1")))


async def _unhealthy(fleet: RecordedFleet) -> None:
    """A MachineHealthCheck asks for remediation, and in the end the owner of the Machine is asked to replace it."""
    (machine,) = await fleet.machines()
    asks = ObjectMeta(name="m-1", namespace="default", owner_references=machine.metadata.owner_references)
    await fleet.create(ScalewayAppleSiliconRemediation(metadata=asks))

    async def told() -> bool:
        found = await fleet.api.get(ScalewayAppleSiliconRemediation, "m-1", "default")
        return found.status.phase == "Waiting"

    await fleet.eventually("its status says where it stands", told, within=60)
    where = machine_resource(VERSION)
    sets = Resource("cluster.x-k8s.io", VERSION, "MachineSet", "machinesets")
    made = await fleet.api.create({"metadata": {"name": "s", "namespace": "default"}}, sets)
    owner = {"apiVersion": sets.api_version, "kind": "MachineSet", "name": "s", "controller": True}
    owner["uid"] = made["metadata"]["uid"]
    await fleet.api.merge_patch(where, "m-1", {"metadata": {"ownerReferences": [owner]}}, "default")
    failed = {"status": {"conditions": [{"type": "HealthCheckSucceeded", "status": "False"}]}}
    await fleet.api.merge_patch(where, "m-1", failed, "default", subresource="status")
    context = replace(fleet.running["operator-0"].context, client=fleet.client())
    assert await HealthChecks(context).hand_over(machine, "nothing helped")
    await fleet.api.delete(ScalewayAppleSiliconRemediation, "m-1", "default")


async def _owned_cluster(fleet: FleetWorld) -> None:
    """The infrastructure below a Cluster, whose kubeconfig is made and, because its account is lost, made anew."""
    made = await fleet.api.get(cluster_resource(VERSION), "c", "default")
    owner = {"apiVersion": f"cluster.x-k8s.io/{VERSION}", "kind": "Cluster", "name": "c"}
    owner["uid"] = made["metadata"]["uid"]
    owned = {"metadata": {"ownerReferences": [owner]}}
    await fleet.api.merge_patch(ScalewayAppleSiliconCluster, "c", owned, "default")

    async def provisioned() -> bool:
        found = await fleet.api.get(ScalewayAppleSiliconCluster, "c", "default")
        return found.status.initialization.provisioned

    await fleet.eventually("core has its kubeconfig", provisioned, within=60)
    await fleet.api.delete(ServiceAccount, "cluster-api-c", "default")


async def _fleet_of_two(fleet: FleetWorld) -> None:
    """A MacFleet that grows to two and shrinks to one."""
    spec = MacFleetSpec(replicas=2, template=MacFleetTemplate(spec=MachineSpec(fleet_name="minis")))
    await fleet.create(MacFleet(metadata=ObjectMeta(name="minis", namespace="default"), spec=spec))

    async def has(count: int) -> bool:
        return sum(m.metadata.name.startswith("minis-") for m in await fleet.machines()) == count

    await fleet.eventually("two", lambda: has(2), within=120)
    await fleet.api.merge_patch(MacFleet, "minis", {"spec": {"replicas": 1}}, "default")
    await fleet.eventually("one", lambda: has(1), within=600)


async def _bootstrap_of_a_mac(fleet: RecordedFleet) -> None:
    """What a real bootstrap asks of the cluster; on fake Macs there is none of it."""
    client = fleet.client()
    await FleetKeys(client, Keys(), namespace="default").ensure("minis")  # pyright: ignore[reportArgumentType]
    identities = NodeIdentities(client, fleet.clock, ApiEndpoint("https://api"), namespace="default")
    await identities.ensure("m-1")
    assert not await identities.due("m-1")
    await identities.remove("m-1")
    access = NodeAccess(client, fleet.clock, seeded("access"), ApiEndpoint("https://api"))
    await access.delivered("m-1", "default", await access.first("m-1", "default"))
    assert await access.next("m-1", "default") is None
    assert not await access.due("m-1", "default")
    await access.remove("m-1", "default")
    # Another Mac has its name within the day, and its certificate the day after.
    await access.first("m-1", "default")
    tomorrow = ShiftedClock(fleet.clock, ahead=timedelta(hours=26))
    access = NodeAccess(client, tomorrow, seeded("tomorrow"), ApiEndpoint("https://api"))
    assert await access.due("m-1", "default")
    assert await access.next("m-1", "default") is not None
    await access.remove("m-1", "default")


@pytest.fixture(scope="module")
def requests() -> Requests:
    return simulate(_whole_life, seed=0).result


def test_the_host_operator_asks_for_nothing_that_its_role_does_not_grant(requests: Requests) -> None:
    assert len(requests.seen) > 40, "it has lived"
    assert requests.forbidden == set(), "it acted under the roles that are deployed"
    assert requests.not_granted(ROLES) == []
    assert requests.not_granted(OPERATOR_ROLES) == [], "they are the same roles"


def test_the_host_operators_role_grants_nothing_that_it_never_asks_for(requests: Requests) -> None:
    assert requests.never_asked(ROLES) == EXPLAINED
