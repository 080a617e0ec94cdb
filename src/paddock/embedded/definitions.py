"""Which kinds the embedded API serves beside the built-in ones: our own, and those of Cluster API that we read."""

from typing import Any

from paddock.hosts import api as hosts_api
from paddock.kube.crd import crd_of
from paddock.runners import api as runners_api

__all__ = ["cluster_api_definitions", "definitions", "our_definitions"]

_CLUSTER_API = "cluster.x-k8s.io"
_FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NAMES = (
    ("Cluster", "clusters", ("cl",)),
    ("Machine", "machines", ("ma",)),
    ("MachineSet", "machinesets", ("ms",)),
    ("MachineDeployment", "machinedeployments", ("md",)),
)


def definitions() -> list[dict[str, Any]]:
    """Everything that `paddock up` serves from the start."""
    return [*our_definitions(), *cluster_api_definitions()]


def our_definitions() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions of both subsystems, generated from their structs."""
    return [crd_of(kind) for kind in (*hosts_api.KINDS, *runners_api.KINDS)]


def cluster_api_definitions() -> list[dict[str, Any]]:
    """Cluster API's kinds, open: we read a few fields of them and validate none."""
    return [_cluster_api(kind, plural, short) for kind, plural, short in _NAMES]


def _cluster_api(kind: str, plural: str, short: tuple[str, ...]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": _FREE, "status": _FREE}}
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v1beta2",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
            "additionalPrinterColumns": [
                {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            ],
        }
        for name in ("v1beta1", "v1beta2")
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{_CLUSTER_API}"},
        "spec": {
            "group": _CLUSTER_API,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": list(short),
                "categories": ["cluster-api"],
            },
            "versions": versions,
        },
    }
