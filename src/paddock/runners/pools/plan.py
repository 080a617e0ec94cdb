"""What a pool should do about its Pods now, and why. Pure and total: every Pod of the pool gets at most one act.

Nothing here proves that a Pod is idle. A Pod in `retire` is one that looks idle; it is deleted only after the ledger has
fenced it. So a mistake in this module costs a question, never a job.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from paddock.kube.builtin import Node, Pod
from paddock.kube.objects import Condition
from paddock.runners.api import RunnerPool
from paddock.runners.pools.admission import Admission, Reservation, admission, places
from paddock.runners.pools.isolation import isolated
from paddock.runners.pools.messages import Counts, PoolMessages, placeable, ready
from paddock.runners.pools.nodes import (
    LICENSED,
    StartFailure,
    closed,
    healthy,
    nodes_of,
    seatless,
    seats_of,
    suspicion,
    unready_since,
)
from paddock.runners.pools.pod_names import golden_label
from paddock.runners.pools.pod_predicates import (
    alive,
    asks_for_seat,
    busy,
    deleting,
    drain_since,
    marked,
    operator_drained,
    scheduled_at,
    stale,
    stalled_since,
    terminal,
    unschedulable,
    warm,
)
from paddock.runners.pools.pod_predicates import unready_since as vm_unready_since
from paddock.runners.pools.pod_template import shape_problem
from paddock.runners.pools.settings import PoolSettings

__all__ = ["Counts", "GonePool", "PoolObservation", "PoolPlan", "Retirement", "plan"]


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
    namesakes: Sequence[str] = ()
    """Other pools with the same dispatch label."""


@dataclass(frozen=True, slots=True)
class Retirement:
    """A Pod to ask the ledger about and, if it lets go, to delete. `failed_on` is the Node that is to blame."""

    pod: Pod
    kind: str
    why: str
    failed_on: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """What to do now. `conditions` is what is said about it; `due` when a deadline of a Pod passes next."""

    counts: Counts
    create: int = 0
    avoid: tuple[str, ...] = ()
    reap: tuple[Pod, ...] = ()
    retire: tuple[Retirement, ...] = ()
    mark: tuple[Pod, ...] = ()
    blocked: bool = False
    due: timedelta | None = None
    conditions: tuple[Condition, ...] = ()

    @property
    def acts(self) -> bool:
        return bool(self.create or self.reap or self.retire or self.mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class GonePool:
    """A pool that is no more, and the Pods that we made for it. There is no spec to hold them against, and no pool to tell."""

    name: str
    pods: Sequence[Pod]
    held: frozenset[str] = frozenset()
    """As in `PoolObservation`."""

    @property
    def reap(self) -> tuple[Pod, ...]:
        """Those that have ended."""
        return _ended(self.pods)

    @property
    def retire(self) -> tuple[Retirement, ...]:
        """Those that look idle; what is busy goes on to its end."""
        idle = [pod for pod in self.pods if _idle(pod, self.held)]
        return tuple(Retirement(pod, "pool_deleted", "its pool is gone") for pod in idle)


@dataclass(slots=True)
class _Draft:
    """The pool's Pods, sorted, and what has been decided so far."""

    seen: PoolObservation
    living: list[Pod] = field(default_factory=list)
    idle: list[Pod] = field(default_factory=list)
    """Living, looks idle, and nothing has been decided about it."""
    finishing: int = 0
    """Of the living: how many finish a job where none begins any more, and do not count among those that are wanted."""
    retire: list[Retirement] = field(default_factory=list)
    mark: list[Pod] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)

    def let_go(self, pod: Pod, kind: str, why: str, failed_on: str = "") -> None:
        self.idle.remove(pod)
        self.retire.append(Retirement(pod, kind, why, failed_on))


def plan(seen: PoolObservation) -> PoolPlan:
    """The next step of a pool.

    In order: what has ended is reaped; idle Pods that can be of no use are let go; then what is too much, then what is stale, as far
    as the roll allows; then what is missing is created, as far as the fleet allows. A Pod that is let go counts until it
    is gone, so a refusal of the ledger never leaves one too many.
    """
    draft = _Draft(seen)
    pool, os = seen.pool, seen.pool.spec.os
    ending = pool.metadata.deletion_timestamp is not None
    draft.living = [pod for pod in seen.pods if alive(pod)]
    draft.idle = [pod for pod in draft.living if _idle(pod, seen.held)]
    draft.finishing = 0 if ending else _finishing(draft)
    counts = Counts(
        wanted=0 if ending else pool.spec.replicas,
        living=len(draft.living),
        idle=sum(warm(pod, os) for pod in draft.idle),
        busy=len(draft.living) - len(draft.idle),
        starting=sum(not warm(pod, os) for pod in draft.idle),
        stale=sum(_outdated(pod, seen) for pod in draft.living),
        leaving=sum(deleting(pod) for pod in seen.pods),
        finishing=draft.finishing,
    )
    trust = suspicion(seen.failures, (*seen.pods, *seen.sibling_pods), nodes_of(pool, seen.nodes), os, seen.now)
    problem = shape_problem(pool, seen.settings)
    admitted = Admission(0)
    unplaceable = None
    if ending:
        for pod in list(draft.idle):
            draft.let_go(pod, "pool_deleted", "its pool is being deleted")
    else:
        _useless(draft)
        _stalled(draft)
        _too_many(draft)
        if problem is None:
            _roll(draft)
        unplaceable = placeable(pool, draft.living, counts, seen.now)
        missing = max(0, pool.spec.replicas + draft.finishing - len(draft.living))
        if missing and problem is None:
            admitted = _admitted(seen, missing, unplaceable)
    create = min(max(0, counts.wanted + counts.finishing - counts.living), admitted.room)
    said = ready(
        pool,
        counts,
        PoolMessages(
            problem=problem,
            namesakes=seen.namesakes,
            refused=admitted,
            create=create,
            rolling=len(draft.mark) + sum(each.kind == "rolled" for each in draft.retire),
            notes=tuple(filter(None, (trust.sentence, _seatless(seen)))),
            unplaceable=unplaceable,
        ),
    )
    return PoolPlan(
        counts=counts,
        create=create,
        avoid=trust.avoid,
        reap=_ended(seen.pods),
        retire=tuple(draft.retire),
        mark=tuple(draft.mark),
        blocked=create < counts.wanted - counts.living,
        due=min((at - seen.now for at in draft.deadlines), default=None),
        conditions=tuple(each for each in (said, unplaceable, isolated(pool, _serving(seen))) if each is not None),
    )


def _ended(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(pod for pod in pods if terminal(pod) and not deleting(pod))


def _idle(pod: Pod, held: frozenset[str]) -> bool:
    """Living, and nothing says that it is used."""
    return alive(pod) and not busy(pod) and pod.metadata.uid not in held


def _finishing(draft: _Draft) -> int:
    """Busy VMs on Macs that take no more jobs. Their places are wanted elsewhere, where there are any: a Mac that came in place of
    one that drains would else stand empty until the drain is over.

    Where the autoscaler counts them among the load, and may go higher, they are in its number already.
    """
    seen, spec = draft.seen, draft.seen.pool.spec
    if spec.os != "darwin" or (spec.autoscaling.enabled and spec.replicas < spec.autoscaling.max_replicas):
        return 0
    idle = {pod.metadata.uid for pod in draft.idle}
    shut = {name for name, node in seen.nodes.items() if closed(node)}
    return sum(pod.spec.node_name in shut and pod.metadata.uid not in idle for pod in draft.living)


def _useless(draft: _Draft) -> None:
    """Idle Pods that no job should get, or that will never ask for one."""
    seen = draft.seen
    crowded = _crowded(seen) if seen.pool.spec.os == "darwin" else Counter[str]()
    # The youngest first: of three VMs on a Mac, the one that came last is the one that should not have.
    for pod in sorted(draft.idle, key=_age, reverse=True):
        name, node = pod.spec.node_name, seen.nodes.get(pod.spec.node_name)
        if operator_drained(pod):
            draft.let_go(pod, "operator_drain", "a person asked for it to be drained")
        elif pod.metadata.uid in seen.homeless:
            draft.let_go(pod, "no_service_account", "its ServiceAccount is gone, so it can never ask for a job")
        elif name and name in seen.gone:
            draft.let_go(pod, "node_gone", f"its Node {name} does not exist any more")
        elif node is not None and closed(node):
            draft.let_go(pod, "node_closed", f"its Node {name} is cordoned or leaving")
        elif node is not None and _deserted(draft, node):
            draft.let_go(pod, "node_unready", f"its Node {name} has not been ready for minutes, and others are")
        elif crowded[name] > (allowed := _seats(node)):
            crowded[name] -= 1
            draft.let_go(pod, "licence", f"the Mac {name} may run {allowed} VMs, and has more")
        else:
            _overdue(draft, pod, node)


def _deserted(draft: _Draft, node: Node) -> bool:
    """Not ready for as long as Kubernetes would wait. Where no Node of the fleet is, the fault is nearer to us than to them."""
    seen = draft.seen
    since = unready_since(node)
    if since is None or not any(healthy(each) for each in nodes_of(seen.pool, seen.nodes)):
        return False
    return _passed(draft, since + seen.settings.unready_timeout)


def _stalled(draft: _Draft) -> None:
    """Pods whose poller is done and whose runner does not start; not idle by their looks, so the ledger decides."""
    seen = draft.seen
    limit = timedelta(seconds=seen.pool.spec.provisioning.start_timeout_seconds)
    for pod in draft.living if limit else ():
        since = stalled_since(pod)
        if since is not None and pod.metadata.uid not in seen.held and _passed(draft, since + limit):
            why = "its poller is done and its runner did not start in time"
            draft.retire.append(Retirement(pod, "runner_not_started", why, pod.spec.node_name))


def _overdue(draft: _Draft, pod: Pod, node: Node | None) -> None:
    """Pods that took too long: to find a Node, to start on it, or to listen to a drain."""
    seen = draft.seen
    pool, settings = seen.pool, seen.settings
    limit = timedelta(seconds=pool.spec.provisioning.start_timeout_seconds)
    if marked(pod) and warm(pod, pool.spec.os):
        since = drain_since(pod)
        if since is not None and _passed(draft, since + settings.drain_timeout):
            draft.let_go(pod, "drain_ignored", "it was told to drain and still waits for a job")
        return
    if not limit or warm(pod, pool.spec.os):
        return
    if (bound := scheduled_at(pod)) is not None and pod.spec.node_name:
        # A Mac that does not hold the image yet fetches it first; replacing the Pod would begin that anew, for ever.
        cold = pool.spec.os == "darwin" and (node is None or golden_label(pool.spec.image) not in node.metadata.labels)
        allowed = max(limit, settings.cold_start) if cold else limit
        if pod.status.phase == "Running" and node is not None and unready_since(node) is not None:
            return  # nobody can tell how it is: what becomes of it is the question of its Node
        # A VM that lost its way to dispatch has the same time again, from then on.
        began = max(bound, vm_unready_since(pod) or bound) if pool.spec.os == "darwin" else bound
        if _passed(draft, began + allowed):
            minutes = allowed.total_seconds() / 60
            why = f"it got the Node {pod.spec.node_name} and did not ask for a job there within {minutes:.0f} min"
            draft.let_go(pod, "start_timeout", why, pod.spec.node_name)
        return
    said = unschedulable(pod)
    since = said.last_transition_time if said is not None else None
    if since is not None and _passed(draft, since + limit):
        draft.let_go(pod, "unschedulable", "no Node had room for it in time; its place among the starting is needed")


def _passed(draft: _Draft, deadline: datetime) -> bool:
    if deadline <= draft.seen.now:
        return True
    draft.deadlines.append(deadline)
    return False


def _too_many(draft: _Draft) -> None:
    """Let the surplus go, idle Pods only; the rest of it leaves as jobs finish."""
    seen = draft.seen
    surplus = len(draft.living) - len(draft.retire) - draft.finishing - seen.pool.spec.replicas
    if surplus <= 0:
        return
    crowd = Counter(pod.spec.node_name for pod in (*draft.living, *seen.sibling_pods) if alive(pod))
    order = sorted(draft.idle, key=lambda pod: _goes_first(pod, seen, crowd))
    for pod in order[:surplus]:
        draft.let_go(pod, "scaled_down", f"the pool needs {seen.pool.spec.replicas} Pods and has more")


def _goes_first(
    pod: Pod, seen: PoolObservation, crowd: Mapping[str, int]
) -> tuple[bool, bool, bool, bool, int, float, str]:
    """Never warm; then told to drain, then stale; then on a Node that is not healthy, or is nearly empty; then the newest.

    Emptying the emptiest Node first leaves holes that large Pods fit into.
    """
    node = seen.nodes.get(pod.spec.node_name)
    return (
        warm(pod, seen.pool.spec.os),
        not marked(pod),
        not _outdated(pod, seen),
        node is not None and healthy(node),
        crowd.get(pod.spec.node_name, 0),
        -_age(pod),
        pod.metadata.name,
    )


def _roll(draft: _Draft) -> None:
    """Replace stale Pods, a few at a time.

    What is unavailable counts against the few: Pods told to drain, Pods that start, and Pods that are missing; so a new
    image that does not start stops its own roll. Pods that run (a VM) are told to drain and leave by themselves; the
    others are replaced.
    """
    seen, pool = draft.seen, draft.seen.pool
    old = [pod for pod in draft.idle if _outdated(pod, seen)]
    if not old:
        return
    cap = max(1, pool.spec.replicas * pool.spec.rollout.max_concurrent_percent // 100)
    os = pool.spec.os
    rolling = sum(marked(pod) for pod in old)
    rolling += sum(not _outdated(pod, seen) and not warm(pod, os) for pod in draft.idle)
    rolling += len(draft.retire) + max(0, pool.spec.replicas - len(draft.living))
    waiting = sorted((pod for pod in old if not marked(pod)), key=lambda pod: (_asks(pod, os), _age(pod)))
    for pod in waiting[: max(0, cap - rolling)]:
        if _asks(pod, os) and _same_but_image(pod, seen):
            draft.mark.append(pod)
        else:
            draft.let_go(pod, "rolled", "its pool has a newer image, RuntimeClass or shape")


def _asks(pod: Pod, os: str) -> bool:
    """Runs, and hears of a drain when it next asks for a job."""
    return pod.status.phase == "Running" and (os != "darwin" or warm(pod, os))


def _same_but_image(pod: Pod, seen: PoolObservation) -> bool:
    """Whether dispatch can see that the Pod is stale: it compares images, and drains no Pod of the current one."""
    return all(container.image != seen.pool.spec.image for container in pod.spec.containers)


def _admitted(seen: PoolObservation, missing: int, unplaceable: Condition | None) -> Admission:
    """How many of the missing Pods may be made now. Whatever cannot be placed, the place of a Pod that ended gets a new one."""
    pods = (*seen.pods, *seen.sibling_pods)
    given = admission(seen.pool, missing, seen.siblings, pods, seen.nodes, seen.reserved, seen.now)
    if unplaceable is None or unplaceable.status == "True":
        return given
    # The scheduler finds no room for some Pod of this shape: one is enough to find out when that changes, and leaves the
    # places among the starting to pools that can use them. But what ended has left room behind, which this very pass
    # gives back; if that is lost (we die after the reaping), the Pod that asks gets the room, and that ends the doubt.
    asking = _asking(seen)
    if not asking and any(unschedulable(pod) is not None for pod in seen.pods):
        return given  # all that wait do so for a VM seat, and say nothing about what fits where one is free
    freed = sum(
        terminal(pod) and not deleting(pod) and (on := seen.nodes.get(pod.spec.node_name)) is not None and healthy(on)
        for pod in seen.pods
    )
    room = min(given.room, max(0, 1 + freed - asking))
    return Admission(room, given.reason or "Unschedulable", given.why or unplaceable.message)


def _asking(seen: PoolObservation) -> int:
    """Pods of the pool that wait for a Node and could have one, as far as we know.

    A VM for which no Mac has a seat does not ask whether its shape fits: it waits for its seat.
    """
    mine = sum(each.pool == seen.pool.metadata.name for each in seen.reserved)
    mine += sum(alive(pod) and not pod.spec.node_name for pod in seen.pods)
    if seen.pool.spec.os != "darwin":
        return mine
    bound = [pod for pod in (*seen.pods, *seen.sibling_pods) if pod.spec.node_name]
    return min(mine, max(0, places(seen.pool, _serving(seen), bound, (), seen.now)))


def _serving(seen: PoolObservation) -> list[Node]:
    return [node for node in nodes_of(seen.pool, seen.nodes) if healthy(node)]


def _seats(node: Node | None) -> int:
    offered = seats_of(node) if node is not None else None
    return LICENSED if offered is None else offered


def _seatless(seen: PoolObservation) -> str:
    return seatless(_serving(seen)) if seen.pool.spec.os == "darwin" else ""


def _outdated(pod: Pod, seen: PoolObservation) -> bool:
    """Of an older image or RuntimeClass; or a VM made before Pods asked for seats, which the scheduler does not count.

    On a Mac that offers no seats such a VM stays: a new one would not fit there.
    """
    if stale(pod, seen.pool):
        return True
    node = seen.nodes.get(pod.spec.node_name)
    counted = seen.pool.spec.os != "darwin" or asks_for_seat(pod)
    return not counted and node is not None and seats_of(node) is not None


def _crowded(seen: PoolObservation) -> Counter[str]:
    """How many VMs each Mac has."""
    return Counter(_nodes_with_vm((*seen.pods, *seen.sibling_pods)))


def _nodes_with_vm(pods: Iterable[Pod]) -> Iterable[str]:
    return (pod.spec.node_name for pod in pods if pod.spec.node_name and not terminal(pod))


def _age(pod: Pod) -> float:
    made = pod.metadata.creation_timestamp
    return made.timestamp() if made is not None else 0.0
