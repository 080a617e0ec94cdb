"""The ClusterRoles that every cluster has and that manifests refer to.

On a real server `admin`, `edit` and `view` are put together from every role with a matching label (aggregation). Nothing
here does that: they are written out, for the kinds that are served, and hold no kind of a definition.
"""

from typing import Any, Final

__all__ = ["DEFAULT_ROLES"]

_RBAC = "rbac.authorization.k8s.io"
_RENEWAL = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_SEEN = ["configmaps", "events", "pods", "pods/log", "pods/status", "serviceaccounts", "services", "services/status"]
_WRITTEN = ["configmaps", "events", "pods", "pods/eviction", "secrets", "serviceaccounts", "services"]


def _rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}


_VIEW = [_rule("", [*_SEEN, "namespaces"], _READ)]
_EDIT = [
    *_VIEW,
    _rule("", ["secrets"], _READ),
    _rule("", _WRITTEN, _WRITE),
    _rule("", ["serviceaccounts"], ["impersonate"]),
    _rule("", ["serviceaccounts/token"], ["create"]),
    _rule("coordination.k8s.io", ["leases"], [*_READ, *_WRITE]),
]
_ADMIN = [
    *_EDIT,
    _rule(_RBAC, ["rolebindings", "roles"], [*_READ, *_WRITE]),
    _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
]

DEFAULT_ROLES: Final = (
    _role(
        "cluster-admin",
        [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    ),
    _role("admin", _ADMIN),
    _role("edit", _EDIT),
    _role("view", _VIEW),
    _role(_RENEWAL, [_rule("certificates.k8s.io", ["certificatesigningrequests/selfnodeclient"], ["create"])]),
)
