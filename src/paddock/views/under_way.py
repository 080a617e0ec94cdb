"""What goes on and is no problem: Macs that drain or are set up, Nodes that somebody cordoned, pools that roll, scale sets that
are replaced, jobs over a limit. Pure.

Whoever wonders why something waits finds its cause here, from its first second on; what lasts too long becomes a problem.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from paddock.base.explanation import Explanation
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.node_health import cordoned
from paddock.hosts.why import older_template, why_host, why_machine
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.views.cordon import operators_cordon
from paddock.views.folding import Found, folded, same
from paddock.views.problem import Problem

__all__ = ["POOL_UNDER_WAY", "being_made", "is_on_its_way", "under_way"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine

_UNDER_WAY: Final = timedelta(minutes=20)
"""A step of a Mac's life that takes longer than this is looked at; a reinstall may take half an hour."""
_ASKED_AGAIN: Final = timedelta(minutes=2)
"""A cloud that fails once is asked again within seconds; one that goes on failing is a problem."""
_TIME_FOR: Final = {
    **dict.fromkeys(("", "Adopting", "Adopted", "Claiming", "Verifying", "Bootstrapping"), _UNDER_WAY),
    **dict.fromkeys(("HostNotReady", "HostBeingWiped"), _UNDER_WAY),
    "ScalewayAdoptFailed": _ASKED_AGAIN,
}
"""How long a machine may say so before a person must know."""
POOL_UNDER_WAY: Final = frozenset({"Starting", "Draining", "Rolling", "ScalingDown"})
_NO_IMPACT: Final = 0


def being_made(fleet: MacFleet, now: datetime) -> int:
    """How many machines the fleet's controller still makes by itself, in steps; 0 where it waits for hosts, is halted, or has
    had its time.
    """
    ready = get_condition(fleet.status.conditions, "Ready")
    since = ready.last_transition_time if ready is not None else fleet.metadata.creation_timestamp
    new = ready is None and since is not None  # its controller has not written anything yet
    goes_on = new or (ready is not None and ready.reason == "NotAllReady")
    if since is not None and now - since >= _UNDER_WAY:
        return 0
    return max(0, fleet.spec.replicas - fleet.status.replicas) if goes_on else 0


def is_on_its_way(machine: Machine, now: datetime) -> bool:
    """Whether a machine that is not ready gets there by itself, as far as its time for that has not passed."""
    meta, status = machine.metadata, machine.status
    ready = get_condition(status.conditions, "Ready")
    turned = ready.last_transition_time if ready is not None else None
    since = meta.deletion_timestamp or turned or meta.creation_timestamp
    reason = ready.reason if ready is not None else ""
    if status.failure_reason:
        return False
    if meta.deletion_timestamp is not None:
        allowed = _UNDER_WAY
    else:
        allowed = timedelta(0) if status.bootstrap_attempts else _TIME_FOR.get(reason, timedelta(0))
    return allowed > timedelta(0) and (since is None or now - since < allowed)


def under_way(
    machines: Sequence[Machine],
    hosts: Sequence[Host],
    nodes: Sequence[Node],
    fleets: Sequence[MacFleet],
    pools: Sequence[RunnerPool],
    summary: QueueSummary | None,
    now: datetime,
) -> tuple[Problem, ...]:
    """What goes on, the oldest first."""
    found = [
        *folded(_machines(machines, hosts, now), "machines"),
        *folded(_cordoned(machines, nodes), "machines"),
        *folded(_retiring(hosts, machines, now), "hosts"),
        *_fleets(fleets, machines, now),
        *_pools(pools),
        *_scale_sets(summary),
        *_limits(summary),
    ]
    return tuple(sorted(found, key=lambda one: (one.since or now, one.about)))


def _machines(machines: Sequence[Machine], hosts: Sequence[Host], now: datetime) -> Iterable[Found]:
    for machine in machines:
        meta = machine.metadata
        if machine.status.ready or PAUSED in meta.annotations or not is_on_its_way(machine, now):
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
        if name not in ours or not (sentence := cordoned(node)):
            continue
        said = Explanation(about=f"machine {name}", sentence=sentence)
        ask = f"paddock why machine {name}" if operators_cordon(node) else f"paddock undrain {name}"
        yield Found(_NO_IMPACT, "cordoned", None, partial(same, said), ask)


def _retiring(hosts: Sequence[Host], machines: Sequence[Machine], now: datetime) -> Iterable[Found]:
    """Hosts that go back to the cloud for good, and have not been given back yet. Since when is written nowhere."""
    for host in hosts:
        if host.spec.retire and host.spec.release is None:
            why, ask = partial(why_host, host, machines, now), f"paddock why host {host.metadata.name}"
            yield Found(_NO_IMPACT, "to be retired", None, why, ask)


def _fleets(fleets: Sequence[MacFleet], machines: Sequence[Machine], now: datetime) -> Iterable[Problem]:
    for fleet in fleets:
        about, ask = f"fleet {fleet.metadata.name}", (f"paddock why fleet {fleet.metadata.name}",)
        if sentence := older_template(fleet, machines):
            yield Problem(_NO_IMPACT, about, sentence, commands=ask)
        if missing := being_made(fleet, now):
            ready = get_condition(fleet.status.conditions, "Ready")
            sentence = f"{missing} of its {fleet.spec.replicas} machines are still to be made"
            message = f": {ready.message}" if ready is not None and ready.message else ""
            yield Problem(_NO_IMPACT, about, sentence + message, commands=ask)


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
