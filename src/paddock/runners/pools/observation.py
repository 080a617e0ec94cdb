"""What a pool's plan is made from: what was seen, and which of its Pods look idle or outdated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from paddock.kube.builtin import Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.pools.admission import Reservation
from paddock.runners.pools.nodes import StartFailure, healthy, nodes_of, seats_of
from paddock.runners.pools.pod_predicates import alive, asks_for_seat, busy, deleting, stale, terminal
from paddock.runners.pools.settings import PoolSettings

__all__ = ["Draft", "PoolObservation", "Retirement", "age", "ended", "looks_idle", "outdated", "serving"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolObservation:
    """Everything a plan rests on. `pods` are this pool's own, all of them; the rest may be a little old."""

    pool: RunnerPool
    pods: Sequence[Pod]
    nodes: Mapping[str, Node]
    now: datetime
    settings: PoolSettings
    siblings: Sequence[RunnerPool] = ()
    """The other pools of the fleet."""
    sibling_pods: Sequence[Pod] = ()
    reserved: Sequence[Reservation] = ()
    """Creations that neither `pods` nor `sibling_pods` show."""
    held: frozenset[str] = frozenset()
    """Uids of Pods that the ledger lately refused to let go: busy, whatever they look like."""
    gone: frozenset[str] = frozenset()
    """Names of Nodes that a fresh read has proven absent. A Node that a cache merely does not show is not among them."""
    homeless: frozenset[str] = frozenset()
    """Uids of Pods without a ServiceAccount, by a fresh read."""
    failures: Sequence[StartFailure] = ()
    label_keeper: RunnerPool | None = None
    """Another pool that has had its dispatch label for longer."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """A Pod to ask the ledger about and, if it lets go, to delete. `failed_on` is the Node that is to blame; `waited` as in
    `StartFailure`.
    """

    pod: Pod
    kind: str
    why: str
    failed_on: str = ""
    waited: timedelta = timedelta()


@dataclass(slots=True)
class Draft:
    """The pool's Pods, sorted, and what has been decided so far."""

    seen: PoolObservation
    living: list[Pod] = field(default_factory=list)
    idle: list[Pod] = field(default_factory=list)
    """Living, looks idle, and nothing has been decided about it."""
    outdated: frozenset[str] = frozenset()
    """Uids of the living that are of an older image or shape."""
    finishing: int = 0
    """Of the living: how many finish a job where none begins any more, and do not count among those that are wanted."""
    retire: list[Retirement] = field(default_factory=list)
    mark: list[Pod] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)

    def let_go(self, pod: Pod, kind: str, why: str, failed_on: str = "", waited: timedelta = timedelta()) -> None:
        self.idle.remove(pod)
        self.retire.append(Retirement(pod, kind, why, failed_on, waited))

    def passed(self, deadline: datetime) -> bool:
        """Whether it is over; else the plan says when it will be."""
        if deadline <= self.seen.now:
            return True
        self.deadlines.append(deadline)
        return False


def ended(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if terminal(pod) and not deleting(pod))


def looks_idle(pod: Pod, held: frozenset[str]) -> bool:
    """Living, and nothing says that it is used."""
    return alive(pod) and not busy(pod) and pod.metadata.uid not in held


def outdated(pod: Pod, seen: PoolObservation) -> bool:
    """Of an older image or RuntimeClass; or a VM made before Pods asked for seats, which the scheduler does not count.

    On a Mac that offers no seats such a VM stays: a new one would not fit there.
    """
    if stale(pod, seen.pool):
        return True
    node = seen.nodes.get(pod.spec.node_name)
    counted = seen.pool.spec.os != "darwin" or asks_for_seat(pod)
    return not counted and node is not None and seats_of(node) is not None


def serving(seen: PoolObservation) -> list[Node]:
    return [node for node in nodes_of(seen.pool, seen.nodes) if healthy(node)]


def age(pod: Pod) -> float:
    made = pod.metadata.creation_timestamp
    return made.timestamp() if made is not None else 0.0
