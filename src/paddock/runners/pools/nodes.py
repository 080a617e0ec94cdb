"""What a pool asks of the Nodes that it runs on, and which of them it stops believing. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.failing_mac import JobsFail, jobs_fail
from paddock.kube.builtin import Node, Pod
from paddock.kube.quantity import parse_quantity
from paddock.runners.api import FLEET_LABEL, LINUX_POOL_LABEL, VM_RESOURCE, RunnerPool
from paddock.runners.pools.pod_predicates import warm_since

__all__ = [
    "LICENSED",
    "StartFailure",
    "Suspicion",
    "closed",
    "healthy",
    "marked_of",
    "nodes_of",
    "seatless",
    "seats_of",
    "suspicion",
    "unready_since",
    "well",
]

_PRESSURES: Final = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure"})
_MANY: Final = 3
LICENSED: Final = 2
"""Apple's licence allows two VMs on a Mac, whatever its Node offers."""
_REMEMBERED: Final = timedelta(minutes=30)


def nodes_of(pool: RunnerPool, nodes: Mapping[str, Node]) -> list[Node]:
    """The Nodes of the pool's fleet, in whatever state."""
    label = FLEET_LABEL if pool.spec.os == "darwin" else LINUX_POOL_LABEL
    return [node for node in nodes.values() if node.metadata.labels.get(label) == pool.spec.fleet_selector]


def closed(node: Node) -> bool:
    """Cordoned, or on its way out."""
    return node.spec.unschedulable or node.metadata.deletion_timestamp is not None


def marked_of(node: Node) -> JobsFail | None:
    """The mark of a Mac on which jobs fail at once."""
    return jobs_fail(node.metadata.annotations, node.status.node_info)


def healthy(node: Node) -> bool:
    """Well by its own word, and not marked as one on which jobs fail at once, of which a Mac knows nothing itself."""
    return well(node) and marked_of(node) is None


def well(node: Node) -> bool:
    """Says itself that it is Ready, is under no pressure, and takes Pods. Silence is not health."""
    if closed(node):
        return False
    ready = False
    for condition in node.status.conditions:
        if condition.type == "Ready":
            ready = condition.status == "True"
        elif condition.status == "True" and condition.type in _PRESSURES:
            return False
    return ready


def seats_of(node: Node) -> int | None:
    """How many VMs the Mac offers to run at a time, at most what the licence allows; None where its agent does not say."""
    offered = node.status.allocatable.get(VM_RESOURCE)
    if offered is None:
        return None
    try:
        return max(0, min(LICENSED, int(parse_quantity(offered))))
    except ValueError:
        return 0  # counts for nothing rather than for too much


def seatless(nodes: Iterable[Node]) -> str:
    """What to say of Macs whose agent offers no VM seats: no Pod of ours ever fits there. Empty where all do."""
    names = sorted(node.metadata.name for node in nodes if seats_of(node) is None)
    if not names:
        return ""
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return (
        f"{len(names)} Macs ({listed}) are ready and offer no {VM_RESOURCE}, so no VM fits there: "
        "their node agent is older than this operator, or another one; install the agent of this version"
    )


def unready_since(node: Node) -> datetime | None:
    """Since when the Node is not Ready, or its agent is silent; None while it is, or where it does not say."""
    said = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    return said.last_transition_time if said is not None and said.status != "True" else None


@dataclass(frozen=True, slots=True)
class StartFailure:
    """A Pod that got a Node and failed before it started there, or did not start in time."""

    node: str
    at: datetime
    waited: timedelta = timedelta()
    """How much longer than its pool's start timeout it was waited for, because the Mac had to fetch the image first."""

    def counts(self, now: datetime) -> bool:
        """For half an hour; and for as much longer as two more like it take, or a Mac that can fetch no image, on which two
        Pods fail in half an hour, would never have failed three.
        """
        return now - self.at <= _REMEMBERED + 2 * self.waited


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Nodes on which Pods do not start. `avoid` are those that new Pods stay away from."""

    suspects: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    sentence: str = ""


def suspicion(
    failures: Sequence[StartFailure], pods: Iterable[Pod], nodes: Sequence[Node], os: str, now: datetime
) -> Suspicion:
    """Three failures within half an hour (longer where images are fetched), and no Pod that started since, make a Node suspect.

    A broken Node is the emptiest one, so the scheduler prefers it, and a fleet can starve on it. New Pods avoid suspects
    only while they are fewer than half of the Nodes that take Pods: when most of those fail, it is not the Nodes, and
    avoiding them would leave nothing. A suspicion lapses half an hour after the last failures, so that a repaired Node is
    tried.
    """
    started: dict[str, datetime] = {}
    for pod in pods:
        since, name = warm_since(pod, os), pod.spec.node_name
        if since is not None and name:
            started[name] = max(since, started.get(name, since))
    recent = Counter(
        failure.node
        for failure in failures
        if failure.counts(now) and (failure.node not in started or started[failure.node] < failure.at)
    )
    names = {node.metadata.name for node in nodes}
    suspects = tuple(sorted(name for name, count in recent.items() if count >= _MANY and name in names))
    if not suspects:
        return Suspicion()
    listed = ", ".join(f"{name} ({recent[name]} Pods)" for name in suspects)
    serving = {node.metadata.name for node in nodes if healthy(node)} or names
    if 2 * len(serving.intersection(suspects)) < len(serving):
        return Suspicion(
            suspects, suspects, f"Pods do not start on {listed}: new ones avoid it for 30 minutes; look at that Node"
        )
    return Suspicion(
        suspects,
        (),
        f"Pods do not start on {listed}, too many Nodes of this fleet to be avoided: look at the image first",
    )
