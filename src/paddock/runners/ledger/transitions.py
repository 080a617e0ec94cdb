"""The log that is only ever added to: who changed what, when, from what to what, why, and under which claim.

A job's lines are written by a trigger, so that nothing can move a job in silence; those of claims, fences, sessions and
limits by the statement that changes them. Either way the line and the change are one transaction.
"""

from datetime import datetime

from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.rows import Transition

__all__ = ["Transitions"]

OF_JOB = f"""
-- transitions_of_job
SELECT {columns(Transition)} FROM transitions WHERE job_id = %s ORDER BY transition_id
"""
OF_POD = f"""
-- transitions_of_pod
SELECT {columns(Transition)} FROM transitions WHERE pod_uid = %s ORDER BY transition_id
"""
UID_OF_NAME = """
-- uid_of_name: whoever bore it last
SELECT pod_uid FROM (
    (SELECT pod_uid, started_at AS at FROM sessions WHERE pod_name = %(name)s ORDER BY started_at DESC LIMIT 1)
    UNION ALL
    (SELECT pod_uid, at FROM transitions WHERE pod_name = %(name)s ORDER BY transition_id DESC LIMIT 1)
) AS known ORDER BY at DESC LIMIT 1
"""
NEWEST = f"""
-- newest_transitions
SELECT {columns(Transition)} FROM transitions WHERE transition_id > %s ORDER BY transition_id DESC LIMIT %s
"""
FORGET = """
-- forget_transitions: a bounded bite of the oldest
DELETE FROM transitions WHERE transition_id IN (
    SELECT transition_id FROM transitions WHERE at < %s ORDER BY at LIMIT %s)
"""


class Transitions:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_job(self, job_id: int) -> list[Transition]:
        """A job's life, oldest line first."""
        return await self._database.rows(Transition, OF_JOB, [job_id])

    async def of_pod(self, pod_uid: str) -> list[Transition]:
        """A Pod's life, oldest line first."""
        return await self._database.rows(Transition, OF_POD, [pod_uid])

    async def uid_of(self, pod_name: str) -> str | None:
        """The uid of the last Pod of that name that had a session or a fence, also long after it is gone."""
        return await self._database.value(UID_OF_NAME, {"name": pod_name})

    async def newest(self, limit: int = 100, *, after: int = 0) -> list[Transition]:
        """The latest lines, newest first, none up to `after`."""
        return await self._database.rows(Transition, NEWEST, [after, limit])

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop lines older than `before`; gives how many. Call again while it gives `limit`."""
        async with self._database.transaction() as connection:
            await connection.execute("SELECT set_config('paddock.forgetting', 'on', true)")
            return (await connection.execute(FORGET, [before, limit])).rowcount
