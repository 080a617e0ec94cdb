"""What the runner subsystem may do in the cluster: the operator's part of it, and the dispatch process.

Everything about Pods is granted in the runners' namespace alone. Only what has no namespace is granted in the cluster:
Nodes, and asking whose token a caller shows.
"""

from typing import Final

from paddock.base.names import PADDOCK_GROUP
from paddock.kube.builtin import Node, Pod, ServiceAccount, TokenReview
from paddock.kube.leader import OPERATOR_LEASE
from paddock.kube.roles import Role, Rule
from paddock.runners.api import RunnerPool
from paddock.runners.pools.capacity import RuntimeClass

__all__ = ["DISPATCH", "OPERATOR_CLUSTER_RULES", "OPERATOR_RUNNERS_RULES", "dispatch_roles"]

DISPATCH: Final = "paddock-dispatch"

_POOLS = RunnerPool.RESOURCE
_PODS = Pod.RESOURCE.plural
_ACCOUNTS = ServiceAccount.RESOURCE.plural

OPERATOR_CLUSTER_RULES: Final = (
    Rule(
        "How much a fleet can hold, and which Nodes are leaving.",
        "",
        (Node.RESOURCE.plural,),
        ("get", "list", "watch"),
    ),
    Rule(
        "What a runtime takes beside the Pod, without which a Linux fleet would be filled beyond its memory.",
        RuntimeClass.RESOURCE.group,
        (RuntimeClass.RESOURCE.plural,),
        ("get",),
    ),
)
"""The operator's rights in the whole cluster, for pools."""

OPERATOR_RUNNERS_RULES: Final = (
    Rule(
        "Pools are watched, read again before every step, and their finalizer and replicas are patched; the pools of "
        "profiles are made, changed and deleted.",
        _POOLS.group,
        (_POOLS.plural,),
        ("get", "list", "watch", "create", "patch", "delete"),
    ),
    Rule("How a pool fares, and why.", _POOLS.group, (f"{_POOLS.plural}/status",), ("patch",)),
    Rule(
        "A pool's Pods block its deletion as their owner; clusters that enforce owner references ask for this.",
        _POOLS.group,
        (f"{_POOLS.plural}/finalizers",),
        ("update",),
    ),
    Rule(
        "Runner Pods are made, told to drain by a label, and deleted when they have ended or were retired.",
        "",
        (_PODS,),
        ("list", "watch", "create", "patch", "delete"),
    ),
    Rule(
        "Each Pod has an account of its own: made before it, then handed over to it, so that it goes with its Pod; deleted "
        "only where the server refuses the Pod.",
        "",
        (_ACCOUNTS,),
        ("list", "watch", "create", "patch", "delete"),
    ),
    Rule("What happened to a pool or a Pod.", "", ("events",), ("create", "patch")),
)
"""The operator's rights in the runners' namespace."""

_DISPATCH_CLUSTER_RULES: Final = (
    Rule(
        "Whose token a Pod, or the operator, shows. Only the API server knows that one was revoked.",
        TokenReview.RESOURCE.group,
        (TokenReview.RESOURCE.plural,),
        ("create",),
    ),
    Rule(
        "A Pod that is deleting for ever is helped only when its Node is proven to be gone; the page shows Nodes.",
        "",
        (Node.RESOURCE.plural,),
        ("get", "list", "watch"),
    ),
    Rule(
        "The page shows Macs and the machines that want them.",
        "infrastructure.cluster.x-k8s.io",
        ("scalewayapplesiliconhosts", "scalewayapplesiliconmachines"),
        ("list", "watch"),
    ),
    Rule("The page shows fleets.", PADDOCK_GROUP, ("macfleets",), ("list", "watch")),
    Rule("The page shows what happened.", "", ("events",), ("list", "watch")),
    Rule(
        "The page says when no operator leads.",
        "coordination.k8s.io",
        ("leases",),
        ("list", "watch"),
        names=(OPERATOR_LEASE,),
    ),
)

_DISPATCH_RUNNERS_RULES: Final = (
    Rule("Which label leads to which pool.", _POOLS.group, (_POOLS.plural,), ("get", "list", "watch")),
    Rule(
        "Pods that ask for work must exist; they are assigned when they get some; one that is proven to be a leak is "
        "deleted. Without `delete` the reaper runs every minute and can do nothing.",
        "",
        (_PODS,),
        ("get", "list", "watch", "patch", "delete"),
    ),
    Rule("The last lines of a runner are kept as evidence before its Pod is deleted.", "", (f"{_PODS}/log",), ("get",)),
    Rule(
        "The account of a Pod says which pool it is of, and goes with its Pod.",
        "",
        (_ACCOUNTS,),
        ("get", "list", "watch", "delete"),
    ),
    Rule("What was healed, and on what evidence.", "", ("events",), ("create", "patch")),
)


def dispatch_roles(namespace: str) -> tuple[Role, ...]:
    """The dispatch process's roles; `namespace` is where the runners are."""
    return (Role(DISPATCH, _DISPATCH_CLUSTER_RULES), Role(DISPATCH, _DISPATCH_RUNNERS_RULES, namespace))
