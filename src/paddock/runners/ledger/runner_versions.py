"""Runners that GitHub calls too old: how many of a pool in a row, and for how long no more than a trial is handed a job.

The guest's word that its runner ended with code 7 is worth nothing by itself, because a job can write it. It counts only for a
runner that never got a job, and any runner of the pool that did get one ends the row: GitHub itself has called its newest
version too old for some hours.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database

__all__ = ["RunnerEnding", "RunnerVersions", "VersionRefused", "version_refused"]

_LOOKED_BACK: Final = timedelta(days=1)
_NEWEST: Final = 64
_FIRST_REST: Final = timedelta(seconds=30)
_LONGEST_REST: Final = timedelta(minutes=15)

ENDINGS = """
-- newest_runners_of_pool: how they ended, newest first; one that got a job worked, whatever its guest says of its end
SELECT s.pod_name, s.ended_at, coalesce(s.end_reason LIKE 'the Pod ended with exit code 7 (%%', false) AS too_old,
       s.executed_job_id IS NOT NULL OR EXISTS (
           SELECT FROM completions c WHERE c.job_id = s.job_id AND c.runner_name = s.runner_name) AS worked
FROM sessions s WHERE s.pool = %(pool)s AND s.started_at > %(since)s ORDER BY s.started_at DESC LIMIT %(newest)s
"""


class RunnerEnding(Struct, frozen=True):
    """A runner that was handed out: whether it ended with the code that says "too old", and whether it ever got a job."""

    pod_name: str
    ended_at: datetime | None
    too_old: bool
    worked: bool


class VersionRefused(Struct, frozen=True):
    """So many runners in a row that GitHub called too old, and since when. `pod` is the latest."""

    pods: int
    since: datetime
    latest: datetime
    pod: str

    @property
    def rests_until(self) -> datetime:
        """Before that nobody is handed a job of this pool; after it, one at a time until one works."""
        return self.latest + min(_LONGEST_REST, _FIRST_REST * 2 ** min(self.pods - 1, 10))


def version_refused(newest_first: Sequence[RunnerEnding]) -> VersionRefused | None:
    """What the newest runners of a pool say about their version; None where one has worked since, or none was refused."""
    row = list(takewhile(lambda one: not one.worked, newest_first))
    refused = [(one.ended_at, one.pod_name) for one in row if one.too_old and one.ended_at is not None]
    if not refused:
        return None
    (since, _), (latest, pod) = min(refused), max(refused)
    return VersionRefused(len(refused), since, latest, pod)


class RunnerVersions:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def of_pool(self, pool: str) -> VersionRefused | None:
        """Whether GitHub calls this pool's runners too old now."""
        given = {"pool": pool, "since": self._clock.now() - _LOOKED_BACK, "newest": _NEWEST}
        return version_refused(await self._database.rows(RunnerEnding, ENDINGS, given))
