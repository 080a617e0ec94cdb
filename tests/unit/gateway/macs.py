"""A Mac, its Machine and its reports, for tests of the gateway's parts."""

from datetime import timedelta
from typing import Any

from doubles.clocks import NOON
from msgspec.structs import replace

from paddock.clients.gateway.messages import MacFacts, PodReport, Report
from paddock.gateway.bounds import Accepted
from paddock.gateway.identity import MacIdentity
from paddock.gateway.macs import Reported
from paddock.gateway.report_order import Heard
from paddock.hosts.api import MachineSpec, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Container, Pod, PodSpec, PodStatus
from paddock.kube.objects import ObjectMeta

UID = "0c1d2e3f-0000-4000-8000-000000000001"
CLUSTER = "cluster-1"
MAC = MacIdentity(
    namespace="ci",
    name="mac-1",
    machine_uid="uid-1",
    host="host-1",
    key_number=1,
    key_digits="a" * 16,
    rights="all",
)
MACHINE = ScalewayAppleSiliconMachine(
    metadata=ObjectMeta(name="mac-1", namespace="ci", uid="uid-1"),
    spec=MachineSpec(provider_id="scw://mac-1", fleet_name="m4"),
)
FACTS = MacFacts(
    machine_id="A1B2",
    boot_id="boot",
    booted_at=NOON - timedelta(days=1),
    cpus=8,
    memory_bytes=16 << 30,
    disk_bytes=1 << 40,
    seats=2,
    clock=NOON,
)
POD = PodReport(state="ready", namespace="runners", name="p1", cluster=CLUSTER, accepted_at=NOON, ready_at=NOON)


def accepted(pods: dict[str, PodReport] | None = None, *, left_out: int = 0, **facts: Any) -> Accepted:
    report = Report(folder="f", life=1, word="w", sequence=1, agent="0.2.0", mac=replace(FACTS, **facts))
    return Accepted(report=report, pods=pods or {}, at=NOON, left_out=left_out)


def reported(pods: dict[str, PodReport] | None = None, mac: MacIdentity = MAC, sequence: int = 1) -> Reported:
    return Reported(mac, MACHINE, accepted(pods), Heard(1, "f", 1, "w", sequence))


def pod(name: str = "p1", uid: str = UID, *, node: str = "mac-1", phase: str = "Pending", deleted: bool = False) -> Pod:
    meta = ObjectMeta(
        name=name,
        namespace="runners",
        uid=uid,
        creation_timestamp=NOON,
        deletion_timestamp=NOON if deleted else None,
    )
    spec = PodSpec(node_name=node, containers=(Container("runner", "macos:26"),))
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase=phase))
