"""The Node as an object: what its Mac reports of itself, in Kubernetes' words. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from paddock.base.clock import rfc3339
from paddock.base.names import GOLDEN_LABEL, MACOS_TAINT, RUNTIME_LABEL, SOFTNET_LABEL, TART, VM_RESOURCE
from paddock.clients.gateway.messages import MacFacts, Report, Stated
from paddock.kube.builtin import NodeCondition

__all__ = ["NodeTemplate", "conditions", "label_changes", "new_node", "node_labels", "node_object"]

Json = dict[str, Any]
_PODS: Final = 10
"""More than VMs: Pods that only wait, and DaemonSets' Pods, take places, too. `tuist.dev/vm` is what is scarce."""
_OF_EVERY_MAC: Final = {
    "MemoryPressure": Stated(False, "VMsHaveTheirOwnMemory", "each VM has its memory for itself"),
    "PIDPressure": Stated(False, "VMsHaveTheirOwnProcesses", "each VM has its processes for itself"),
}
"""Cluster API takes a Node that shows Ready alone for unhealthy, hence the three pressures."""
_CONDITIONS: Final = (
    "Ready",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
    "VMSlotsLeaked",
    "VMSlotsLeakOften",
    "LongUptime",
    "ClockSkewed",
    "JournalUnreadable",
    "OtherClusterVMs",
)


class NodeTemplate(Struct, frozen=True):
    """What of a Node does not come from its Mac. `logs_port` is where the Mac serves logs itself, 0 where it does not."""

    name: str
    provider_id: str = ""
    labels: dict[str, str] = {}
    kubelet_version: str = ""
    logs_port: int = 0


def node_labels(node: NodeTemplate, mac: MacFacts) -> dict[str, str]:
    return {
        **node.labels,
        "kubernetes.io/os": "darwin",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": node.name,
        RUNTIME_LABEL: TART,
        SOFTNET_LABEL: "true" if mac.softnet else "false",
        **{GOLDEN_LABEL + each: "true" for each in mac.goldens or ()},
    }


def label_changes(have: Mapping[str, str], node: NodeTemplate, mac: MacFacts) -> Json:
    """The labels to set, and those of goldens to take off (None). With goldens unknown those stay as they are."""
    want = node_labels(node, mac)
    changes: Json = {key: value for key, value in want.items() if have.get(key) != value}
    if mac.goldens is not None:
        changes |= {key: None for key in have if key.startswith(GOLDEN_LABEL) and key not in want}
    return changes


def new_node(node: NodeTemplate, mac: MacFacts) -> Json:
    """The Node as it is created: the taint belongs here, because a node's identity may not change taints later."""
    spec: Json = {"taints": [{"key": MACOS_TAINT, "value": "true", "effect": "NoSchedule"}]}
    if node.provider_id:
        spec["providerID"] = node.provider_id
    return {"metadata": {"name": node.name, "labels": node_labels(node, mac)}, "spec": spec}


def conditions(stated: Mapping[str, Stated], before: Iterable[NodeCondition], now: datetime) -> list[Json]:
    """The Node's conditions, of a fixed list. Of what the server shows only the times of unchanged ones are taken."""
    old = {each.type: each for each in before}
    known = {**stated, **_OF_EVERY_MAC}
    return [_condition(kind, known[kind], old.get(kind), now) for kind in _CONDITIONS if kind in known]


def _condition(kind: str, stated: Stated, before: NodeCondition | None, now: datetime) -> Json:
    status = "True" if stated.holds else "False"
    since = before.last_transition_time if before is not None and before.status == status else None
    return {
        "type": kind,
        "status": status,
        "reason": stated.reason,
        "message": stated.message,
        "lastHeartbeatTime": rfc3339(now),
        "lastTransitionTime": rfc3339(since or now),
    }


def node_object(report: Report, node: NodeTemplate) -> Json:
    """The Node's status but for its conditions."""
    mac = report.mac
    capacity = {
        "cpu": str(mac.cpus),
        "memory": f"{mac.memory_bytes // 1024}Ki",
        "ephemeral-storage": str(mac.disk_bytes),
        "pods": str(_PODS),
        VM_RESOURCE: str(mac.seats),
    }
    addresses = [{"type": "Hostname", "address": mac.hostname or node.name}]
    if mac.address:
        addresses.insert(0, {"type": "InternalIP", "address": mac.address})
    endpoints = {"daemonEndpoints": {"kubeletEndpoint": {"Port": node.logs_port}}} if node.logs_port else {}
    return {
        **endpoints,
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": addresses,
        "nodeInfo": {
            "machineID": mac.machine_id,
            "systemUUID": mac.machine_id,
            "bootID": mac.boot_id,
            "kernelVersion": mac.kernel,
            "osImage": mac.os_image,
            "containerRuntimeVersion": f"tart://{mac.tart}",
            "kubeletVersion": node.kubelet_version,
            "kubeProxyVersion": "",
            "operatingSystem": "darwin",
            "architecture": "arm64",
        },
    }
