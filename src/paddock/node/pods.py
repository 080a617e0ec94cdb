"""Which Pods a Mac takes, and why it refuses one. Pure."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from paddock.base.names import VM_RESOURCE
from paddock.clients.gateway.messages import Reason, WantedPod
from paddock.node.journal import Entry, Stage
from paddock.node.names import vm_name

__all__ = ["Offer", "accepted", "admission"]


class Offer(msgspec.Struct, frozen=True):
    """What the Node offers to Pods in all. `fewer` says why it has fewer seats for VMs than a Mac has."""

    cpu_milli: int
    memory_bytes: int
    vms: int
    fewer: str = ""


def admission(pod: WantedPod, offer: Offer, others: Iterable[Entry], *, ending: int, pressure: str) -> Reason | None:
    """Whether the Node has room for this Pod beside `others`, the entries that are not over.

    `ending` counts the seats of those of them whose VM is on its way out: the scheduler has forgotten them already, so the
    Pod waits for their seats and is not refused.
    """
    if pod.refusal is not None:
        return pod.refusal
    if pressure:
        return Reason("NodeUnderPressure", f"the Mac takes no new Pods: {pressure}")
    present = list(others)
    if sum(each.seats for each in present) - ending + max(1, min(pod.shape.seats, offer.vms)) > offer.vms:
        names = ", ".join(sorted(f"{each.namespace}/{each.name}" for each in present)) or "none"
        most = offer.fewer or f"a Mac runs {offer.vms} VMs at most"
        return Reason(f"OutOf{VM_RESOURCE}", f"{most}; the Pods that have a seat: {names}")
    wanted = pod.shape
    used_cpu = sum((each.cpu or 0) for each in present) * 1000
    used_memory = sum((each.memory_mb or 0) for each in present) * 1024**2
    if ending == 0 and (wanted.cpu or 0) * 1000 + used_cpu > offer.cpu_milli:
        return Reason(
            "OutOfcpu", f"the Pod asks for {wanted.cpu} CPUs, {used_cpu // 1000} of {offer.cpu_milli // 1000} are taken"
        )
    if ending == 0 and (wanted.memory_mb or 0) * 1024**2 + used_memory > offer.memory_bytes:
        return Reason(
            "OutOfmemory",
            f"the Pod asks for {wanted.memory_mb} MiB, {used_memory // 1024**2} of {offer.memory_bytes // 1024**2} are taken",
        )
    return None


def accepted(pod: WantedPod, now: datetime) -> Entry:
    """The first entry of a Pod that the agent runs."""
    return Entry(
        uid=pod.uid,
        namespace=pod.namespace,
        name=pod.name,
        container=pod.container,
        image=pod.image,
        vm=vm_name(pod.pool, pod.uid),
        stage=Stage.ACCEPTED,
        # Kubernetes keeps whole seconds, and the same time must come out of every later report.
        accepted_at=(pod.started_at or now).replace(microsecond=0),
        cpu=pod.shape.cpu,
        memory_mb=pod.shape.memory_mb,
        seats=pod.shape.seats,
    )
