"""A runner Pod on a Mac: one container, which is a VM, and at most two of them on a host.

The scheduler knows nothing of Apple's licence, so the Pod says it in words that it does know: each VM asks for one unit of
a resource of which the Mac's agent offers two; a VM that must have the Mac for itself asks for both.
"""

from typing import Any

from paddock.base.names import MACOS_TAINT, RUNTIME_LABEL, TART
from paddock.runners.api import FLEET_LABEL, RUNNER, VM_RESOURCE, RunnerPool
from paddock.runners.pools.pod_names import golden_label

__all__ = ["macos_spec"]

Json = dict[str, Any]


def macos_spec(pool: RunnerPool, env: list[Json], resources: Json, token: Json) -> Json:
    """The Pod's spec without what both systems share. `token` is the projected volume."""
    return {
        "containers": [
            {
                "name": RUNNER,
                "image": pool.spec.image,
                "env": env,
                "resources": {
                    kind: {**amounts, VM_RESOURCE: str(pool.vm_seats)} for kind, amounts in resources.items()
                },
                "volumeMounts": [{"name": token["name"], "mountPath": "/var/run/secrets/paddock", "readOnly": True}],
            }
        ],
        "volumes": [token],
        # Agents that stage a token by themselves (tart-kubelet) do so only for Pods that ask for one this way. The
        # account has no rights in the cluster, so such a token opens nothing there.
        "automountServiceAccountToken": True,
        "nodeSelector": {
            "kubernetes.io/os": "darwin",
            RUNTIME_LABEL: TART,
            FLEET_LABEL: pool.spec.fleet_selector,
        },
        "tolerations": [{"key": MACOS_TAINT, "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "preference": {
                            "matchExpressions": [{"key": golden_label(pool.spec.image), "operator": "Exists"}]
                        },
                    }
                ]
            },
        },
    }
