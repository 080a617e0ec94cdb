"""New jobs, many at a time: what is announced while others are being written goes into one transaction with the next.

A burst of GitHub's is a burst of events, and each alone would cost a lock, a row and a commit.
"""

from collections.abc import Sequence
from typing import Final, LiteralString

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Connection, Database, Params
from paddock.runners.ledger.group_commit import GroupCommit
from paddock.runners.ledger.rows import Moved, NewJob

__all__ = ["ANNOUNCED", "EnqueueBatcher"]

ANNOUNCED: Final = "announced by GitHub"
_MOST_AT_ONCE = 256

TRY_LOCKS = """
-- try_job_locks: those that no other transaction holds; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest(%s::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
"""
INSERT_QUEUED = """
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, changed_at, changed_by, changed_why, repository_id)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, 'queued', repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, enqueued_at, %(now)s, by, %(why)s, repository_id
FROM unnest(%(job_id)s::bigint[], %(account_id)s::bigint[], %(pool)s::text[], %(platform)s::text[], %(vcpus)s::integer[],
    %(memory_mb)s::integer[], %(repository)s::text[], %(workflow_run_id)s::bigint[], %(workflow_name)s::text[],
    %(run_attempt)s::integer[], %(job_name)s::text[], %(head_branch)s::text[], %(head_sha)s::text[], %(label)s::text[],
    %(enqueued_at)s::timestamptz[], %(by)s::text[], %(repository_id)s::bigint[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, enqueued_at, by, repository_id)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
"""
UNFINISHED = """
-- unfinished_jobs
SELECT job_id FROM jobs WHERE job_id = ANY (%s) AND status NOT IN ('completed', 'cancelled')
"""


class EnqueueBatcher:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._announcing = GroupCommit(self._add, most=_MOST_AT_ONCE, key=lambda said: said[0].job_id)

    async def add(self, job: NewJob, by: str) -> Moved | None:
        """Queue the job unless it is known or has finished; None if nothing was done, because the job is being spoken of
        elsewhere at this very moment: then wait for its lock, holding nothing else.
        """
        return await self._announcing.ask((job, by))

    async def _add(self, said: Sequence[tuple[NewJob, str]]) -> list[Moved | None]:
        """Many events in one transaction. None for a job whose lock another transaction holds at this very moment: to
        wait for that would be to wait with the locks of all the others in hand.
        """
        async with self._database.transaction() as connection:
            free = await _ids(connection, TRY_LOCKS, [[job.job_id for job, _ in said]])
            ours = [(job, by) for job, by in said if job.job_id in free]
            values: dict[str, object] = {
                name: [getattr(job, name) for job, _ in ours] for name in NewJob.__struct_fields__
            }
            values |= {"by": [by for _, by in ours], "why": ANNOUNCED, "now": self._clock.now()}
            added = await _ids(connection, INSERT_QUEUED, values) if ours else frozenset[int]()
            known = free - added
            unfinished = await _ids(connection, UNFINISHED, [list(known)]) if known else frozenset[int]()

        def moved(job_id: int) -> Moved | None:
            if job_id not in free:
                return None
            if job_id in added:
                return Moved.QUEUED
            return Moved.KNOWN if job_id in unfinished else Moved.FINISHED

        return [moved(job.job_id) for job, _ in said]


async def _ids(connection: Connection, statement: LiteralString, params: Params) -> frozenset[int]:
    return frozenset(number for (number,) in await (await connection.execute(statement, params)).fetchall())
