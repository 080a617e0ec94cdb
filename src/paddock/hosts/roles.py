"""What the host subsystem may do in the cluster: the operator's rights, and those of every Mac's own identity."""

from typing import Any, Final

from paddock.hosts.api import (
    MacFleet,
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
    ScalewayAppleSiliconRemediation,
)
from paddock.hosts.cluster_api import GROUP as CLUSTER_API
from paddock.kube.roles import RBAC, Role, Rule

__all__ = [
    "CORE_ROLE",
    "NODE_LEASE_ROLE",
    "NODE_PODS_ROLE",
    "NODE_ROLE",
    "OPERATOR_CLUSTER_RULES",
    "OPERATOR_NAMESPACE_RULES",
    "RENEWAL_BINDING",
    "cluster_identity",
    "core_rules",
    "node_lease_rules",
    "node_pod_rules",
    "node_roles",
    "node_rules",
    "renewal_binding",
]

NODE_ROLE: Final = "paddock-node"
NODE_LEASE_ROLE: Final = f"{NODE_ROLE}-lease"
NODE_PODS_ROLE: Final = f"{NODE_ROLE}-pods"
CORE_ROLE: Final = "paddock-cluster-api"
RENEWAL_BINDING: Final = "paddock-node-renewals"
CLUSTER_IDENTITY: Final = "paddock-cluster-identity"

_MACHINES = ScalewayAppleSiliconMachine.RESOURCE
_HOSTS = ScalewayAppleSiliconHost.RESOURCE
_FLEETS = MacFleet.RESOURCE
_CLUSTERS = ScalewayAppleSiliconCluster.RESOURCE
_PLANES = ScalewayAppleSiliconControlPlane.RESOURCE
_REMEDIATIONS = ScalewayAppleSiliconRemediation.RESOURCE

OPERATOR_CLUSTER_RULES: Final = (
    Rule(
        "Machines live in the namespaces of their clusters. They are watched everywhere, read again before every step, "
        "and their finalizer and provider id are patched; a MacFleet makes and deletes its own.",
        _MACHINES.group,
        (_MACHINES.plural,),
        ("get", "list", "watch", "create", "patch", "delete"),
    ),
    Rule(
        "Where a Machine stands, and why.",
        _MACHINES.group,
        (f"{_MACHINES.plural}/status",),
        ("patch",),
    ),
    Rule(
        "The inventory is watched and listed as a whole: the sweep must see every Host before it calls one orphaned.",
        _HOSTS.group,
        (_HOSTS.plural,),
        ("list", "watch"),
    ),
    Rule("Fleets of standalone Machines.", _FLEETS.group, (_FLEETS.plural,), ("get", "list", "watch")),
    Rule("How many Machines a fleet has.", _FLEETS.group, (f"{_FLEETS.plural}/status",), ("patch",)),
    Rule(
        "A fleet's Machines block its deletion as their owner; clusters that enforce owner references ask for this.",
        _FLEETS.group,
        (f"{_FLEETS.plural}/finalizers",),
        ("update",),
    ),
    Rule(
        "Cluster API's contract for clusters. The finalizer of those whose kubeconfig we make is patched.",
        _CLUSTERS.group,
        (_CLUSTERS.plural,),
        ("get", "list", "watch", "patch"),
    ),
    Rule(
        "Says that there is nothing to provision.",
        _CLUSTERS.group,
        (f"{_CLUSTERS.plural}/status",),
        ("patch",),
    ),
    Rule(
        "Cluster API's contract for control planes.",
        _PLANES.group,
        (_PLANES.plural,),
        ("get", "list", "watch"),
    ),
    Rule(
        "Says that the control plane is managed elsewhere.",
        _PLANES.group,
        (f"{_PLANES.plural}/status",),
        ("patch",),
    ),
    Rule(
        "The owner of a Machine and its cluster may be paused, and then nothing is touched.",
        CLUSTER_API,
        ("machines", "clusters"),
        ("get",),
    ),
    Rule(
        "What a MachineHealthCheck asks for; it makes and deletes these itself.",
        _REMEDIATIONS.group,
        (_REMEDIATIONS.plural,),
        ("get", "list", "watch"),
    ),
    Rule(
        "Where a remediation stands, and why.",
        _REMEDIATIONS.group,
        (f"{_REMEDIATIONS.plural}/status",),
        ("patch",),
    ),
    Rule(
        "When no tier helped, the owner of the Machine that a health check calls unhealthy is asked to replace it.",
        CLUSTER_API,
        ("machines/status",),
        ("patch",),
    ),
    Rule(
        "A Node that goes missing is noticed; one is cordoned before its Mac is taken; that of a deleted Machine is removed, "
        "because the Mac cannot do it.",
        "",
        ("nodes",),
        ("get", "list", "watch", "patch", "delete"),
    ),
    Rule(
        "Who works on a Mac is read before it is wiped, rebooted or given back; runners may be in any namespace.",
        "",
        ("pods",),
        ("list",),
    ),
    Rule(
        "Each Mac's own account is given the node role, and loses it first when its Machine ends; so is Cluster API's core, "
        "for each cluster, the role with which it finds and drains Nodes.",
        RBAC,
        ("clusterrolebindings",),
        ("get", "create", "delete"),
    ),
    Rule(
        "Where the cluster signs no certificates: what a Mac's account may do to its Lease and to Pods is bound where "
        "those are.",
        RBAC,
        ("rolebindings",),
        ("get", "create", "delete"),
    ),
    Rule(
        "Giving away a role needs all of its rights, or this; it holds for these alone.",
        RBAC,
        ("clusterroles",),
        ("bind",),
        names=(NODE_ROLE, NODE_LEASE_ROLE, NODE_PODS_ROLE, CORE_ROLE),
    ),
    Rule(
        "A Mac's first certificate is asked for here, with a key that never leaves the operator but for that Mac; requests "
        "of live Machines' nodes for their next one are found.",
        "certificates.k8s.io",
        ("certificatesigningrequests",),
        ("get", "list", "create"),
    ),
    Rule("Approves both.", "certificates.k8s.io", ("certificatesigningrequests/approval",), ("patch",)),
    Rule(
        "Approving asks for this, too; it holds for certificates of nodes alone.",
        "certificates.k8s.io",
        ("signers",),
        ("approve",),
        names=("kubernetes.io/kube-apiserver-client-kubelet",),
    ),
)
"""The operator's rights in the whole cluster."""

OPERATOR_NAMESPACE_RULES: Final = (
    Rule(
        "The inventory: one Host object a server, in the operator's namespace. A claim and a release are patches of it.",
        _HOSTS.group,
        (_HOSTS.plural,),
        ("get", "create", "patch", "delete"),
    ),
    Rule("What the cloud shows of each host.", _HOSTS.group, (f"{_HOSTS.plural}/status",), ("patch",)),
    Rule(
        "A host's login, a fleet's SSH key and a node's token are each in a Secret beside the Machine, and core's kubeconfig "
        "beside its cluster; applied, which is a patch, and a creation where there is none.",
        "",
        ("secrets",),
        ("get", "create", "patch", "delete"),
    ),
    Rule(
        "Each Mac's agent has an account of its own, and core one for each cluster.",
        "",
        ("serviceaccounts",),
        ("get", "create", "delete"),
    ),
    Rule(
        "That account's token goes to the host, or into core's kubeconfig.", "", ("serviceaccounts/token",), ("create",)
    ),
    Rule(
        "Nodes of Macs that were given back, which are refused until their last certificate has ended.",
        "",
        ("configmaps",),
        ("get", "list", "create", "patch", "delete"),
    ),
    Rule("What happened to a Machine or a Host.", "", ("events",), ("create", "patch")),
    Rule("Of several operators one leads.", "coordination.k8s.io", ("leases",), ("get", "create", "update")),
)
"""The operator's rights in its own namespace, and in every other one that holds Machines."""

_WHICH_CLUSTER: Final = Rule(
    "The uid of kube-system says which cluster this is: a Mac that was moved lets the old cluster's jobs finish.",
    "",
    ("namespaces",),
    ("get",),
    names=("kube-system",),
)
_NODE_RULES: Final = (
    Rule("A Mac's agent registers its Node and keeps its labels.", "", ("nodes",), ("get", "create", "patch")),
    Rule("Heartbeats.", "", ("nodes/status",), ("patch",)),
    _WHICH_CLUSTER,
)
_NODE_LEASE_RULES: Final = (
    Rule("Heartbeats.", "coordination.k8s.io", ("leases",), ("get", "create", "patch", "update")),
)
_NODE_POD_RULES: Final = (
    Rule("The Pods that are bound to it.", "", ("pods",), ("get", "list", "watch", "delete")),
    Rule("How they fare.", "", ("pods/status",), ("patch",)),
    Rule("What happened to them.", "", ("events",), ("create", "patch")),
    Rule("The token that each Pod carries.", "", ("serviceaccounts/token",), ("create",)),
)


def node_rules() -> Role:
    """What an account of a Mac may do in the whole cluster; a Mac with a certificate needs `cluster_identity` alone."""
    return Role(NODE_ROLE, _NODE_RULES)


def node_lease_rules() -> Role:
    """What it may do in kube-node-lease, where it is bound."""
    return Role(NODE_LEASE_ROLE, _NODE_LEASE_RULES)


def node_pod_rules() -> Role:
    """What it may do where the runners are, where it is bound."""
    return Role(NODE_PODS_ROLE, _NODE_POD_RULES)


def renewal_binding() -> dict[str, Any]:
    """Every node may ask for its own next certificate, and for no other: Kubernetes' own role, given to all nodes."""
    name = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": RENEWAL_BINDING},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"}],
    }


def cluster_identity() -> list[dict[str, Any]]:
    """Every node may read which cluster this is; the Node authorizer shows it no namespace."""
    return [
        Role(CLUSTER_IDENTITY, (_WHICH_CLUSTER,)).manifest(),
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": CLUSTER_IDENTITY},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": CLUSTER_IDENTITY},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:nodes"}],
        },
    ]


def node_roles() -> list[dict[str, Any]]:
    """The ClusterRoles of Macs' accounts, as manifests."""
    return [role.manifest() for role in (node_rules(), node_lease_rules(), node_pod_rules())]


_CORE_RULES: Final = (
    Rule("Core asks whether the server is there.", "", (), ("get",), urls=("/",)),
    Rule(
        "Finds the Node of a Machine, labels and cordons it, and deletes it when the Machine goes.",
        "",
        ("nodes",),
        ("get", "list", "watch", "patch", "delete"),
    ),
    Rule(
        "What is still on a Node that is drained; and whether core's own Pod is here.", "", ("pods",), ("get", "list")
    ),
    Rule("Draining asks politely.", "", ("pods/eviction",), ("create",)),
    Rule("Rules of draining choose by namespace.", "", ("namespaces",), ("list", "watch")),
    Rule("Pods of a DaemonSet are not drained.", "apps", ("daemonsets",), ("get",)),
    Rule("Waits until volumes are detached.", "storage.k8s.io", ("volumeattachments",), ("list",)),
    Rule("Which volumes those are.", "", ("persistentvolumes",), ("list",)),
)


def core_rules() -> Role:
    """What Cluster API's core does in a cluster of Macs: measured by adding one right after the other."""
    return Role(CORE_ROLE, _CORE_RULES)
