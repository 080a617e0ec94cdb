"""New jobs, many at a time: what is announced while others are being written goes into one transaction with the next.

A burst of GitHub's is a burst of events, and each alone would cost a lock, a row and a commit.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, LiteralString

import msgspec

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Connection, Database, Params
from paddock.runners.ledger.group_commit import GroupCommit
from paddock.runners.ledger.rows import Announced, Moved, NewJob

__all__ = ["MOVED", "WHY", "Announcement", "EnqueueBatcher", "learn_repositories", "resay"]

WHY: Final[Mapping[Announced, str]] = {
    "queued": "announced by GitHub",
    "waiting": "GitHub holds it back until somebody approves it",
    "unserved": "no pool offers its labels",
}
MOVED: Final[Mapping[Announced, Moved]] = {
    "queued": Moved.QUEUED,
    "waiting": Moved.HELD,
    "unserved": Moved.UNSERVED,
}
_MOST_AT_ONCE = 256


class Announcement(msgspec.Struct, frozen=True):
    """What was said of a job that no runner has."""

    job: NewJob
    by: str
    status: Announced
    why: str


ADD = """
-- add_jobs: those that are new, in one round trip
SELECT add_jobs(%s::jsonb, %s)
"""
TRY_LOCKS = """
-- try_job_locks: those that no other transaction holds; the others are waited for one at a time, holding nothing
SELECT job_id FROM unnest(%s::bigint[]) AS said (job_id) WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
"""
INSERT_QUEUED = """
-- insert_queued_jobs: those that are not known and have not finished
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, labels, enqueued_at, changed_at, changed_by, changed_why, repository_id)
SELECT job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, workflow_run_id, workflow_name,
    run_attempt, job_name, head_branch, head_sha, label, ARRAY(SELECT jsonb_array_elements_text(labels::jsonb)),
    enqueued_at, %(now)s, by, why, repository_id
FROM unnest(%(job_id)s::bigint[], %(account_id)s::bigint[], %(pool)s::text[], %(platform)s::text[], %(vcpus)s::integer[],
    %(memory_mb)s::integer[], %(repository)s::text[], %(workflow_run_id)s::bigint[], %(workflow_name)s::text[],
    %(run_attempt)s::integer[], %(job_name)s::text[], %(head_branch)s::text[], %(head_sha)s::text[], %(label)s::text[],
    %(labels)s::text[], %(enqueued_at)s::timestamptz[], %(by)s::text[], %(status)s::text[], %(why)s::text[], %(repository_id)s::bigint[])
    AS said (job_id, account_id, pool, platform, vcpus, memory_mb, repository, workflow_run_id, workflow_name,
             run_attempt, job_name, head_branch, head_sha, label, labels, enqueued_at, by, status, why, repository_id)
WHERE NOT EXISTS (SELECT FROM completions WHERE completions.job_id = said.job_id)
ORDER BY job_id
ON CONFLICT (job_id) DO NOTHING
RETURNING job_id
"""
RESAY = """
-- resay_jobs: an approval releases what was held back, and its wait counts from now; a `waiting` holds what is queued, but
-- once only: GitHub holds a job back once in its life, so that a second word of it is late or replayed, and must not take
-- an approved job out of the line. Where that errs, the runner waits in vain, and healing holds the job (orphan_requeued).
-- The caller has each job's own lock, so that no dispatcher is taking one of them.
WITH concerned AS (
    SELECT job_id FROM jobs WHERE job_id = ANY (%(job_id)s) AND status IN ('waiting', 'unserved', 'queued')
    ORDER BY job_id FOR UPDATE
)
UPDATE jobs SET status = said.status, pool = said.pool, platform = said.platform, vcpus = said.vcpus,
    memory_mb = said.memory_mb, label = said.label,
    enqueued_at = CASE WHEN jobs.status = 'waiting' THEN %(now)s ELSE jobs.enqueued_at END,
    changed_at = %(now)s, changed_by = said.by, changed_why = said.why
FROM concerned, unnest(%(job_id)s::bigint[], %(status)s::text[], %(pool)s::text[], %(platform)s::text[],
    %(vcpus)s::integer[], %(memory_mb)s::integer[], %(label)s::text[], %(by)s::text[], %(why)s::text[])
    AS said (job_id, status, pool, platform, vcpus, memory_mb, label, by, why)
WHERE concerned.job_id = jobs.job_id AND said.job_id = jobs.job_id AND (jobs.status = 'waiting') <> (said.status = 'waiting')
    AND (said.status <> 'waiting' OR NOT EXISTS (SELECT FROM transitions t WHERE t.job_id = jobs.job_id
                                                 AND t.subject = 'job' AND t.became = 'waiting'))
RETURNING jobs.job_id
"""
LEARN = """
-- learn_repositories: GitHub's number of a repository where the row has none (found in a list, or of an older release)
WITH said AS (SELECT * FROM unnest(%(job_id)s::bigint[], %(repository_id)s::bigint[]) AS said (job_id, repository_id)),
concerned AS (
    SELECT job_id FROM jobs WHERE repository_id = 0 AND job_id IN (SELECT said.job_id FROM said WHERE said.repository_id <> 0)
    ORDER BY job_id FOR UPDATE
)
UPDATE jobs SET repository_id = said.repository_id FROM said JOIN concerned USING (job_id) WHERE jobs.job_id = said.job_id
"""
UNFINISHED = """
-- unfinished_jobs
SELECT job_id FROM jobs WHERE job_id = ANY (%s) AND status NOT IN ('completed', 'cancelled')
"""


class EnqueueBatcher:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._adding = GroupCommit(self._add, most=_MOST_AT_ONCE, key=lambda said: said.job.job_id)
        self._announcing = GroupCommit(self._announce, most=_MOST_AT_ONCE, key=lambda said: said.job.job_id)

    async def add(self, said: Announcement) -> Moved | None:
        """Queue the job unless it is known or has finished; None if nothing was done, because the job is being spoken of
        elsewhere at this very moment: then wait for its lock, holding nothing else.
        """
        if await self._adding.ask(said):
            return MOVED[said.status]  # nearly always: what is announced is mostly new
        return await self._announcing.ask(said)

    async def _add(self, said: Sequence[Announcement]) -> list[bool]:
        async with self._database.connection() as connection:
            added = await _ids(connection, ADD, [msgspec.json.encode(said).decode(), self._clock.now()])
        return [each.job.job_id in added for each in said]

    async def _announce(self, said: Sequence[Announcement]) -> list[Moved | None]:
        """Many events in one transaction. None for a job whose lock another transaction holds at this very moment: to
        wait for that would be to wait with the locks of all the others in hand.
        """
        async with self._database.transaction() as connection:
            free = await _ids(connection, TRY_LOCKS, [[each.job.job_id for each in said]])
            ours = [each for each in said if each.job.job_id in free]
            now = self._clock.now()
            added = await _ids(connection, INSERT_QUEUED, _columns(ours, now)) if ours else frozenset[int]()
            known = free - added
            again = [each for each in ours if each.job.job_id in known]
            await learn_repositories(connection, [each.job for each in again])
            moved_on = await resay(connection, again, now)
            unfinished = await _ids(connection, UNFINISHED, [list(known)]) if known else frozenset[int]()

        def moved(each: Announcement) -> Moved | None:
            job_id = each.job.job_id
            if job_id not in free:
                return None
            if job_id in added or job_id in moved_on:
                return MOVED[each.status]
            return Moved.KNOWN if job_id in unfinished else Moved.FINISHED

        return [moved(each) for each in said]


async def learn_repositories(connection: Connection, said: Sequence[NewJob]) -> None:
    """Write the repository's number into rows that have none. A number that is known stays. Needs each job's own lock."""
    told = [job for job in said if job.repository_id]
    if told:
        numbers = {"job_id": [job.job_id for job in told], "repository_id": [job.repository_id for job in told]}
        await connection.execute(LEARN, numbers)


async def resay(connection: Connection, said: Sequence[Announcement], now: datetime) -> frozenset[int]:
    """Take up what is said anew of jobs that are known; gives those that it moved. Needs each job's own lock."""
    return await _ids(connection, RESAY, _columns(said, now)) if said else frozenset[int]()


def _columns(said: Sequence[Announcement], now: datetime) -> dict[str, object]:
    values: dict[str, object] = {
        name: [getattr(each.job, name) for each in said] for name in NewJob.__struct_fields__ if name != "labels"
    }
    # Lists of different lengths are no array of Postgres's: each goes as JSON.
    values["labels"] = [msgspec.json.encode(each.job.labels).decode() for each in said]
    values |= {name: [getattr(each, name) for each in said] for name in ("by", "status", "why")}
    return values | {"now": now}


async def _ids(connection: Connection, statement: LiteralString, params: Params) -> frozenset[int]:
    return frozenset(number for (number,) in await (await connection.execute(statement, params)).fetchall())
