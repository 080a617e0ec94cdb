"""What a pool should do about its Pods now, and why. Pure and total: every Pod of the pool gets at most one act.

Nothing here proves that a Pod is idle. A Pod in `retire` is one that looks idle; it is deleted only after the ledger has
fenced it. So a mistake in this module costs a question, never a job.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from paddock.kube.builtin import Pod
from paddock.kube.objects import Condition
from paddock.runners.pools.admission import Admission, admission, places
from paddock.runners.pools.capacity import too_large
from paddock.runners.pools.isolation import isolated
from paddock.runners.pools.letting_go import let_stalled_go, let_surplus_go, let_useless_go
from paddock.runners.pools.messages import Counts, PoolMessages, placeable, ready
from paddock.runners.pools.nodes import closed, healthy, marked_of, nodes_of, seatless, suspicion
from paddock.runners.pools.observation import (
    Draft,
    PoolObservation,
    Retirement,
    ended,
    looks_idle,
    outdated,
    serving,
)
from paddock.runners.pools.pod_predicates import alive, deleting, terminal, unschedulable, warm
from paddock.runners.pools.pod_template import shape_problem
from paddock.runners.pools.rolling import roll

__all__ = ["GonePool", "PoolPlan", "plan"]


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
        return ended(self.pods)

    @property
    def retire(self) -> tuple[Retirement, ...]:
        """Those that look idle; what is busy goes on to its end."""
        idle = [pod for pod in self.pods if looks_idle(pod, self.held)]
        return tuple(Retirement(pod, "pool_deleted", "its pool is gone") for pod in idle)


def plan(seen: PoolObservation) -> PoolPlan:
    """The next step of a pool.

    In order: what has ended is reaped; idle Pods that can be of no use are let go; then what is too much, then what is stale, as far
    as the roll allows; then what is missing is created, as far as the fleet allows. A Pod that is let go counts until it
    is gone, so a refusal of the ledger never leaves one too many.
    """
    draft = Draft(seen)
    pool, os = seen.pool, seen.pool.spec.os
    ending = pool.metadata.deletion_timestamp is not None
    draft.living = [pod for pod in seen.pods if alive(pod)]
    draft.idle = [pod for pod in draft.living if looks_idle(pod, seen.held)]
    draft.outdated = frozenset(pod.metadata.uid for pod in draft.living if outdated(pod, seen))
    draft.finishing = 0 if ending else _finishing(draft)
    waiting = sum(warm(pod, os) for pod in draft.idle)
    counts = Counts(
        wanted=0 if ending else pool.spec.replicas,
        living=len(draft.living),
        idle=waiting,
        busy=len(draft.living) - len(draft.idle),
        starting=len(draft.idle) - waiting,
        stale=len(draft.outdated),
        leaving=sum(deleting(pod) for pod in seen.pods),
        finishing=draft.finishing,
    )
    trust = suspicion(seen.failures, (*seen.pods, *seen.sibling_pods), nodes_of(pool, seen.nodes), os, seen.now)
    marked = [node.metadata.name for node in nodes_of(pool, seen.nodes) if marked_of(node) is not None]
    problem = shape_problem(pool, seen.settings) or too_large(pool, nodes_of(pool, seen.nodes))
    admitted = Admission(0)
    unplaceable = None
    if ending:
        for pod in list(draft.idle):
            draft.let_go(pod, "pool_deleted", "its pool is being deleted")
    else:
        let_useless_go(draft)
        let_stalled_go(draft)
        let_surplus_go(draft)
        if problem is None:
            roll(draft)
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
            label_keeper=seen.label_keeper,
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
        avoid=tuple(sorted({*trust.avoid, *marked})),
        reap=ended(seen.pods),
        retire=tuple(draft.retire),
        mark=tuple(draft.mark),
        blocked=create < counts.wanted - counts.living,
        due=min((at - seen.now for at in draft.deadlines), default=None),
        conditions=tuple(each for each in (said, unplaceable, isolated(pool, serving(seen))) if each is not None),
    )


def _finishing(draft: Draft) -> int:
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
    return min(mine, max(0, places(seen.pool, serving(seen), bound, (), seen.now)))


def _seatless(seen: PoolObservation) -> str:
    return seatless(serving(seen)) if seen.pool.spec.os == "darwin" else ""
