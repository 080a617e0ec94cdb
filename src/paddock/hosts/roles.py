"""What a Mac may do in the cluster: the rules of the role that every node's own identity is bound to."""

from typing import Any, Final

__all__ = ["NODE_ROLE", "node_role"]

NODE_ROLE: Final = "paddock-node"

_RULES: Final[tuple[dict[str, Any], ...]] = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "create", "patch", "update"]},
    {"apiGroups": [""], "resources": ["nodes/status", "pods/status"], "verbs": ["patch", "update"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "create", "patch", "update"],
    },
)


def node_role() -> dict[str, Any]:
    """The ClusterRole, as a manifest."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NODE_ROLE},
        "rules": [dict(rule) for rule in _RULES],
    }
