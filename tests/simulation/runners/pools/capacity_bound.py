"""The bound that every pool simulation keeps: no pool lacks Pods while good Nodes have room for them, beyond what is on its way.

Capacity in use is at least the capacity that is good, less what is starting, within seconds. It is judged from outside, at
every second of a simulation, by what the cluster stores: a violation needs that for the whole of the last `within` seconds a
pool lacked Pods, and good Nodes had more free places than Pods were waiting for one. Time in which the operator does not
run, or as many Pods start as may, does not count.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from paddock.kube.builtin import Node, Pod
from paddock.kube.quantity import parse_quantity
from paddock.runners.api import FLEET_LABEL, LINUX_POOL_LABEL, POOL_LABEL, RunnerPool

_OVER = frozenset({"Succeeded", "Failed"})
Fleet = tuple[str, str]


@dataclass(frozen=True)
class Look:
    """One second: free places by Node, missing Pods by pool, and Pods that have no Node yet."""

    free: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0
    excused: bool = False


class CapacityBound:
    """Looks once a second; `broken` are sentences about what it saw. `within` None: this simulation breaks the bound on purpose."""

    def __init__(self, within: float | None, warm: Callable[[Pod], bool]) -> None:
        self.within = within
        self._warm = warm
        self._looks: dict[Fleet, deque[Look]] = {}
        self.broken: list[str] = []
        self.judged = 0
        """Looks at a fleet that had a whole window behind them."""

    def look(
        self,
        pools: Sequence[RunnerPool],
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        *,
        bad: frozenset[str],
        excused: bool,
        now: float,
    ) -> None:
        if self.within is None:
            return
        fleets = {(each.spec.os, each.spec.fleet_selector) for each in pools}
        for fleet in fleets:
            mine = [each for each in pools if (each.spec.os, each.spec.fleet_selector) == fleet]
            seen = self._seen(fleet, mine, nodes, pods, bad, excused=excused)
            looks = self._looks.setdefault(fleet, deque(maxlen=int(self.within)))
            looks.append(seen)
            if len(looks) == looks.maxlen:
                self._judge(fleet, looks, now)

    def _seen(
        self,
        fleet: Fleet,
        pools: Sequence[RunnerPool],
        nodes: Sequence[Node],
        pods: Sequence[Pod],
        bad: frozenset[str],
        *,
        excused: bool,
    ) -> Look:
        names = {each.metadata.name for each in pools}
        there = [pod for pod in pods if pod.metadata.labels.get(POOL_LABEL) in names and pod.status.phase not in _OVER]
        # Pods of all fleets take room; those that are being stopped have theirs still.
        bound = [pod for pod in pods if pod.spec.node_name and pod.status.phase not in _OVER]
        living = [pod for pod in there if pod.metadata.deletion_timestamp is None]
        makes = [each for each in pools if each.metadata.deletion_timestamp is None and not _refused(each)]
        good = [node for node in nodes if _good(node, fleet) and node.metadata.name not in bad]
        starting = sum(not self._warm(pod) for pod in living)
        ceiling = min((each.spec.provisioning.max_concurrent_per_node for each in pools), default=0) * len(good)
        return Look(
            free={node.metadata.name: _free(node, makes, bound) for node in good},
            missing={each.metadata.name: max(0, each.spec.replicas - _of(each, living)) for each in makes},
            waiting=sum(not pod.spec.node_name for pod in living),
            excused=excused or starting >= ceiling,
        )

    def _judge(self, fleet: Fleet, looks: "deque[Look]", now: float) -> None:
        if any(each.excused for each in looks):
            return
        self.judged += 1
        free = sum(min(each.free.get(name, 0) for each in looks) for name in looks[-1].free)
        room = free - max(each.waiting for each in looks)
        missing = {name: min(each.missing.get(name, 0) for each in looks) for name in looks[-1].missing}
        if room > 0 and sum(missing.values()) > 0:
            lacks = ", ".join(f"{name} lacks {count}" for name, count in sorted(missing.items()) if count)
            self.broken.append(
                f"at {now:.0f} s: for {self.within:.0f} s {room} places of the fleet {'/'.join(fleet)} were free, and {lacks}"
            )


def _of(pool: RunnerPool, pods: Sequence[Pod]) -> int:
    return sum(pod.metadata.labels.get(POOL_LABEL) == pool.metadata.name for pod in pods)


def _refused(pool: RunnerPool) -> bool:
    """Nobody could make a Pod of it, or of what it asks for."""
    return any(each.reason in ("InvalidConfiguration", "CreateFailed") for each in pool.status.conditions)


def _good(node: Node, fleet: Fleet) -> bool:
    os, selector = fleet
    if node.metadata.labels.get(FLEET_LABEL if os == "darwin" else LINUX_POOL_LABEL) != selector:
        return False
    if node.spec.unschedulable or node.metadata.deletion_timestamp is not None or node.spec.taints:
        return False
    return any(each.type == "Ready" and each.status == "True" for each in node.status.conditions)


def _free(node: Node, pools: Sequence[RunnerPool], bound: Sequence[Pod]) -> int:
    """How many more of the largest shape of its pools fit: what is free for it is free for every other."""
    offers = {name: parse_quantity(amount) for name, amount in node.status.allocatable.items()}
    here = [pod for pod in bound if pod.spec.node_name == node.metadata.name]
    if not pools:
        return 0
    places: list[float] = []
    for pool in pools:
        asks = {"cpu": pool.spec.pod_cpu_milli / 1000, "memory": pool.spec.pod_memory_mb * 2**20}
        if pool.spec.os == "darwin":
            asks["tuist.dev/vm"] = pool.vm_seats
        places.append(min(float(offers.get(name, 0)) // amount for name, amount in asks.items()))
    return max(0, int(min(places)) - len(here))
