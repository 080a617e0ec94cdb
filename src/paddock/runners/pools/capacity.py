"""What a fleet can hold now, counted on its Nodes, and what one Pod of a pool takes of it."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import Any, ClassVar

from paddock.base.clock import Clock
from paddock.kube.builtin import Node, Pod
from paddock.kube.client import Client
from paddock.kube.errors import NotFoundError, UnknownKindError
from paddock.kube.objects import KubeObject, Struct
from paddock.kube.quantity import parse_quantity
from paddock.kube.resource import Resource
from paddock.runners.api import POOL_LABEL, RunnerPool
from paddock.runners.pools.admission import free_seats, share_a_fleet, waiting_for_a_place
from paddock.runners.pools.nodes import healthy, nodes_of, seats_of
from paddock.runners.pools.pod_predicates import terminal
from paddock.runners.pools.scaling import Capacity

__all__ = [
    "CostUnknownError",
    "Costs",
    "RuntimeClass",
    "capacity_of",
    "free_places",
    "healthy_nodes",
    "seats_taken",
    "too_large",
]

_USABLE = 90
"""Percent of a Linux Node's memory that Pods of runners may take; the rest is the Node's own and its DaemonSets'."""
_MIB = 1024 * 1024
_COST_KEPT = 60.0


class CostUnknownError(Exception):
    """What a Pod of this pool takes cannot be told: its RuntimeClass is missing. Create it, or correct the pool."""


class RuntimeClass(KubeObject, frozen=True):
    """How Pods of a class are run, as far as that costs memory."""

    RESOURCE: ClassVar[Resource] = Resource(
        "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False, status=False
    )

    class Overhead(Struct, frozen=True):
        pod_fixed: dict[str, Any] = {}

    overhead: Overhead | None = None


def healthy_nodes(pool: RunnerPool, nodes: Iterable[Node]) -> list[Node]:
    """The Nodes of the pool's fleet that can serve now."""
    return [node for node in nodes_of(pool, {node.metadata.name: node for node in nodes}) if healthy(node)]


def capacity_of(pool: RunnerPool, nodes: Iterable[Node]) -> Capacity:
    """What the pool's fleet can hold: the VMs that its Macs offer, or nine tenths of the memory that Linux Nodes offer."""
    serving = healthy_nodes(pool, nodes)
    if pool.spec.os == "darwin":
        return Capacity(sum(seats_of(node) or 0 for node in serving), "VMs")
    return Capacity(sum(_memory(node) for node in serving) * _USABLE // 100, "bytes")


def free_places(
    pool: RunnerPool, pools: Iterable[RunnerPool], nodes: Iterable[Node], pods: Iterable[Pod], now: datetime
) -> int:
    """How many new Pods of this pool its healthy Macs could hold beside those that live there or wait for one, of whatever pool.

    The seats are those that admission counts; the size of a Pod may leave fewer. 0 for Linux pools, whose Nodes others may
    use, too.
    """
    if pool.spec.os != "darwin":
        return 0
    fleet = {each.metadata.name for each in pools if share_a_fleet(each, pool)} | {pool.metadata.name}
    serving, seen = healthy_nodes(pool, nodes), list(pods)
    living, seats = Counter(pod.spec.node_name for pod in seen if not terminal(pod)), free_seats(serving, seen)
    places = 0
    for node in serving:
        name = node.metadata.name
        by_size = _fit(pool, node, seats_of(node) or 0) - living[name]
        places += max(0, min(seats[name] // pool.vm_seats, by_size))
    rivals = [pod for pod in seen if pod.metadata.labels.get(POOL_LABEL) in fleet]
    return max(0, places - waiting_for_a_place(pool, rivals, now))


def seats_taken(pool: RunnerPool, nodes: Iterable[Node]) -> int:
    """The VM seats that one Pod makes unusable: all of a Mac's where its memory or its CPUs are enough for one such VM alone."""
    if pool.spec.isolation == "exclusive":
        return pool.vm_seats
    fits = [(seats, _fit(pool, node, seats)) for node in healthy_nodes(pool, nodes) if (seats := seats_of(node))]
    if not fits:
        return 1
    return max(-(-seats // max(1, fit)) for seats, fit in fits)


def _fit(pool: RunnerPool, node: Node, seats: int) -> int:
    offered = node.status.allocatable
    wanted = {"cpu": pool.spec.pod_cpu_milli / 1000, "memory": pool.spec.pod_memory_mb * _MIB}
    try:
        room = [float(parse_quantity(offered[name])) // amount for name, amount in wanted.items() if name in offered]
    except ValueError:
        return seats  # the scheduler knows better than a number that we cannot read
    return int(min(seats, *room)) if room else seats


def too_large(pool: RunnerPool, nodes: Iterable[Node]) -> str | None:
    """Why no Mac of the fleet could ever hold one Pod of this pool, in whatever state they are now; None where one could.

    Of Linux Nodes nobody can say it: an autoscaler of Nodes makes larger ones for Pods that wait.
    """
    macs = [node for node in nodes if seats_of(node) and {"cpu", "memory"} <= node.status.allocatable.keys()]
    if pool.spec.os != "darwin" or not macs or any(_fit(pool, node, seats_of(node) or 0) for node in macs):
        return None
    cpus, memory = (max(_offered(node, what) for node in macs) for what in ("cpu", "memory"))
    return (
        f"spec.podCPUMilli {pool.spec.pod_cpu_milli} and spec.podMemoryMB {pool.spec.pod_memory_mb} are more than any of the "
        f"{len(macs)} Macs of the fleet {pool.spec.fleet_selector} has: at most podCPUMilli {int(cpus * 1000)} and podMemoryMB "
        f"{int(memory // _MIB)} fit"
    )


def _offered(node: Node, what: str) -> float:
    try:
        return float(parse_quantity(node.status.allocatable[what]))
    except ValueError:
        return 0.0


class Costs:
    """What a Pod of a pool takes of its fleet's units. RuntimeClasses are read from the server and kept for a minute."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._overheads: dict[str, tuple[float, int]] = {}

    async def of(self, pool: RunnerPool, nodes: Iterable[Node]) -> int:
        """VM seats of a Mac, or bytes with the overhead of the runtime. CostUnknownError or KubeError where it cannot be told."""
        if pool.spec.os == "darwin":
            return seats_taken(pool, nodes)
        return pool.spec.pod_memory_mb * _MIB + await self._overhead(pool.spec.runtime_class)

    async def _overhead(self, name: str) -> int:
        if not name:
            return 0
        now = self._clock.monotonic()
        known = self._overheads.get(name)
        if known is not None and now - known[0] < _COST_KEPT:
            return known[1]
        try:
            found = await self._client.get(RuntimeClass, name)
        except UnknownKindError:
            found = RuntimeClass()  # a server that has no such kind adds no overhead to any Pod
        except NotFoundError:
            raise CostUnknownError(
                f"there is no RuntimeClass {name}, so what a Pod takes is not known: create it, or correct the pool"
            ) from None
        fixed = found.overhead.pod_fixed if found.overhead is not None else {}
        overhead = int(parse_quantity(fixed.get("memory", "0")))
        self._overheads[name] = (now, overhead)
        return overhead


def _memory(node: Node) -> int:
    try:
        return int(parse_quantity(node.status.allocatable.get("memory", "0")))
    except ValueError:
        return 0  # counts for nothing rather than for too much
