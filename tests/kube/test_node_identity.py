"""A Mac's identity on a real kube-apiserver: every verb that it has, and that the rest is refused."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.hosts.bootstrap.identity import ApiEndpoint, NodeIdentity
from paddock.hosts.bootstrap.node_access import IdentityKind, NodeAccess, NodeAccessSettings
from paddock.hosts.bootstrap.node_certificate import CSR, KUBELET_CLIENT, NodeCertificates, node_key_and_request
from paddock.hosts.node_policies import node_policies
from paddock.hosts.roles import cluster_identity, node_roles, renewal_binding
from paddock.kube.builtin import ConfigMap, Lease, Node, ObjectReference, Pod, SecretObject, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import from_kubeconfig
from paddock.kube.errors import AlreadyExistsError, ForbiddenError, KubeError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource

if TYPE_CHECKING:
    from kube.controlplane import ControlPlane

RBAC, ADMISSION = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
KINDS = {
    "ClusterRole": Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    "ValidatingAdmissionPolicy": Resource(
        ADMISSION, "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
    ),
    "ValidatingAdmissionPolicyBinding": Resource(
        ADMISSION, "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False
    ),
}
REVIEW = Resource(
    "authorization.k8s.io", "v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews", namespaced=False, status=False
)
CSINODE = Resource("storage.k8s.io", "v1", "CSINode", "csinodes", namespaced=False, status=False)
SLICE = Resource("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False, status=False)
HOME = "default"
EVERYBODYS = {"selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"}


def pod_of(name: str, node: str) -> dict[str, Any]:
    token = {"serviceAccountToken": {"path": "token", "audience": "dispatch"}}
    spec = {
        "serviceAccountName": "node-test-runner",
        "nodeName": node,
        "containers": [{"name": "runner", "image": "x:1"}],
        "volumes": [{"name": "token", "projected": {"sources": [token]}}],
    }
    return {"metadata": {"name": name, "namespace": HOME}, "spec": spec}


def slice_of(node: str) -> dict[str, Any]:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    return {"metadata": {"name": f"{node}-slice"}, "spec": {"driver": "x.example.com", "pool": pool, "nodeName": node}}


@dataclass
class World:
    plane: "ControlPlane"
    admin: Client
    folder: Path
    rng: Random = field(default_factory=lambda: seeded("real nodes"))

    def access(self, kind: IdentityKind = IdentityKind.CERTIFICATE) -> NodeAccess:
        endpoint = ApiEndpoint(self.plane.url, self.plane.ca_file.read_text())
        settings = NodeAccessSettings(kind=kind, pods_namespace=HOME)
        return NodeAccess(self.admin, SystemClock(), self.rng, endpoint, settings)

    async def mac(self, name: str, kind: IdentityKind = IdentityKind.CERTIFICATE) -> Client:
        made = await self.access(kind).first(name, HOME)
        return self.client(name, made.kubeconfig)

    def client(self, name: str, kubeconfig: Secret) -> Client:
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(kubeconfig.reveal())
        return Client(from_kubeconfig(path))

    async def pod(self, name: str, node: str) -> Pod:
        await self.admin.create(pod_of(name, node), Pod.RESOURCE)
        return await self.admin.get(Pod, name, HOME)


@pytest.fixture
async def world(control_plane: "ControlPlane", tmp_path: Path) -> AsyncIterator[World]:
    async with Client(from_kubeconfig(control_plane.kubeconfig)) as admin:
        for each in (*node_roles(), renewal_binding(), *cluster_identity(), *node_policies(HOME)):
            await admin.apply(each, KINDS[each["kind"]], force=True)
        with contextlib.suppress(AlreadyExistsError):
            await admin.create(ServiceAccount(metadata=ObjectMeta(name="node-test-runner", namespace=HOME)))
        yield World(control_plane, admin, tmp_path)
        for pod in (await admin.list(Pod, HOME)).items:
            await admin.delete(Pod, pod.metadata.name, HOME, grace_period=0)


async def refused(call: Awaitable[Any], because: str = "") -> None:
    with pytest.raises(ForbiddenError) as refusal:
        await call
    assert because in str(refusal.value)


async def until(what: str, holds: Callable[[], Awaitable[Any]], within: float = 90.0) -> Any:
    try:
        async with asyncio.timeout(within):
            while not (found := await holds()):
                await asyncio.sleep(0.1)
    except TimeoutError:
        pytest.fail(f"not within {within:.0f} s: {what}")
    return found


def lease(name: str, namespace: str = "kube-node-lease") -> Lease:
    return Lease(metadata=ObjectMeta(name=name, namespace=namespace))


def bound(pod: Pod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid)


# The agent records in whose name it took a Pod: the uid of this namespace names the cluster.
WHICH_CLUSTER = {"namespaces kube-system": {"get"}}


async def rights(client: Client, namespace: str) -> dict[str, set[str]]:
    """What roles grant to an identity, by resource and the names it is narrowed to; what the Node authorizer decides is not among it."""
    body = {"spec": {"namespace": namespace}}
    answer = await client.create(body, REVIEW)
    found: dict[str, set[str]] = {}
    for rule in answer["status"]["resourceRules"]:
        for resource in rule.get("resources") or ():
            found.setdefault(" ".join((resource, *rule.get("resourceNames", ()))), set()).update(rule["verbs"])
    return {resource: verbs for resource, verbs in found.items() if resource not in EVERYBODYS}


def request(name: str, machine: str) -> dict[str, Any]:
    pem = base64.b64encode(node_key_and_request(machine)[1]).decode()
    spec = {"request": pem, "signerName": KUBELET_CLIENT, "usages": ["client auth", "digital signature"]}
    return {"metadata": {"name": name}, "spec": {**spec, "expirationSeconds": 86400}}


async def test_a_certificate_lets_a_mac_do_what_a_node_does_and_refuses_the_rest(world: World):
    mac = await world.mac("real-1")
    granted = {"certificatesigningrequests/selfnodeclient": {"create"}, **WHICH_CLUSTER}
    assert await rights(mac, HOME) == granted, "and what a node has"
    own, theirs = await world.pod("own", "real-1"), await world.pod("theirs", "real-2")
    await world.admin.create(Node(metadata=ObjectMeta(name="real-2")))
    await mac.create(Node(metadata=ObjectMeta(name="real-1", labels={"tuist.dev/runtime": "tart"})))
    await mac.merge_patch(Node, "real-1", {"metadata": {"labels": {"tuist.dev/golden-1": "true"}}})
    await mac.merge_patch(Node, "real-1", {"status": {"capacity": {"pods": "2"}}}, subresource="status")
    await mac.create(lease("real-1"))
    await mac.merge_patch(Lease, "real-1", {"spec": {"holderIdentity": "real-1"}}, "kube-node-lease")

    async def sees_its_pod() -> bool:
        # The authorizer's graph of Pods follows a watch of its own.
        try:
            return bool(await mac.get(Pod, "own", HOME))
        except ForbiddenError:
            return False

    await until("the node sees its Pod", sees_its_pod)
    listed = await mac.list(Pod, field_selector="spec.nodeName=real-1")
    assert [pod.metadata.name for pod in listed.items] == ["own"]
    await mac.merge_patch(Pod, "own", {"status": {"phase": "Running"}}, HOME, subresource="status")
    await mac.create_token("node-test-runner", HOME, audiences=["dispatch"], bound_to=bound(own))

    await world.admin.create(SecretObject(metadata=ObjectMeta(name="node-test-secret", namespace=HOME)))
    await world.admin.create(lease("node-test-operator", HOME))
    holder = {"spec": {"holderIdentity": "mac"}}
    tries: dict[str, Callable[[], Awaitable[Any]]] = {
        "a Secret": lambda: mac.get(SecretObject, "node-test-secret", HOME),
        "all Secrets": lambda: mac.list(SecretObject),
        "a new Secret": lambda: mac.create(SecretObject(metadata=ObjectMeta(name="s", namespace=HOME))),
        "ConfigMaps": lambda: mac.list(ConfigMap, HOME),
        "another Node's labels": lambda: mac.merge_patch(Node, "real-2", {"metadata": {"labels": {"a": "b"}}}),
        "another Node's status": lambda: mac.merge_patch(
            Node, "real-2", {"status": {"capacity": {"pods": "9"}}}, subresource="status"
        ),
        "another new Node": lambda: mac.create(Node(metadata=ObjectMeta(name="real-3"))),
        "another Node's end": lambda: mac.delete(Node, "real-2"),
        "its own end": lambda: mac.delete(Node, "real-1"),
        "its taints": lambda: mac.merge_patch(
            Node, "real-1", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
        ),
        "a barred label": lambda: mac.merge_patch(
            Node, "real-1", {"metadata": {"labels": {"node-restriction.kubernetes.io/a": "b"}}}
        ),
        "another Mac's Pod": lambda: mac.get(Pod, "theirs", HOME),
        "another Mac's Pods": lambda: mac.list(Pod, field_selector="spec.nodeName=real-2"),
        "all Pods": lambda: mac.list(Pod),
        "another Pod's status": lambda: mac.merge_patch(
            Pod, "theirs", {"status": {"phase": "Failed"}}, HOME, subresource="status"
        ),
        "another Pod's end": lambda: mac.delete(Pod, "theirs", HOME),
        "another Pod's token": lambda: mac.create_token(
            "node-test-runner", HOME, audiences=["dispatch"], bound_to=bound(theirs)
        ),
        "an account's token": lambda: mac.create_token("node-test-runner", HOME),
        "another audience": lambda: mac.create_token("node-test-runner", HOME, audiences=["else"], bound_to=bound(own)),
        "the operator's token": lambda: mac.create_token("default", "kube-system"),
        "the operator's Lease": lambda: mac.merge_patch(Lease, "node-test-operator", holder, HOME),
        "a Lease elsewhere": lambda: mac.create(lease("real-1", HOME)),
        "another Mac's Lease": lambda: mac.create(lease("real-2")),
        "a role": lambda: mac.create({"metadata": {"name": "r"}, "rules": []}, KINDS["ClusterRole"]),
        "a new Pod": lambda: mac.create(pod_of("new", "real-1"), Pod.RESOURCE),
        "another Mac's CSINode": lambda: mac.create({"metadata": {"name": "real-2"}, "spec": {"drivers": []}}, CSINODE),
        "another Mac's ResourceSlice": lambda: mac.create(slice_of("real-2"), SLICE),
        "an approval": lambda: mac.merge_patch(CSR, "x", {"status": {}}, subresource="approval"),
    }
    allowed = []
    for what, attempt in tries.items():
        try:
            await attempt()
        except ForbiddenError:
            continue
        except KubeError as error:
            pytest.fail(f"{what}: {error}")
        allowed.append(what)
    assert allowed == []
    with world.plane.client(world.plane.user("system:node:real-1", ("system:nodes",))) as http:
        evict = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "theirs", "namespace": HOME}}
        answer = http.post(f"/api/v1/namespaces/{HOME}/pods/theirs/eviction", json=evict)
        assert answer.status_code == 403, "another Pod's eviction"
    await mac.delete(Pod, "own", HOME, uid=own.metadata.uid, grace_period=0)


async def test_a_mac_renews_by_itself_and_one_that_was_given_back_does_nothing_any_more(world: World):
    mac = await world.mac("real-4")
    await mac.create(Node(metadata=ObjectMeta(name="real-4")))
    await mac.create(request("renewal-4", "real-4"), CSR)

    async def renewed() -> Any:
        return ((await mac.get(CSR, "renewal-4")).get("status") or {}).get("certificate")

    assert await until("the renewal is approved and signed", renewed)
    await world.access().remove("real-4", HOME)

    async def is_refused() -> bool:
        try:
            await mac.merge_patch(Node, "real-4", {"metadata": {"labels": {"a": str(world.rng.random())}}})
        except ForbiddenError as error:
            return "given back" in str(error)
        return False

    await until("the list of revoked nodes is read", is_refused)
    await refused(mac.create(request("renewal-5", "real-4"), CSR), "given back")
    await world.admin.delete(Node, "real-4")
    await refused(mac.create(Node(metadata=ObjectMeta(name="real-4"))), "given back")
    await refused(mac.create(lease("real-4")), "given back")
    # Another Mac is made the node of that name: by an account, and whoever has the key of the first is refused as before.
    given = await world.access().first("real-4", HOME)
    assert "client-certificate-data" not in given.kubeconfig.reveal()
    await world.admin.create(Node(metadata=ObjectMeta(name="real-4")))
    await refused(mac.merge_patch(Node, "real-4", {"metadata": {"labels": {"a": "b"}}}), "given back")
    await refused(mac.create(request("renewal-6", "real-4"), CSR), "given back")


async def test_an_account_is_tied_to_objects_of_its_own_name(world: World):
    mac = await world.mac("real-6", IdentityKind.SERVICE_ACCOUNT)
    given = await rights(mac, HOME)
    assert given == {
        "nodes": {"get", "create", "patch"},
        "nodes/status": {"patch"},
        "pods": {"get", "list", "watch", "delete"},
        "pods/status": {"patch"},
        "events": {"create", "patch"},
        "serviceaccounts/token": {"create"},
        **WHICH_CLUSTER,
    }
    assert await rights(mac, "kube-system") == {key: given[key] for key in ("nodes", "nodes/status", *WHICH_CLUSTER)}
    own, theirs = await world.pod("own-6", "real-6"), await world.pod("theirs-6", "real-7")
    await world.admin.create(Node(metadata=ObjectMeta(name="real-7")))

    async def is_tied() -> bool:
        try:
            await mac.merge_patch(Node, "real-7", {"metadata": {"labels": {"a": str(world.rng.random())}}})
        except ForbiddenError as error:
            return "its own Node" in str(error)
        return False

    await until("the policy is read", is_tied)
    await mac.create(Node(metadata=ObjectMeta(name="real-6")))
    await mac.merge_patch(Node, "real-6", {"status": {"capacity": {"pods": "2"}}}, subresource="status")
    await mac.create(lease("real-6"))
    await mac.merge_patch(Pod, "own-6", {"status": {"phase": "Running"}}, HOME, subresource="status")
    await mac.create_token("node-test-runner", HOME, audiences=["dispatch"], bound_to=bound(own))
    await refused(mac.create(Node(metadata=ObjectMeta(name="real-8"))), "its own Node")
    await refused(mac.create(lease("real-7")), "its own Lease")
    await refused(mac.create(lease("real-6", HOME)))
    await refused(mac.create_token("node-test-runner", HOME), "bound to a Pod")
    await refused(mac.create_token("default", "kube-system"))
    await refused(
        mac.merge_patch(Pod, "theirs-6", {"status": {"phase": "Failed"}}, HOME, subresource="status"), "bound to it"
    )
    await refused(mac.delete(Pod, "theirs-6", HOME), "bound to it")
    await refused(mac.list(SecretObject, HOME))
    taint = {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}
    await refused(mac.merge_patch(Node, "real-6", taint), "taints")
    # What the policy cannot say: a token of a neighbour's Pod, in the namespace of runners, bound to that Pod.
    token, _ = await mac.create_token("node-test-runner", HOME, audiences=["dispatch"], bound_to=bound(theirs))
    assert token.reveal()


async def test_the_certificate_is_for_a_day_and_for_this_node(world: World):
    endpoint = ApiEndpoint(world.plane.url)
    made = await NodeCertificates(world.admin, SystemClock(), world.rng, endpoint, namespace=HOME).issue("real-9")
    assert isinstance(made, NodeIdentity)
    assert yaml.safe_load(made.kubeconfig.reveal())["users"][0]["name"] == "system:node:real-9"
    assert made.expires is not None
    assert (made.expires - SystemClock().now()).total_seconds() <= 86400
