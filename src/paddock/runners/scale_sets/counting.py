"""GitHub's own count of a scale set's jobs beside the rows: what is missing is made, what stands for nothing is ended.

`nameless` and `decisions` decide; this reads and acts. `docs/design/scale-sets.md` has the invariant.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.github import errors as github
from paddock.clients.github.contract import RunnerPlace
from paddock.clients.github.scaleset import QueueMessage, ScaleSets
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.assignments import OpenAssignment
from paddock.runners.ledger.nameless import IN_VAIN_COUNTS
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets.book import JobBook
from paddock.runners.scale_sets.decisions import GhostWatch
from paddock.runners.scale_sets.metrics import ScaleSetMetrics
from paddock.runners.scale_sets.nameless import CountWatch, left_behind

__all__ = ["Counting", "Pace"]

log = get_logger("scale sets")


@dataclass(frozen=True, slots=True)
class Pace:
    """How often what is looked at, in seconds. A poll that is answered sooner than `at_once` and says nothing has failed."""

    capacity: float = 5.0
    at_once: float = 0.5
    statistics: float = 60.0
    suspicion: float = 15.0
    refused: float = 300.0


class Counting:
    """Compares once a minute, and soon again while count and rows differ."""

    def __init__(
        self,
        scale_sets: ScaleSets,
        book: JobBook,
        clock: Clock,
        metrics: ScaleSetMetrics,
        pace: Pace,
        place: RunnerPlace,
        pool: Callable[[], RunnerPool],
        serves: Callable[[], bool],
    ) -> None:
        self._github = scale_sets
        self._book = book
        self._clock = clock
        self._metrics = metrics
        self._pace = pace
        self._place = place
        self._pool = pool
        self._serves = serves
        self._ghosts = GhostWatch()
        self._counts = CountWatch(timedelta(seconds=pace.suspicion))
        self._looked_at = float("-inf")
        self._silent_since = 0.0

    def heard_a_message(self) -> None:
        """The queue speaks, or is listened to from now on: more may be on its way."""
        self._silent_since = self._clock.monotonic()

    async def look(self, source: Source, polling: "asyncio.Future[QueueMessage | None] | None") -> None:
        """Read and act, if it is time.

        Only when the queue has been silent for some seconds, and a reading counts only if the open poll is silent still: then
        every message has arrived and is written, and rows and statistics speak of one moment. Died after some of the
        effects: what was done shows in the rows, and the next two readings find the rest.
        """
        began = self._clock.monotonic()
        pace = self._pace.suspicion if self._counts.suspects else self._pace.statistics
        if source.scale_set_id is None or began - self._looked_at < pace:
            return
        if began - self._silent_since < self._pace.capacity:
            return
        looked_at, self._looked_at = self._looked_at, began
        try:
            counts = (await self._github.get(self._place, source.scale_set_id)).statistics
        except github.GitHubError as error:
            # A failed read changes nothing; whether the source is lost is for the poll to say.
            log.info("the statistics of a scale set were not read", pool=source.pool, error=str(error))
            return
        rows, now = await self._book.open(source), self._clock.now()
        in_vain = await self._book.in_vain(source, now - IN_VAIN_COUNTS)
        if polling is not None and polling.done():
            self._looked_at = looked_at
            return
        if not self._serves():
            for ending in left_behind(rows):
                await self._end(source, ending.row, ending.why)
        counted = [row for row in rows if not row.nudged]
        ghosts = self._ghosts.ghosts(counts.total_assigned_jobs, counted, now)
        for row in ghosts:
            await self._end(source, row, "GitHub counts no assigned job of this scale set, in two reads a minute apart")
        correction = self._counts.judge(counts, [row for row in rows if row not in ghosts], now, in_vain=in_vain)
        for ending in correction.endings:
            await self._end(source, ending.row, ending.why, in_vain=ending.in_vain)
        if correction.make > 0:
            made = await self._book.make_nameless(
                source, self._pool(), make=correction.make, at_most=correction.at_most
            )
            self._metrics.nameless.inc(made)
            log.warning("GitHub counts jobs that were not announced here", pool=source.pool, made=made)

    async def _end(self, source: Source, row: OpenAssignment, why: str, *, in_vain: bool = False) -> None:
        self._metrics.ghosts.inc()
        await self._book.close_ghost(row, source.account_id, why, in_vain=in_vain)
