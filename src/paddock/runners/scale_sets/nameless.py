"""Jobs that GitHub counts and never named to this ledger: how many rows are missing, and which stand for nothing. Pure.

A scale set gives any of its jobs to any of its runners, so that a row without a name brings the right runner. What must be right
is the number: unstarted rows here, and jobs that wait there. It is right only while messages and statistics are in step,
which the caller sees to; two readings some time apart must agree on the direction, and the smaller difference counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.explanation import span
from paddock.clients.github.scaleset import ScaleSetStatistics
from paddock.runners.ledger.assignments import OpenAssignment

__all__ = ["Correction", "CountWatch", "Ending", "difference", "left_behind"]

_IN_VAIN: Final = timedelta(minutes=10)
"""After a Pod has it. Twice the time after which GitHub takes an assignment back: what its runner was not given by then is a
mistake in the count. A row that no Pod has waits for room, and says nothing of the count.
"""
_OLD: Final = timedelta(minutes=15)
"""A row with a name is ended for a count only when it has outlived three assignments."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A row that stands for no job. `in_vain`: GitHub counted one, and gave it to nobody."""

    row: OpenAssignment
    why: str
    in_vain: bool = False


@dataclass(frozen=True, slots=True)
class Correction:
    """What makes the rows agree with the count. `at_most`: never more unstarted rows than this, whoever made them meanwhile."""

    make: int = 0
    at_most: int = 0
    endings: tuple[Ending, ...] = ()


def difference(counts: ScaleSetStatistics, rows: Sequence[OpenAssignment], in_vain: int = 0) -> int:
    """How many rows are missing; negative: how many are too many; 0 while both agree.

    Runners that are online and idle, and that no row knows of, will take a job each: those need no other. So does a running
    job. What waited in vain lately is not waited for again. A nudged row is for a job that is not counted yet: it is never
    one too many.
    """
    waiting = max(0, counts.total_assigned_jobs - counts.total_running_jobs)
    unstarted = [row for row in rows if not row.started]
    counted = sum(not row.nudged for row in unstarted)
    if waiting < counted:
        return waiting - counted
    strangers = max(0, counts.total_idle_runners - sum(row.handed for row in unstarted))
    return max(0, waiting - len(unstarted) - strangers - in_vain)


class CountWatch:
    """Compares readings of a set's statistics with the rows. A reading that agrees, or that errs the other way, begins anew."""

    def __init__(self, apart: timedelta) -> None:
        self._apart = apart
        self._since: datetime | None = None
        self._least = 0

    @property
    def suspects(self) -> bool:
        """Whether the last reading differed: the next one is wanted soon."""
        return self._since is not None

    def judge(
        self, counts: ScaleSetStatistics, rows: Sequence[OpenAssignment], now: datetime, *, in_vain: int = 0
    ) -> Correction:
        """What to do about this reading, beside those before it."""
        over = tuple(_over(rows, now))
        left = [row for row in rows if row not in [ending.row for ending in over]]
        steady = self._steady(difference(counts, left, in_vain), now)
        if steady > 0:
            unstarted = sum(not row.started for row in left)
            return Correction(make=steady, at_most=unstarted + steady, endings=over)
        why = "GitHub counts fewer jobs that wait for a runner of this scale set than there are rows, in two readings"
        return Correction(endings=(*over, *(Ending(row, why) for row in _least_real(left, now)[: max(0, -steady)])))

    def _steady(self, found: int, now: datetime) -> int:
        """The difference that both readings have in common; 0 until there are two, far enough apart."""
        if found == 0 or found * self._least < 0:
            self._since, self._least = None, 0
        if found == 0:
            return 0
        if self._since is None:
            self._since, self._least = now, found
        self._least = min(self._least, found, key=abs)
        if now - self._since < self._apart:
            return 0
        steady = self._least
        self._since, self._least = None, 0
        return steady


def left_behind(rows: Sequence[OpenAssignment]) -> list[Ending]:
    """Rows that were to wake a job of a pool that asks for none any more, and that no Pod has: none comes for them now.

    GitHub does not count them, so no reading of its ends them, and the set would be kept for them for ever. Their jobs wait at
    GitHub, where they are found again if a pool wants them.
    """
    why = "no pool asks for its jobs any more, so that no runner comes to wake this one"
    return [Ending(row, why) for row in rows if row.nudged and not row.handed and not row.started]


def _over(rows: Sequence[OpenAssignment], now: datetime) -> list[Ending]:
    """Nameless rows whose end was begun, or that no runner was given a job for."""
    why = f"GitHub counted a job that it gave to no runner for {span(_IN_VAIN)}"
    late = [
        row for row in rows if row.nameless and not row.started and row.handed_at and now - row.handed_at >= _IN_VAIN
    ]
    begun = [row for row in rows if row.nameless and row.finished_at is not None and row not in late]
    return [*(Ending(row, why, in_vain=True) for row in late), *(Ending(row, row.result or "over") for row in begun)]


def _least_real(rows: Sequence[OpenAssignment], now: datetime) -> list[OpenAssignment]:
    """Rows that may stand for nothing, the likeliest first: nameless ones that no Pod has, other nameless ones, old ones.

    Not an old one that a Pod has: the word that its runner took the job may be what was lost. Healing asks about that runner.
    """
    unstarted = [row for row in rows if not row.started and not row.nudged]
    nameless = sorted((row for row in unstarted if row.nameless), key=lambda row: (row.handed, row.assigned_at))
    old = [row for row in unstarted if not row.nameless and not row.handed and now - row.assigned_at >= _OLD]
    return [*nameless, *sorted(old, key=lambda row: row.assigned_at)]
