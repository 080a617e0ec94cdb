"""The Node and its Lease as objects: what the agent knows of itself, in Kubernetes' words. Pure."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec

from paddock.base.clock import rfc3339
from paddock.base.names import GOLDEN_LABEL, MACOS_TAINT, RUNTIME_LABEL, SOFTNET_LABEL, TART
from paddock.kube.builtin import NodeCondition
from paddock.node.host import HostFacts
from paddock.node.pods import VM_RESOURCE, Offer, Refusal
from paddock.node.settings import AgentSettings

__all__ = ["OTHER_CLUSTER_VMS", "Health", "conditions", "label_changes", "new_node", "node_labels", "node_status"]

Json = dict[str, Any]
OTHER_CLUSTER_VMS: Final = "OtherClusterVMs"
_PODS: Final = 10
"""More than VMs: Pods that only wait, and DaemonSets' Pods, take places, too. `tuist.dev/vm` is what is scarce."""


class Health(msgspec.Struct, frozen=True):
    """What can be wrong with a Mac, each a sentence with its remedy, or empty."""

    not_ready: Refusal | None = None
    disk_pressure: str = ""
    slots_leaked: str = ""
    slots_leak_often: str = ""
    long_uptime: str = ""
    clock_skew: str = ""
    journal_unreadable: str = ""
    other_cluster: tuple[str, ...] = ()
    """The jobs of another cluster that run here, each with its Pod, VM and time."""


def node_labels(settings: AgentSettings, goldens: Iterable[str], *, softnet: bool = False) -> dict[str, str]:
    return {
        **settings.labels,
        "kubernetes.io/os": "darwin",
        "kubernetes.io/arch": "arm64",
        "kubernetes.io/hostname": settings.node_name,
        RUNTIME_LABEL: TART,
        SOFTNET_LABEL: "true" if softnet else "false",
        **dict.fromkeys(goldens, "true"),
    }


def label_changes(
    have: dict[str, str], settings: AgentSettings, goldens: frozenset[str] | None, *, softnet: bool = False
) -> Json:
    """The labels to set, and those of goldens to take off (None). With `goldens` unknown those stay as they are."""
    want = node_labels(settings, goldens or (), softnet=softnet)
    changes: Json = {key: value for key, value in want.items() if have.get(key) != value}
    if goldens is not None:
        changes |= {key: None for key in have if key.startswith(GOLDEN_LABEL) and key not in want}
    return changes


def new_node(settings: AgentSettings, goldens: Iterable[str], *, softnet: bool = False) -> Json:
    """The Node as it is created: the taint belongs here, because a node's identity may not change taints later."""
    spec: Json = {"taints": [{"key": MACOS_TAINT, "value": "true", "effect": "NoSchedule"}]}
    if settings.provider_id:
        spec["providerID"] = settings.provider_id
    return {
        "metadata": {"name": settings.node_name, "labels": node_labels(settings, goldens, softnet=softnet)},
        "spec": spec,
    }


def conditions(health: Health, before: Iterable[NodeCondition], now: datetime) -> list[Json]:
    """The Node's conditions from our own knowledge. Of what the server shows only the times of unchanged ones are taken.

    Cluster API takes a Node that shows Ready alone for unhealthy, hence the three pressures.
    """
    old = {each.type: each for each in before}

    def condition(kind: str, holds: bool, reason: str, message: str) -> Json:
        status = "True" if holds else "False"
        known = old.get(kind)
        since = known.last_transition_time if known is not None and known.status == status else None
        return {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": rfc3339(now),
            "lastTransitionTime": rfc3339(since or now),
        }

    return [
        condition(
            "Ready",
            health.not_ready is None,
            health.not_ready.reason if health.not_ready is not None else "AgentReady",
            health.not_ready.message if health.not_ready is not None else "the agent runs, and VMs can start",
        ),
        condition("MemoryPressure", False, "VMsHaveTheirOwnMemory", "each VM has its memory for itself"),
        condition(
            "DiskPressure",
            bool(health.disk_pressure),
            "DiskIsShort" if health.disk_pressure else "EnoughSpace",
            health.disk_pressure or "the disk has room for another image",
        ),
        condition("PIDPressure", False, "VMsHaveTheirOwnProcesses", "each VM has its processes for itself"),
        condition(
            "VMSlotsLeaked",
            bool(health.slots_leaked),
            "RebootNeeded" if health.slots_leaked else "SlotsFree",
            health.slots_leaked or "macOS grants VMs as it should",
        ),
        condition(
            "VMSlotsLeakOften",
            bool(health.slots_leak_often),
            "MacOSBuild" if health.slots_leak_often else "SlotsStay",
            health.slots_leak_often or "no macOS of this Mac lost more than one VM's seat within a day",
        ),
        condition(
            "LongUptime",
            bool(health.long_uptime),
            "RebootNeeded" if health.long_uptime else "UptimeShort",
            health.long_uptime or "the Mac was booted lately enough",
        ),
        condition(
            "ClockSkewed",
            bool(health.clock_skew),
            "ClockIsWrong" if health.clock_skew else "ClockIsRight",
            health.clock_skew or "the Mac's clock agrees with the API server's",
        ),
        condition(
            "JournalUnreadable",
            bool(health.journal_unreadable),
            "EntryUnreadable" if health.journal_unreadable else "AllReadable",
            health.journal_unreadable or "every entry of the agent's journal can be read",
        ),
        condition(OTHER_CLUSTER_VMS, bool(health.other_cluster), *_other_cluster(health.other_cluster)),
    ]


def _other_cluster(jobs: tuple[str, ...]) -> tuple[str, str]:
    if not jobs:
        return "NoJob", "no job of another cluster runs here"
    return (
        "OneJob" if len(jobs) == 1 else f"{len(jobs)}Jobs",
        (
            f"a job that another cluster began runs on: {', '.join(jobs)}; it keeps its seat, is let finish, and is removed then; "
            "to end it now, run `tart stop` with the VM's name on the Mac"
        ),
    )


def node_status(settings: AgentSettings, host: HostFacts, offer: Offer, tart: str, disk_bytes: int) -> Json:
    """The Node's status but for its conditions."""
    capacity = {
        "cpu": str(host.cpus),
        "memory": f"{offer.memory_bytes // 1024}Ki",
        "ephemeral-storage": str(disk_bytes),
        "pods": str(_PODS),
        VM_RESOURCE: str(offer.vms),
    }
    addresses = [{"type": "Hostname", "address": host.hostname or settings.node_name}]
    if host.address:
        addresses.insert(0, {"type": "InternalIP", "address": host.address})
    endpoints = {"daemonEndpoints": {"kubeletEndpoint": {"Port": settings.logs_port}}} if settings.logs_port else {}
    return {
        **endpoints,
        "capacity": capacity,
        "allocatable": capacity,
        "addresses": addresses,
        "nodeInfo": {
            "machineID": host.machine_id,
            "systemUUID": host.machine_id,
            "bootID": host.boot_id,
            "kernelVersion": host.kernel,
            "osImage": host.os_image,
            "containerRuntimeVersion": f"tart://{tart}",
            "kubeletVersion": settings.kubelet_version,
            "kubeProxyVersion": "",
            "operatingSystem": "darwin",
            "architecture": "arm64",
        },
    }
