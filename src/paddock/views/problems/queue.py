"""The line of jobs: one that may run has waited too long, or one was killed."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from paddock.base.explanation import span
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.views import QueueSummary
from paddock.views.problem import Problem
from paddock.views.problems.impact import JOBS_WAIT, KILLED, NOT_READY

__all__ = ["of_queue"]

_WAITS = timedelta(minutes=1)
_WAITS_TOO_LONG = timedelta(minutes=10)


def of_queue(summary: QueueSummary | None, pools: Sequence[RunnerPool], now: datetime) -> Iterable[Problem]:
    if summary is None:
        return
    killed = (summary.killed_last_day or 0) - summary.forced_last_day
    if killed > 0:
        yield Problem(
            KILLED,
            "healing",
            f"{killed} live job{' was' if killed == 1 else 's were'} killed by healing within a day, which must never happen",
            since=summary.killed_since,
            commands=("paddock get kills", "paddock get heals -o wide"),
            runbook="PaddockLiveJobKilled",
        )
    waited = timedelta(seconds=summary.oldest_dispatchable_seconds)
    if waited > _WAITS:
        starting = sum(pool.status.starting for pool in pools)
        warm = sum(pool.status.idle for pool in pools)
        yield Problem(
            JOBS_WAIT if waited > _WAITS_TOO_LONG else NOT_READY,
            "queue",
            f"a job that may run now has waited {span(waited)}; {summary.dispatchable} may run, {warm} Pod{' is' if warm == 1 else 's are'} warm",
            since=now - waited,
            doing=f"{starting} Pod{'s are' if starting > 1 else ' is'} starting" if starting else "",
            commands=("paddock get jobs", *(f"paddock why pool {pool.metadata.name}" for pool in pools[:1])),
            runbook="PaddockJobsWaitTooLong",
        )
