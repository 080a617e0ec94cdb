"""What runners say of themselves: a mark that moves while they work. The fourth ledger of healing.

Only what is said counts. A runner that stopped reporting is not shown to stand still by that: the way to us may be cut.
"""

from collections.abc import Collection, Sequence
from datetime import datetime

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.errors import InvalidEntryError
from paddock.runners.ledger.group_commit import GroupCommit

__all__ = ["LONGEST_MARK", "Progress", "ProgressMark"]

LONGEST_MARK = 200
_MOST_AT_ONCE = 256
"""Marks in one statement: of thousands of runners several hundred come in a second."""

NOTE = """
-- note_progress: a late copy of an older report changes nothing; in the order of the key, so that two wait in no circle
INSERT INTO progress (pod_uid, mark, changed_at, seen_at)
SELECT said.uid, said.mark, %(now)s, %(now)s FROM unnest(%(uids)s::text[], %(marks)s::text[]) AS said (uid, mark)
ORDER BY said.uid
ON CONFLICT (pod_uid) DO UPDATE SET mark = excluded.mark, seen_at = excluded.seen_at,
    changed_at = CASE WHEN progress.mark = excluded.mark THEN progress.changed_at ELSE excluded.changed_at END
WHERE progress.seen_at <= excluded.seen_at
"""
OF_PODS = """
-- progress_of_pods
SELECT pod_uid, mark, changed_at, seen_at FROM progress WHERE pod_uid = ANY (%s)
"""
STILL = """
-- still_progress: runners that say themselves that nothing moves, and that no worker runs
SELECT pod_uid, mark, changed_at, seen_at FROM progress
WHERE seen_at >= %(heard_since)s AND changed_at < %(unmoved_since)s AND mark LIKE ANY (%(endings)s)
ORDER BY changed_at LIMIT %(limit)s
"""
FORGET = """
-- forget_progress: a bounded bite of the oldest
DELETE FROM progress WHERE pod_uid IN (SELECT pod_uid FROM progress WHERE seen_at < %s ORDER BY seen_at LIMIT %s)
"""


class ProgressMark(Struct, frozen=True):
    """The newest mark of a runner: since when it has not moved, and when it was last said."""

    pod_uid: str
    mark: str
    changed_at: datetime
    seen_at: datetime


class Progress:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self.company = 0.1
        """Seconds that a mark waits for others: each runner says the next one seconds later, so there is no hurry."""
        self._noting = GroupCommit(
            self._note, most=_MOST_AT_ONCE, key=lambda said: said[0], wait=lambda: clock.sleep(self.company)
        )

    async def note(self, pod_uid: str, mark: str) -> None:
        """The Pod's runner says this now. The same mark again means: it is there, and nothing moved."""
        if not pod_uid:
            raise InvalidEntryError("pod_uid is empty: say whose progress this is")
        if len(mark) > LONGEST_MARK:
            raise InvalidEntryError(
                f"mark has {len(mark)} characters: at most {LONGEST_MARK}, a number or a short hash"
            )
        await self._noting.ask((pod_uid, mark))

    async def _note(self, said: Sequence[tuple[str, str]]) -> list[None]:
        params = {"uids": [uid for uid, _ in said], "marks": [mark for _, mark in said], "now": self._clock.now()}
        await self._database.run(NOTE, params)
        return [None for _ in said]

    async def of_pods(self, uids: Collection[str]) -> dict[str, ProgressMark]:
        """The newest marks of these Pods; those that never reported are left out."""
        if not uids:
            return {}
        found = await self._database.rows(ProgressMark, OF_PODS, [list(uids)])
        return {mark.pod_uid: mark for mark in found}

    async def still(
        self, stages: Collection[str], *, unmoved_since: datetime, heard_since: datetime, limit: int = 200
    ) -> list[ProgressMark]:
        """Marks in one of these stages (`<epoch> <stage>`) that were said lately and have not moved since; oldest first."""
        endings = [f"% {stage}" for stage in stages]
        params = {"heard_since": heard_since, "unmoved_since": unmoved_since, "endings": endings, "limit": limit}
        return await self._database.rows(ProgressMark, STILL, params)

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop marks that were last said before that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])
