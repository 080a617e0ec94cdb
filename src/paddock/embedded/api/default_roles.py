"""The ClusterRoles that every cluster has and that our manifests refer to."""

from typing import Any, Final

__all__ = ["DEFAULT_ROLES"]

_RBAC = "rbac.authorization.k8s.io"
_RENEWAL = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"


def _role(name: str, rules: list[dict[str, Any]]) -> dict[str, Any]:
    labels = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules}


DEFAULT_ROLES: Final = (
    _role(
        "cluster-admin",
        [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            {"nonResourceURLs": ["*"], "verbs": ["*"]},
        ],
    ),
    _role(
        _RENEWAL,
        [
            {
                "apiGroups": ["certificates.k8s.io"],
                "resources": ["certificatesigningrequests/selfnodeclient"],
                "verbs": ["create"],
            }
        ],
    ),
)
