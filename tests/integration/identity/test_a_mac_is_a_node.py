"""A Mac is a node and nothing more, in the embedded API: what its certificate lets it do, and everything else refused."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import Any

import pytest
import yaml
from doubles.clocks import ShiftedClock
from unit.hosts.bootstrap.clusters import Cluster, running_cluster

from paddock.base.clock import SystemClock, rfc3339
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.hosts import api as hosts_api
from paddock.hosts.api import IDENTITY_SINCE, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.identity import ApiEndpoint, NodeIdentity
from paddock.hosts.bootstrap.node_access import IdentityKind, NodeAccess, NodeAccessSettings
from paddock.hosts.bootstrap.node_certificate import (
    CSR,
    KUBELET_CLIENT,
    NodeCertificates,
    machine_of_request,
    node_key_and_request,
)
from paddock.hosts.controllers.certificate_requests import CertificateRequests
from paddock.hosts.roles import cluster_identity, node_roles, renewal_binding
from paddock.kube.builtin import (
    ConfigMap,
    Event,
    Lease,
    Node,
    NodeSpec,
    ObjectReference,
    Pod,
    SecretObject,
    ServiceAccount,
    Taint,
)
from paddock.kube.client import Client
from paddock.kube.crd import crd_of
from paddock.kube.errors import ForbiddenError, InvalidError, KubeError, UnauthorizedError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource

MACHINES = ScalewayAppleSiliconMachine.RESOURCE
ROLE = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
BINDING = Resource("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
ENDPOINT = ApiEndpoint("https://api.example")


@dataclass
class World:
    cluster: Cluster
    admin: Client
    clock: ShiftedClock
    rng: Random = field(default_factory=lambda: seeded("world"))

    async def mac(self, name: str) -> Client:
        """A Machine of this name and its node's client."""
        await self.admin.create(ScalewayAppleSiliconMachine(metadata=ObjectMeta(name=name, namespace="default")))
        return self.cluster.node(await self.kubeconfig(name))

    async def kubeconfig(self, name: str) -> Secret:
        made = await NodeCertificates(self.admin, self.clock, self.rng, ENDPOINT, namespace="default").issue(name)
        assert isinstance(made, NodeIdentity), made
        return made.kubeconfig

    async def pod(self, name: str, node: str, account: str = "runner") -> Pod:
        token = {"serviceAccountToken": {"path": "token", "audience": "dispatch"}}
        spec = {
            "serviceAccountName": account,
            "nodeName": node,
            "containers": [{"name": "runner", "image": "x:1"}],
            "volumes": [{"name": "token", "projected": {"sources": [token]}}],
        }
        made = await self.admin.create({"metadata": {"name": name, "namespace": "default"}, "spec": spec}, Pod.RESOURCE)
        return await self.admin.get(Pod, made["metadata"]["name"], "default")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    clock = ShiftedClock()
    definitions = [crd_of(kind) for kind in hosts_api.KINDS]
    async with (
        running_cluster(
            clock=clock,
            definitions=definitions,
            roles=[*node_roles(), renewal_binding(), *cluster_identity()],
            machines=f"{MACHINES.plural}.{MACHINES.group}",
        ) as cluster,
        cluster.client() as admin,
    ):
        for account in ("runner", "other"):
            await admin.create(ServiceAccount(metadata=ObjectMeta(name=account, namespace="default")))
        yield World(cluster, admin, clock)


async def refused(call: Awaitable[Any], because: str = "") -> None:
    with pytest.raises(ForbiddenError) as refusal:
        await call
    assert because in str(refusal.value)


def lease(name: str, namespace: str = "kube-node-lease") -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace))


def bound(pod: Pod) -> ObjectReference:
    meta = pod.metadata
    return ObjectReference(api_version="v1", kind="Pod", name=meta.name, uid=meta.uid)


async def test_it_keeps_its_own_node_lease_and_pods(world: World):
    mac = await world.mac("mac-1")
    pod = await world.pod("own", "mac-1")
    taint = Taint(key="tuist.dev/macos", effect="NoSchedule")
    labels = {"tuist.dev/runtime": "tart", "kubernetes.io/os": "darwin"}
    meta = ObjectMeta(name="mac-1", labels=labels)
    await mac.create(Node(metadata=meta, spec=NodeSpec(taints=(taint,))))
    await mac.merge_patch(Node, "mac-1", {"metadata": {"labels": {"tuist.dev/golden-1": "true"}}})
    await mac.merge_patch(Node, "mac-1", {"status": {"capacity": {"pods": "2"}}}, subresource="status")
    await mac.create(lease("mac-1"))
    await mac.merge_patch(Lease, "mac-1", {"spec": {"holderIdentity": "mac-1"}}, "kube-node-lease")
    listed = await mac.list(Pod, field_selector="spec.nodeName=mac-1")
    assert [each.metadata.name for each in listed.items] == ["own"]
    by_name = await mac.list(Pod, "default", field_selector="spec.nodeName=mac-1,metadata.name=own")
    assert [each.metadata.name for each in by_name.items] == ["own"]
    running = {"status": {"phase": "Running"}}
    assert (await mac.merge_patch(Pod, "own", running, "default", subresource="status")).status.phase == "Running"
    token, _ = await mac.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(pod))
    assert token.reveal()
    about = ObjectReference(kind="Pod", name="own", namespace="default")
    await mac.create(Event(metadata=ObjectMeta(name="own.1", namespace="default"), involved_object=about))
    await mac.delete(Pod, "own", "default", uid=pod.metadata.uid, grace_period=0)


async def test_secrets_and_config_maps_are_none_of_its_business(world: World):
    mac = await world.mac("mac-1")
    await world.admin.create(SecretObject(metadata=ObjectMeta(name="app-key", namespace="default")))
    await refused(mac.get(SecretObject, "app-key", "default"), 'cannot get resource "secrets"')
    await refused(mac.list(SecretObject, "default"))
    await refused(mac.list(ConfigMap, "default"))
    await refused(mac.create(SecretObject(metadata=ObjectMeta(name="s", namespace="default"))))


async def test_other_nodes_are_none_of_its_business(world: World):
    mac = await world.mac("mac-1")
    await world.admin.create(Node(metadata=ObjectMeta(name="mac-2")))
    await refused(mac.create(Node(metadata=ObjectMeta(name="mac-3"))), "can only write the Node mac-1")
    for call in (
        mac.get(Node, "mac-2"),
        mac.list(Node),
        mac.merge_patch(Node, "mac-2", {"spec": {"unschedulable": True}}),
        mac.merge_patch(Node, "mac-2", {"status": {"capacity": {}}}, subresource="status"),
        mac.delete(Node, "mac-2"),
    ):
        await refused(call)


async def test_it_cannot_change_its_taints_its_provider_id_its_owners_or_barred_labels(world: World):
    mac = await world.mac("mac-1")
    await refused(
        mac.create(Node(metadata=ObjectMeta(name="mac-1", labels={"node-restriction.kubernetes.io/tenant": "a"}))),
        "node-restriction.kubernetes.io/tenant",
    )
    await mac.create(Node(metadata=ObjectMeta(name="mac-1"), spec=NodeSpec(provider_id="scw://1")))
    owner = {"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "1"}
    for patch, why in (
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "taints"),
        ({"metadata": {"labels": {"node-restriction.kubernetes.io/tenant": "a"}}}, "labels"),
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "labels"),
        ({"metadata": {"ownerReferences": [owner]}}, "owners"),
    ):
        await refused(mac.merge_patch(Node, "mac-1", patch), why)
    with pytest.raises((ForbiddenError, InvalidError), match="providerID"):
        await mac.merge_patch(Node, "mac-1", {"spec": {"providerID": "scw://2"}})
    await refused(mac.delete(Node, "mac-1"))


async def test_other_macs_pods_are_none_of_its_business(world: World):
    mac = await world.mac("mac-1")
    theirs = await world.pod("theirs", "mac-2")
    for call in (
        mac.get(Pod, "theirs", "default"),
        mac.list(Pod, "default"),
        mac.list(Pod),
        mac.list(Pod, field_selector="spec.nodeName=mac-2"),
        mac.list(Pod, field_selector="spec.nodeName!=mac-1"),
        mac.list(Pod, "default", field_selector="metadata.name=theirs"),
        mac.list(Pod, "default", field_selector="spec.nodeName=mac-2,metadata.name=theirs"),
        mac.merge_patch(Pod, "theirs", {"status": {"phase": "Failed"}}, "default", subresource="status"),
        mac.delete(Pod, "theirs", "default"),
        mac.create({"metadata": {"name": "new", "namespace": "default"}, "spec": {}}, Pod.RESOURCE),
        mac.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(theirs)),
    ):
        await refused(call)


async def test_it_gets_tokens_only_for_its_pods_bound_to_them_and_for_their_audience(world: World):
    mac = await world.mac("mac-1")
    own, theirs = await world.pod("own", "mac-1"), await world.pod("theirs", "mac-2")
    await refused(mac.create_token("other", "default"))
    await refused(mac.create_token("runner", "default", audiences=["dispatch"]), "bound to a Pod")
    await refused(mac.create_token("runner", "default", audiences=["dispatch"], bound_to=bound(theirs)), "bound to it")
    await refused(mac.create_token("runner", "default", audiences=["else"], bound_to=bound(own)), "audiences")
    await refused(mac.create_token("runner", "default", bound_to=bound(own)), "audiences")
    nameless = ObjectReference(api_version="v1", kind="Pod", name="own")
    await refused(mac.create_token("runner", "default", audiences=["dispatch"], bound_to=nameless), "uid")


async def test_it_cannot_touch_the_operators_lease_or_another_macs(world: World):
    mac = await world.mac("mac-1")
    await world.admin.create(lease("paddock", "default"))
    await refused(mac.merge_patch(Lease, "paddock", {"spec": {"holderIdentity": "mac-1"}}, "default"))
    await refused(mac.get(Lease, "paddock", "default"))
    await refused(mac.create(lease("mac-1", "default")))
    await refused(mac.create(lease("mac-2")), "can only write the Lease")
    await refused(mac.list(Lease, "kube-node-lease"))


def request(name: str, machine: str, **spec: Any) -> dict[str, Any]:
    pem = base64.b64encode(node_key_and_request(machine)[1]).decode()
    usages = ["client auth", "digital signature"]
    return {
        "metadata": {"name": name},
        "spec": {"request": pem, "signerName": KUBELET_CLIENT, "usages": usages, **spec},
    }


async def until(holds: Callable[[], Awaitable[Any]]) -> Any:
    async with asyncio.timeout(10):
        while not (found := await holds()):
            await asyncio.sleep(0.02)
    return found


async def test_it_renews_its_own_certificate_and_gets_nobody_elses(world: World):
    mac = await world.mac("mac-1")
    await mac.create(request("renewal", "mac-1", username="system:node:mac-2"), CSR)
    status = await until(lambda: _certificate(mac, "renewal"))
    assert (await mac.get(CSR, "renewal"))["spec"]["username"] == "system:node:mac-1", "whatever the client claims"
    assert status
    await refused(mac.create(request("theirs", "mac-2"), CSR), "of its own")
    signer = {"signerName": "kubernetes.io/kube-apiserver-client"}
    await refused(mac.create(request("admin", "mac-1", **signer), CSR), "can only ask the signer")
    said = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    await refused(mac.merge_patch(CSR, "renewal", said, subresource="approval"))
    await world.admin.create(request("others", "mac-2"), CSR)
    await refused(mac.get(CSR, "others"))


async def _certificate(client: Client, name: str) -> str:
    return ((await client.get(CSR, name)).get("status") or {}).get("certificate", "")


async def test_a_macs_identity_ends_with_its_machine_at_once_and_no_namesake_inherits_it(world: World):
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    await world.admin.delete(ScalewayAppleSiliconMachine, "mac-1", "default")
    for call in (mac.get(Node, "mac-1"), mac.create(request("more", "mac-1"), CSR)):
        with pytest.raises(UnauthorizedError):
            await call
    world.clock.ahead = timedelta(seconds=5)
    machine = ScalewayAppleSiliconMachine(metadata=ObjectMeta(name="mac-1", namespace="default"))
    await world.admin.create(machine)
    with pytest.raises(UnauthorizedError):
        await mac.get(Node, "mac-1")
    again = world.cluster.node(await world.kubeconfig("mac-1"))
    assert (await again.get(Node, "mac-1")).metadata.name == "mac-1"


async def test_a_mac_whose_machine_was_forced_away_may_still_say_how_its_pods_end(world: World):
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    await world.pod("own", "mac-1")
    await world.admin.delete(ScalewayAppleSiliconMachine, "mac-1", "default")
    ended = {"status": {"phase": "Succeeded"}}
    assert (await mac.merge_patch(Pod, "own", ended, "default", subresource="status")).status.phase == "Succeeded"
    with pytest.raises(UnauthorizedError):
        await mac.get(Node, "mac-1")


async def test_a_mac_that_its_machine_let_go_is_refused_although_the_machine_lives(world: World):
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    since = rfc3339(world.clock.now() + timedelta(seconds=2))
    patch = {"metadata": {"annotations": {IDENTITY_SINCE: since}}}
    await world.admin.merge_patch(ScalewayAppleSiliconMachine, "mac-1", patch, "default")
    with pytest.raises(UnauthorizedError):
        await mac.get(Node, "mac-1")


async def test_an_expired_certificate_speaks_for_nobody(world: World):
    mac = await world.mac("mac-1")
    await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
    world.clock.ahead = timedelta(hours=25)
    with pytest.raises(UnauthorizedError):
        await mac.get(Node, "mac-1")


async def test_an_agent_that_slept_through_its_renewal_gets_a_new_certificate_and_a_lively_one_does_not(world: World):
    access = NodeAccess(world.admin, world.clock, seeded("access"), ENDPOINT)
    await world.mac("mac-1")
    await access.delivered("mac-1", "default", await access.first("mac-1", "default"))
    world.clock.ahead = timedelta(hours=20)
    beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": rfc3339(world.clock.now())}
    node = {"metadata": {"name": "mac-1"}, "status": {"conditions": [beat]}}
    await world.admin.create(node, Node.RESOURCE)
    assert not await access.due("mac-1", "default"), "it speaks: it renews by itself"
    assert await access.next("mac-1", "default") is None
    world.clock.ahead = timedelta(hours=21)
    assert await access.due("mac-1", "default")
    given = await access.next("mac-1", "default")
    assert given is not None
    assert await access.due("mac-1", "default"), "it did not reach the Mac yet"
    await access.delivered("mac-1", "default", given)
    assert not await access.due("mac-1", "default")


async def test_a_cluster_that_signs_nothing_gets_accounts_whose_rights_are_narrow():
    async with running_cluster(signs=False, roles=node_roles()) as cluster, cluster.client() as admin:
        settings = NodeAccessSettings(timeout=0.2, pods_namespace="kube-public")
        access = NodeAccess(admin, SystemClock(), seeded("access"), ENDPOINT, settings)
        made = await access.first("mac-1", "default")
        token = yaml.safe_load(made.kubeconfig.reveal())["users"][0]["user"]["token"]
        async with cluster.client(Secret(token)) as mac:
            await mac.create(Node(metadata=ObjectMeta(name="mac-1")))
            await mac.create(lease("mac-1"))
            assert not (await mac.list(Pod, "kube-public")).items
            await refused(mac.list(Pod, "default"))
            await refused(mac.create_token("default", "kube-system"))
            await refused(mac.create_token("default", "default"))
            await refused(mac.create(lease("paddock", "default")))
            await refused(mac.list(SecretObject, "kube-public"))
            await access.remove("mac-1", "default")
            with pytest.raises(UnauthorizedError):
                await mac.get(Node, "mac-1")


async def test_an_account_is_given_where_that_was_asked_for(world: World):
    settings = NodeAccessSettings(kind=IdentityKind.SERVICE_ACCOUNT)
    access = NodeAccess(world.admin, world.clock, seeded("a"), ENDPOINT, settings)
    assert "token" in (await access.first("mac-1", "default")).kubeconfig.reveal()


async def test_the_operator_approves_renewals_of_live_machines_and_nothing_else():
    clock = SystemClock()
    async with running_cluster(roles=[]) as cluster, cluster.client() as admin:
        # No binding for renewals here: nobody but the operator approves.
        live = ScalewayAppleSiliconMachine(metadata=ObjectMeta(name="mac-1", namespace="default"))
        for machine in ("mac-1", "mac-2"):
            made = await NodeCertificates(admin, clock, seeded(machine), ENDPOINT, namespace="default").issue(machine)
            assert isinstance(made, NodeIdentity)
            await cluster.node(made.kubeconfig).create(request(f"renewal-{machine}", machine), CSR)
        await admin.create(request("by-somebody-else", "mac-1"), CSR)
        await CertificateRequests(admin, clock, lambda: [live]).cycle()
        assert await until(lambda: _certificate(admin, "renewal-mac-1"))
        for left in ("renewal-mac-2", "by-somebody-else"):
            found = await admin.get(CSR, left)
            assert not (found.get("status") or {}).get("conditions")
            assert machine_of_request(found) in ("", "mac-2")


async def test_whoever_may_write_roles_grants_nobody_more_than_they_hold(world: World):
    """S15, K1: a role that was written by somebody without its rights would make them administrator."""
    manage = {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles", "clusterrolebindings"],
        "verbs": ["create", "get", "patch"],
    }
    nodes = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    await world.admin.create({"metadata": {"name": "writer"}, "rules": [manage, nodes]}, ROLE)
    subject = {"kind": "ServiceAccount", "name": "other", "namespace": "default"}
    await world.admin.create(binding("writer", "writer", subject), BINDING)
    token, _ = await world.admin.create_token("other", "default")
    async with world.cluster.client(token) as writer:
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        await refused(writer.create({"metadata": {"name": "more"}, "rules": [everything]}, ROLE), "not currently held")
        await refused(writer.merge_patch(ROLE, "writer", {"rules": [everything]}), "not currently held")
        await refused(writer.create(binding("me", "cluster-admin", subject), BINDING), "not currently held")
        await writer.create({"metadata": {"name": "same"}, "rules": [nodes]}, ROLE)
        await writer.create(binding("same", "same", subject), BINDING)
        await writer.merge_patch(ROLE, "writer", {"metadata": {"labels": {"a": "b"}}})
        allowed = {**manage, "resources": ["clusterroles"], "verbs": ["bind"], "resourceNames": ["cluster-admin"]}
        await world.admin.merge_patch(ROLE, "writer", {"rules": [manage, nodes, allowed]})
        await writer.create(binding("me", "cluster-admin", subject), BINDING)
        assert await writer.list(SecretObject) is not None, "cluster-admin grants"


def binding(name: str, role: str, subject: dict[str, str]) -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": [subject]}


async def test_approving_needs_a_right_on_the_signer_beside_the_subresource(world: World):
    csr = {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests/approval"],
        "verbs": ["patch"],
    }
    await world.admin.create({"metadata": {"name": "approver"}, "rules": [csr]}, ROLE)
    subject = {"kind": "ServiceAccount", "name": "other", "namespace": "default"}
    await world.admin.create(binding("approver", "approver", subject), BINDING)
    await world.admin.create(request("open", "mac-9"), CSR)
    token, _ = await world.admin.create_token("other", "default")
    said = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    async with world.cluster.client(token) as approver:
        await refused(approver.merge_patch(CSR, "open", said, subresource="approval"), "not permitted to approve")
    with pytest.raises(KubeError):
        await world.admin.merge_patch(CSR, "nothing", said, subresource="approval")
