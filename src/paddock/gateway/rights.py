"""What the gateway may do in the cluster, with the account of the dispatch process.

No write of Machines and Hosts: who a Mac is the operator decides. No policy can see another object, so that a Node's name is a
Machine's the gateway checks itself. Nothing is granted that a Mac could ask for: it has no account at all.
"""

from typing import Final

from paddock.gateway.lease import LEASES
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Lease, Namespace, Node, Pod, SecretObject
from paddock.kube.roles import Role, Rule

__all__ = ["GATEWAY", "gateway_roles"]

GATEWAY: Final = "paddock-gateway"

_NODES: Final = Node.RESOURCE.plural
_PODS: Final = Pod.RESOURCE.plural
_SECRETS: Final = SecretObject.RESOURCE.plural
_MACHINES: Final = ScalewayAppleSiliconMachine.RESOURCE
_HOSTS: Final = ScalewayAppleSiliconHost.RESOURCE

_CLUSTER_RULES: Final = (
    Rule(
        "Whose key a request shows: the claim of a Host holds its hash. Read again before a refusal, and before every effect that "
        "cannot be taken back.",
        _HOSTS.group,
        (_HOSTS.plural, _MACHINES.plural),
        ("get", "list", "watch"),
    ),
    Rule(
        "A Mac's Node is made once its Machine is there, and follows what the Mac reports; a Node that is not of a Mac is never "
        "written.",
        "",
        (_NODES,),
        ("get", "list", "watch", "create", "patch"),
    ),
    Rule("Conditions, capacity and addresses of a Mac.", "", (f"{_NODES}/status",), ("patch",)),
    Rule("What happened on a Mac; events of Nodes are in another namespace.", "", ("events",), ("create", "patch")),
    Rule(
        "Which cluster this is: a VM of another one is nobody's to end.",
        "",
        (Namespace.RESOURCE.plural,),
        ("get",),
        names=("kube-system",),
    ),
)

_LEASE_RULES: Final = (
    Rule(
        "A Mac is alive by its Lease, which names the report that counts.",
        Lease.RESOURCE.group,
        (Lease.RESOURCE.plural,),
        ("get", "create", "update"),
    ),
)

_RUNNERS_RULES: Final = (
    Rule(
        "The Pods that are bound to a Mac; one that is deleted goes when its Mac says that nothing of it is left.",
        "",
        (_PODS,),
        ("get", "list", "watch", "delete"),
    ),
    Rule("How far a Pod is, and how it ended.", "", (f"{_PODS}/status",), ("patch",)),
)


def _own_rules(certificate: str) -> tuple[Rule, ...]:
    return (
        Rule(
            "Each replica says since when Macs could be heard; a new one goes on where the others are, and the Leases of replicas "
            "that are gone for an hour are removed.",
            Lease.RESOURCE.group,
            (Lease.RESOURCE.plural,),
            ("list", "create", "update", "delete"),
        ),
        Rule(
            "The certificate of the Macs' listener and its authorities; no other Secret can be read.",
            "",
            (_SECRETS,),
            ("get", "patch"),
            names=(certificate, f"{certificate}-ca"),
        ),
        Rule("The first replica makes them; no name can be asked of a creation.", "", (_SECRETS,), ("create",)),
    )


def gateway_roles(namespace: str, runners_namespace: str, certificate: str) -> tuple[Role, ...]:
    """The gateway's roles. `namespace` is the release's, `certificate` the Secret of the Macs' listener there."""
    return (
        Role(GATEWAY, _CLUSTER_RULES),
        Role(GATEWAY, _LEASE_RULES, LEASES),
        Role(f"{GATEWAY}-runners", _RUNNERS_RULES, runners_namespace),
        Role(f"{GATEWAY}-own", _own_rules(certificate), namespace),
    )
