"""Jobs that could run and do not: for want of a pool or a source, or beside capacity that is idle."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from paddock.kube.builtin import Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.views.idle_capacity import idle_beside_jobs
from paddock.views.problem import Problem, Ties
from paddock.views.problems.impact import JOBS_WAIT, POOL, UNSERVED

__all__ = ["of_capacity"]

_WAITS = timedelta(minutes=1)
_WAITS_TOO_LONG = timedelta(minutes=10)


def of_capacity(
    summary: QueueSummary | None,
    pools: Sequence[RunnerPool],
    pods: Sequence[Pod],
    nodes: Sequence[Node] | None,
    now: datetime,
) -> Iterable[Problem]:
    """Jobs that could run and do not: for want of a pool, or beside capacity that is idle."""
    if summary is None:
        return
    if summary.unserved:
        one = summary.unserved == 1
        yield Problem(
            UNSERVED,
            "queue",
            f"{summary.unserved} job{' has labels' if one else 's have labels'} that no pool offers: {summary.unserved_why}",
            since=summary.unserved_since,
            doing="they are queued as soon as a pool offers their labels",
            commands=("paddock get jobs", "paddock get pools -o wide"),
            runbook="PaddockJobsUnserved",
            ties=Ties(by_itself=True),
        )
    if summary.resting and summary.resting_since is not None and now - summary.resting_since > _WAITS:
        said = f"{summary.resting} job{' waits' if summary.resting == 1 else 's wait'} because GitHub makes no runner"
        yield Problem(
            UNSERVED,
            "github",
            f"{said}: {summary.resting_why}" if summary.resting_why else said,
            since=summary.resting_since,
            doing="asked again by itself, with growing pauses",
            commands=("paddock get jobs", "paddock doctor"),
            runbook="PaddockJobsWaitTooLong",
        )
    for source in summary.job_sources:
        if trouble := source.trouble(now):
            refused = source.state == "Refused"
            yield Problem(
                UNSERVED,
                f"pool {source.pool}",
                f"jobs of {source.where} are not heard of: {trouble}",
                since=source.heard_at or source.since,
                doing="asked again every five minutes"
                if refused
                else "asked again by itself; GitHub keeps its messages",
                commands=(f"paddock why pool {source.pool}", "paddock doctor"),
                runbook="PaddockJobSourceRefused" if refused else "PaddockJobSourceLost",
                ties=Ties(by_itself=True),
            )
    if logins := summary.not_listed:
        who = logins[0] if len(logins) == 1 else f"{logins[0]} and {len(logins) - 1} more"
        # While no account is listened to, nothing at all comes; beside others that are, one is missing.
        yield Problem(
            POOL if summary.job_sources else UNSERVED,
            "github",
            f"{who} installed the GitHub App and {'is' if len(logins) == 1 else 'are'} not on the allow list; "
            "pools with a scale set do not ask for their jobs",
            doing="they are asked for as soon as the account is allowed; one that is denied is not named again",
            commands=(
                *(f"paddock accounts allow {login}" for login in logins[:3]),
                f"paddock accounts deny {logins[0]}",
            ),
            runbook="PaddockJobSourceLost",
        )
    for found in idle_beside_jobs(pools, nodes or (), pods, summary, now):
        yield Problem(
            JOBS_WAIT if found.beside > _WAITS_TOO_LONG else POOL,
            f"pool {found.pool}",
            found.sentence,
            since=now - found.beside,
            commands=(f"paddock why pool {found.pool}", "paddock get jobs", "paddock get pods"),
            runbook="PaddockIdleBesideJobs",
            ties=Ties(by_itself=True),
        )
