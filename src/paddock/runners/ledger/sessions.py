"""Which Pods were handed a runner. A session is recorded before the Pod is answered, and ends when the Pod has.

An open session means: the Pod was sent its runner and may be executing a job, whatever became of its claim. A Pod has one
session in its life; the table's key is its uid.
"""

from collections.abc import Mapping
from datetime import UTC, datetime

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.rows import Session

__all__ = ["Sessions"]

END = """
-- end_sessions: of two reports the earlier moment counts, and never one before the start
WITH reported AS (
    SELECT * FROM unnest(%(uids)s::text[], %(ends)s::timestamptz[]) AS r (pod_uid, ended_at)
), old AS (
    SELECT s.pod_uid, s.ended_at FROM sessions s JOIN reported USING (pod_uid) ORDER BY s.pod_uid FOR UPDATE OF s
), ended AS (
    UPDATE sessions s SET ended_at = least(s.ended_at, greatest(s.started_at, r.ended_at)),
        end_reason = CASE WHEN s.ended_at IS NULL THEN %(why)s ELSE s.end_reason END
    FROM reported r JOIN old USING (pod_uid)
    WHERE s.pod_uid = r.pod_uid AND (s.ended_at IS NULL OR (NOT %(only_open)s AND r.ended_at < s.ended_at))
    RETURNING s.*, old.ended_at AS before
), logged AS (
    INSERT INTO transitions (at, subject, job_id, account_id, pod_uid, generation, was, became, by, why)
    SELECT %(now)s, 'session', e.job_id, e.account_id, e.pod_uid, e.generation, 'open', 'ended', %(by)s, %(why)s
    FROM ended e WHERE e.before IS NULL
)
SELECT count(*) FROM ended
"""
OF_POD = f"""
-- session_of_pod
SELECT {columns(Session)} FROM sessions WHERE pod_uid = %s
"""
OPEN = f"""
-- open_sessions: oldest first
SELECT {columns(Session)} FROM sessions WHERE ended_at IS NULL AND started_at < %s ORDER BY started_at, pod_uid
"""
OF_JOB = f"""
-- sessions_of_job: every Pod that was minted for it or executed it
SELECT {columns(Session)} FROM sessions WHERE job_id = %s
UNION SELECT {columns(Session, "s.")} FROM jobs j JOIN sessions s ON s.account_id = j.account_id AND s.runner_name = j.runner_name
WHERE j.job_id = %s ORDER BY started_at
"""


KEEP_LINES = """
-- keep_last_lines: the first that were kept stay
UPDATE sessions SET last_lines = coalesce(last_lines, %s) WHERE pod_uid = %s
"""


class Sessions:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def keep_last_lines(self, pod_uid: str, text: str) -> None:
        """Keep what the runner of this Pod printed last. Repeatable."""
        await self._database.run(KEEP_LINES, [text.replace("\x00", ""), pod_uid])

    async def end(self, pod_uid: str, ended_at: datetime, *, by: str, why: str) -> bool:
        """The Pod ended then. Of two reports the earlier moment counts. False: no session, or nothing new."""
        return await self._end({pod_uid: ended_at}, by=by, why=why, only_open=False) == 1

    async def end_absent(self, ends: Mapping[str, datetime], *, by: str, why: str) -> int:
        """End the sessions of Pods that are proven gone, at the best known moments; those that ended stay as they are."""
        return await self._end(ends, by=by, why=why, only_open=True) if ends else 0

    async def of_pod(self, pod_uid: str) -> Session | None:
        return await self._database.row(Session, OF_POD, [pod_uid])

    async def of_job(self, job_id: int) -> list[Session]:
        """The sessions of Pods that were minted for the job, or that executed it."""
        return await self._database.rows(Session, OF_JOB, [job_id, job_id])

    async def open(self, *, started_before: datetime | None = None) -> list[Session]:
        """Sessions that have not ended, oldest first."""
        return await self._database.rows(Session, OPEN, [started_before or datetime.max.replace(tzinfo=UTC)])

    async def _end(self, ends: Mapping[str, datetime], *, by: str, why: str, only_open: bool) -> int:
        params = {
            "uids": list(ends),
            "ends": list(ends.values()),
            "only_open": only_open,
            "by": by,
            "why": why,
            "now": self._clock.now(),
        }
        return await self._database.value(END, params)
