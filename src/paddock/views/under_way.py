"""What goes on and is no problem: Macs that drain or are set up, Nodes that somebody cordoned, pools that roll, scale sets that
are replaced, jobs over a limit. Pure.

Whoever wonders why something waits finds its cause here, from its first second on; what lasts too long becomes a problem.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from paddock.base.explanation import Explanation
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.disruption import CORDON_REASON
from paddock.hosts.why import why_machine
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.views.folding import Found, folded, same
from paddock.views.problem import Problem

__all__ = ["POOL_UNDER_WAY", "is_young", "under_way"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine

_UNDER_WAY: Final = timedelta(minutes=20)
"""A step of a Mac's life that takes longer than this is looked at; a reinstall may take half an hour."""
_YOUNG_REASONS: Final = frozenset(
    {"", "Adopting", "Adopted", "Claiming", "Verifying", "Bootstrapping", "HostNotReady", "HostBeingWiped"}
)
POOL_UNDER_WAY: Final = frozenset({"Starting", "Draining", "Rolling", "ScalingDown"})
_NO_IMPACT: Final = 0


def is_young(machine: Machine, now: datetime) -> bool:
    """Whether a machine that is not ready is on its way, and has not been so for long."""
    meta, status = machine.metadata, machine.status
    ready = get_condition(status.conditions, "Ready")
    turned = ready.last_transition_time if ready is not None else None
    since = meta.deletion_timestamp or turned or meta.creation_timestamp
    reason = ready.reason if ready is not None else ""
    on_its_way = meta.deletion_timestamp is not None or (reason in _YOUNG_REASONS and not status.bootstrap_attempts)
    return on_its_way and not status.failure_reason and (since is None or now - since < _UNDER_WAY)


def under_way(
    machines: Sequence[Machine],
    hosts: Sequence[Host],
    nodes: Sequence[Node],
    pools: Sequence[RunnerPool],
    summary: QueueSummary | None,
    now: datetime,
) -> tuple[Problem, ...]:
    """What goes on, the oldest first."""
    found = [
        *folded(_machines(machines, hosts, now), "machines"),
        *folded(_cordoned(machines, nodes), "machines"),
        *_pools(pools),
        *_scale_sets(summary),
        *_limits(summary),
    ]
    return tuple(sorted(found, key=lambda one: (one.since or now, one.about)))


def _machines(machines: Sequence[Machine], hosts: Sequence[Host], now: datetime) -> Iterable[Found]:
    for machine in machines:
        meta = machine.metadata
        if machine.status.ready or PAUSED in meta.annotations or not is_young(machine, now):
            continue
        ready = get_condition(machine.status.conditions, "Ready")
        turned = ready.last_transition_time if ready is not None else None
        kind = "being deleted" if meta.deletion_timestamp is not None else "on its way"
        why = partial(why_machine, machine, hosts, now)
        since = meta.deletion_timestamp or turned or meta.creation_timestamp
        yield Found(_NO_IMPACT, kind, since, why, f"paddock why machine {meta.name}")


def _cordoned(machines: Sequence[Machine], nodes: Sequence[Node]) -> Iterable[Found]:
    """Macs that are well and take no new job, because their Node is cordoned."""
    ours = {machine.metadata.name for machine in machines if machine.status.ready}
    for node in nodes:
        name = node.metadata.name
        if name not in ours or not node.spec.unschedulable:
            continue
        reason = node.metadata.annotations.get(CORDON_REASON, "")
        who = f"for the {reason}" if reason else "by a person, or by what drains it"
        sentence = f"its Node is cordoned {who}: it takes no new job, and the jobs that run there finish"
        said = Explanation(about=f"machine {name}", sentence=sentence)
        ask = f"paddock why machine {name}" if reason else f"kubectl uncordon {name}"
        yield Found(_NO_IMPACT, "cordoned", None, partial(same, said), ask)


def _pools(pools: Sequence[RunnerPool]) -> Iterable[Problem]:
    for pool in pools:
        name, gone = pool.metadata.name, pool.metadata.deletion_timestamp
        ready = get_condition(pool.status.conditions, "Ready")
        ask = (f"paddock why pool {name}",)
        if gone is not None:
            told = ready is not None and ready.reason == "Draining"
            message = ready.message if ready is not None and told else "the pool is being deleted"
            yield Problem(_NO_IMPACT, f"pool {name}", message, gone, commands=ask)
        elif pool.status.stale:
            # Said of a pool that is full, too: its busy Pods are replaced one by one, as their jobs end.
            left, said = pool.status.stale, f": {ready.message}" if ready is not None and ready.message else ""
            what = f"{left} of {pool.status.replicas} Pods are of an older image or shape and are replaced when idle"
            yield Problem(_NO_IMPACT, f"pool {name}", what + said, commands=ask)
        elif ready is not None and ready.reason in POOL_UNDER_WAY:
            # How long it has rolled is not known: the condition may have been True before for another reason.
            since = ready.last_transition_time if ready.status != "True" else None
            yield Problem(_NO_IMPACT, f"pool {name}", ready.message or ready.reason, since, commands=ask)


def _scale_sets(summary: QueueSummary | None) -> Iterable[Problem]:
    """What is said of scale sets that are listened to: one that is replaced, labels that GitHub did not keep."""
    for source in summary.job_sources if summary is not None else ():
        if source.state == "Listening" and source.sentence:
            sentence = f"scale set of {source.where}: {source.sentence}"
            yield Problem(_NO_IMPACT, f"pool {source.pool}", sentence, commands=(f"paddock why pool {source.pool}",))


def _limits(summary: QueueSummary | None) -> Iterable[Problem]:
    if summary is None or not summary.withheld:
        return
    one = summary.withheld == 1
    sentence = (
        f"{summary.withheld} job{' waits' if one else 's wait'} for the limit of {'its' if one else 'their'} account: "
        "each is handed out as soon as its account holds little enough for it, or when the limit is raised"
    )
    yield Problem(_NO_IMPACT, "limits", sentence, commands=("paddock accounts list", "paddock get jobs"))
