"""What is over: finished jobs with their tombstones and ended sessions, forgotten by age.

A tombstone keeps a late event from bringing a finished job back, and a session keeps its Pod from a second tenant. So
neither may be forgotten while GitHub could still speak of the job, or while the Pod could still ask: keep months, not days.
"""

from datetime import datetime

from paddock.runners.ledger.database import Database

__all__ = ["History"]

FORGET_JOBS = """
-- forget_jobs: finished long ago, with their tombstones; a bounded bite of the oldest
WITH old AS (
    SELECT c.job_id FROM completions c LEFT JOIN jobs j USING (job_id)
    WHERE c.completed_at < %(before)s AND (j.status IS NULL OR j.status IN ('completed', 'cancelled'))
    ORDER BY c.completed_at LIMIT %(limit)s
), jobs_gone AS (
    DELETE FROM jobs j USING old WHERE j.job_id = old.job_id AND j.status IN ('completed', 'cancelled')
), assignments_gone AS (
    DELETE FROM scale_set_jobs a USING old WHERE a.job_id = old.job_id
), tombstones_gone AS (
    DELETE FROM completions c USING old WHERE c.job_id = old.job_id RETURNING 1
)
SELECT count(*) FROM tombstones_gone
"""
FORGET_SESSIONS = """
-- forget_sessions: ended long ago, and nothing is held for the Pod any more; a bounded bite
DELETE FROM sessions WHERE pod_uid IN (
    SELECT s.pod_uid FROM sessions s
    WHERE s.started_at < %(before)s AND s.ended_at < %(before)s
      AND NOT EXISTS (SELECT FROM claims c WHERE c.pod_uid = s.pod_uid)
    LIMIT %(limit)s)
"""


class History:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def forget_jobs(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop jobs that finished before that, each with its tombstone; gives how many. Call again while it gives `limit`."""
        return await self._database.value(FORGET_JOBS, {"before": before, "limit": limit})

    async def forget_sessions(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop sessions that ended before that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET_SESSIONS, {"before": before, "limit": limit})
