"""Pools that are not Ready, or that cannot follow what was written into them."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from paddock.base.explanation import span
from paddock.kube.conditions import get_condition
from paddock.runners.api import RunnerPool
from paddock.views.problem import Problem, Ties
from paddock.views.problems.conditions import message_of, ready_since
from paddock.views.problems.impact import POD, POOL, SHORT
from paddock.views.under_way import POOL_UNDER_WAY

__all__ = ["of_pools"]

_POD_STARTS = timedelta(minutes=5)
_COUNTED = timedelta(minutes=3)
"""The operator counts once a minute, and a busy one a little later."""
_POOL_GRACE = timedelta(minutes=1)
_WRITTEN_WRONG = frozenset({"InvalidConfiguration", "AmbiguousDispatchLabel"})


def of_pools(pools: Sequence[RunnerPool], now: datetime) -> Iterable[Problem]:
    for pool in pools:
        yield from _old(pool, now)
        yield from _refused_fields(pool)
        ready = get_condition(pool.status.conditions, "Ready")
        if ready is None or ready.status == "True" or (ready.reason in POOL_UNDER_WAY and not _none_starts(pool, now)):
            continue
        if (began := _pool_since(pool)) is not None and now - began < _POOL_GRACE:
            continue  # a runner that has just ended is being replaced: that is how pools live
        name, message = pool.metadata.name, ready.message or ready.reason
        if ready.reason in POOL_UNDER_WAY and ready.last_transition_time is not None:
            message = f"none of its Pods has got ready for {span(now - ready.last_transition_time)}: {message}"
        yield Problem(
            POOL if not pool.status.idle else SHORT,
            f"pool {name}",
            message,
            since=ready.last_transition_time,
            doing=message_of(pool.status.conditions, "Autoscaled"),
            commands=(f"paddock why pool {name}", f"paddock describe pool {name}"),
            runbook="PaddockJobsWaitTooLong",
            ties=Ties(fleet=pool.spec.fleet_selector, by_itself=ready.reason in _WRITTEN_WRONG),
        )


def _old(pool: RunnerPool, now: datetime) -> Iterable[Problem]:
    """What a pool says of itself is of the minute; where it is older, the operator is slow, and every number is as old."""
    at, name = pool.status.observed_at, pool.metadata.name
    if at is None or now - at <= _COUNTED:
        return
    yield Problem(
        POD,
        f"pool {name}",
        f"its numbers are {span(now - at)} old, and the operator counts every minute: it is slow, or does not run",
        since=at,
        doing="dispatch hands out jobs meanwhile",
        commands=("paddock doctor", f"paddock why pool {name}"),
        runbook="PaddockOperatorAbsent",
        ties=Ties(fleet=pool.spec.fleet_selector),
    )


def _pool_since(pool: RunnerPool) -> datetime | None:
    """Since when it is not ready for the reason that it gives. A busy pool is never all ready: for want of room it is so only
    since there is none, and a Pod that leaves may give it back the next moment.
    """
    placeable = get_condition(pool.status.conditions, "Placeable")
    began = ready_since(pool.status.conditions)
    if placeable is None or placeable.status != "False" or placeable.last_transition_time is None:
        return began
    return max(began or placeable.last_transition_time, placeable.last_transition_time)


def _none_starts(pool: RunnerPool, now: datetime) -> bool:
    """Whether all its Pods have been starting for so long that each of them was given up at least once."""
    ready, status = get_condition(pool.status.conditions, "Ready"), pool.status
    since = ready.last_transition_time if ready is not None and ready.reason == "Starting" else None
    return since is not None and now - since > _POD_STARTS and status.starting == status.replicas > 0


def _refused_fields(pool: RunnerPool) -> Iterable[Problem]:
    """What a person wrote into a pool and no controller can follow; the pool goes on without it."""
    name = pool.metadata.name
    for kind in ("WarmWindows", "Profiles"):
        said = get_condition(pool.status.conditions, kind)
        if said is not None and said.status == "False" and said.reason not in POOL_UNDER_WAY:
            yield Problem(
                SHORT,
                f"pool {name}",
                said.message,
                since=said.last_transition_time,
                commands=(f"paddock why pool {name}", f"paddock describe pool {name}"),
                ties=Ties(by_itself=True),
            )
