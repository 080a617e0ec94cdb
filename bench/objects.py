"""Hosts as a busy fleet has them, for benches that need many."""

from datetime import UTC, datetime, timedelta
from typing import Any

from paddock.base.rng import new_uuid, seeded
from paddock.hosts.api import ScalewayAppleSiliconHost

__all__ = ["GROUP", "HOSTS", "host", "listing", "status"]

GROUP = "infrastructure.cluster.x-k8s.io/v1alpha1"
HOSTS = f"/apis/{GROUP}/namespaces/default/{ScalewayAppleSiliconHost.RESOURCE.plural}"
_NOW = datetime(2026, 6, 1, tzinfo=UTC)


def host(number: int) -> dict[str, Any]:
    """A Host as a client sends it."""
    server_id = new_uuid(seeded(number))
    return {
        "apiVersion": GROUP,
        "kind": "ScalewayAppleSiliconHost",
        "metadata": {"name": f"host-{number:05}", "namespace": "default", "labels": {"zone": "fr-par-1"}},
        "spec": {
            "zone": "fr-par-1",
            "serverID": server_id,
            "claim": {
                "machineNamespace": "default",
                "machineName": f"mac-fleet-{number:05}",
                "machineUID": new_uuid(seeded(number + 1_000_000)),
                "epoch": 1,
            },
        },
    }


def status(number: int, turn: int = 0) -> dict[str, Any]:
    """A Host's status as the inventory writes it."""
    return {
        "state": "owned",
        "cloudName": f"mac-fleet-{number:05}",
        "cloudStatus": "ready",
        "type": "M4-M",
        "delivered": True,
        "ip": f"198.18.{number // 250 % 250}.{number % 250}",
        "deletableAt": (_NOW + timedelta(minutes=number)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "history": {"bootstraps": turn},
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Claimed",
                "message": f"claimed by machine default/mac-fleet-{number:05}",
                "lastTransitionTime": "2026-06-01T00:00:00Z",
            }
        ],
    }


def listing(count: int) -> dict[str, Any]:
    """What a server answers to a LIST of so many Hosts."""
    items = []
    for number in range(count):
        item = {**host(number), "status": status(number)}
        item["metadata"] = {
            **item["metadata"],
            "uid": new_uuid(seeded(number)),
            "resourceVersion": str(number + 1),
            "generation": 1,
            "creationTimestamp": "2026-06-01T00:00:00Z",
            "managedFields": [
                {
                    "manager": "paddock",
                    "operation": "Update",
                    "apiVersion": GROUP,
                    "time": "2026-06-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {".": {}, "f:zone": {}, "f:serverID": {}, "f:claim": {}}},
                }
            ],
        }
        items.append(item)
    return {
        "kind": "ScalewayAppleSiliconHostList",
        "apiVersion": GROUP,
        "metadata": {"resourceVersion": str(count)},
        "items": items,
    }
