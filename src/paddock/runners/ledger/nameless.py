"""Rows for jobs that GitHub counts and has not named: made under the source's lease, named by the first message about them.

A nameless row is an assignment whose GUID is the word `nameless` (or `nudged`) and whose run is 0; its job is a queued job like
any other. Making some and naming one are a transaction each, in turn for each source, so that neither leaves half of it behind.
"""

from datetime import datetime, timedelta
from typing import Final

from paddock.base.clock import Clock
from paddock.runners.ledger.assignments import NAMELESS, NUDGED, Assignment
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.jobs import Jobs
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.rows import NewJob
from paddock.runners.ledger.scale_sets import LeaseLostError, Source

__all__ = ["IN_VAIN_COUNTS", "NOT_NAMED", "NamelessJobs"]

IN_VAIN_COUNTS: Final = timedelta(minutes=30)
"""For so long a row that waited in vain is held against new ones: a count that is stuck must not keep Macs busy for nothing."""

NOT_NAMED = "not named yet"
"""What people read as the job's name."""
_WORDS = [NAMELESS, NUDGED]

LEASE = """
-- nameless_lease: one at a time for each source, and only whoever listens to it
SELECT 1 FROM scale_set_sources WHERE source_id = %s AND epoch = %s FOR UPDATE
"""
TURN = """
-- nameless_turn: one at a time for each source
SELECT 1 FROM scale_set_sources WHERE source_id = %s FOR UPDATE
"""
MAKE = """
-- make_nameless: so many, and never more unstarted rows than were counted at GitHub; said again, it makes none. None either
-- where the account itself may run nothing, but only repositories of it: a row without a name would be of none of them
WITH there AS (
    SELECT count(*) AS rows FROM scale_set_jobs a JOIN jobs j USING (job_id)
    WHERE a.source_id = %(source_id)s AND a.started_at IS NULL AND j.status IN ('queued', 'claimed', 'running')
      AND NOT EXISTS (SELECT FROM claims c WHERE c.job_id = a.job_id AND c.executing_since IS NOT NULL)
), new AS (
    INSERT INTO scale_set_jobs (job_id, source_id, assignment, job_guid, assigned_at)
    SELECT number, %(source_id)s, %(nameless)s || '/' || number, %(nameless)s, %(now)s
    FROM (SELECT nextval('scale_set_job_ids') AS number
          FROM generate_series(1, least(%(make)s, %(at_most)s - (SELECT rows FROM there)))) numbers
    WHERE is_allowed(%(account_id)s, %(repository_id)s, %(repository)s)
    RETURNING job_id
)
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, repository_id, job_name,
    enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, %(account_id)s, %(pool)s, %(platform)s, %(vcpus)s, %(memory_mb)s, 'queued', %(repository)s, %(repository_id)s,
    %(name)s, %(now)s, %(now)s, %(by)s, %(why)s
FROM new RETURNING job_id
"""
LISTENED_TO = """
-- nudged_source: the set that the job would be of, while it is listened to
SELECT source_id FROM scale_set_sources
WHERE pool = %(pool)s AND account_id = %(account_id)s AND lower(repository) IN ('', lower(%(repository)s)) AND state = 'Listening'
ORDER BY repository DESC LIMIT 1 FOR UPDATE
"""
NUDGE = """
-- nudge: one row, where the source has no open one and none was in vain lately. Neither for a repository that may run nothing, nor
-- held up by a row of one that was denied since: no Pod comes for either
WITH new AS (
    INSERT INTO scale_set_jobs (job_id, source_id, assignment, job_guid, assigned_at)
    SELECT number, %(source_id)s, %(nudged)s || '/' || number, %(nudged)s, %(now)s
    FROM (SELECT nextval('scale_set_job_ids') AS number) fresh
    WHERE NOT EXISTS (SELECT FROM scale_set_jobs a JOIN jobs j USING (job_id)
                      WHERE a.source_id = %(source_id)s AND j.status IN ('queued', 'claimed', 'running')
                        AND (j.status <> 'queued' OR is_allowed(j.account_id, j.repository_id, j.repository)))
      AND is_allowed(%(account_id)s, %(repository_id)s, %(repository)s)
      AND NOT EXISTS (SELECT FROM scale_set_jobs v WHERE v.source_id = %(source_id)s AND v.workflow_run_id = 0
                      AND v.job_guid = %(nudged)s AND v.result = %(result)s AND v.finished_at > %(since)s)
    RETURNING job_id
)
INSERT INTO jobs (job_id, account_id, pool, platform, vcpus, memory_mb, status, repository, repository_id, workflow_run_id,
    workflow_name, job_name, enqueued_at, changed_at, changed_by, changed_why)
SELECT job_id, %(account_id)s, %(pool)s, %(platform)s, %(vcpus)s, %(memory_mb)s, 'queued', %(repository)s, %(repository_id)s,
    %(workflow_run_id)s, %(workflow_name)s, %(job_name)s, %(enqueued_at)s, %(now)s, %(by)s, %(why)s
FROM new RETURNING job_id
"""
ANY = """
-- any_nameless: whether a message can name one
SELECT 1 FROM scale_set_jobs a JOIN jobs j USING (job_id)
WHERE a.source_id = %s AND a.workflow_run_id = 0 AND a.job_guid = ANY (%s) AND j.status IN ('queued', 'claimed', 'running') LIMIT 1
"""
NAME = """
-- name_nameless: the row whose runner speaks; else one of a time at which this job waited, best one that no Pod has; or one
-- that is to wake whatever comes. Nothing if the assignment is known already.
WITH chosen AS (
    SELECT a.job_id FROM scale_set_jobs a JOIN jobs j USING (job_id)
    WHERE a.source_id = %(source_id)s AND a.workflow_run_id = 0 AND a.job_guid = ANY (%(nameless)s)
      AND a.started_at IS NULL AND a.finished_at IS NULL AND j.status IN ('queued', 'claimed', 'running')
      AND NOT EXISTS (SELECT FROM scale_set_jobs k WHERE k.source_id = %(source_id)s AND k.assignment = %(key)s)
      AND (j.runner_name = %(runner_name)s OR a.job_guid = %(nudged)s OR (a.assigned_at >= %(assigned_at)s
           AND (%(taken_at)s::timestamptz IS NULL OR %(taken_at)s >= a.assigned_at)))
    ORDER BY j.runner_name IS NOT DISTINCT FROM %(runner_name)s AND j.runner_name IS NOT NULL DESC, j.status = 'queued' DESC,
        a.assigned_at, a.job_id LIMIT 1
), named AS (
    UPDATE scale_set_jobs a SET assignment = %(key)s, job_guid = %(job_guid)s, workflow_run_id = %(workflow_run_id)s,
        assigned_at = %(assigned_at)s
    FROM chosen WHERE a.job_id = chosen.job_id RETURNING a.job_id
)
UPDATE jobs j SET repository = %(repository)s, repository_id = %(repository_id)s, workflow_run_id = %(workflow_run_id)s, workflow_name = %(workflow_name)s,
    job_name = %(job_name)s, enqueued_at = least(j.enqueued_at, %(enqueued_at)s)
FROM named WHERE j.job_id = named.job_id RETURNING j.job_id
"""
IN_VAIN = """
-- nameless_in_vain: how many ended lately because no runner was given a job for them
SELECT count(*) FROM scale_set_jobs
WHERE source_id = %(source_id)s AND workflow_run_id = 0 AND job_guid = ANY (%(nameless)s) AND result = %(result)s
  AND finished_at > %(since)s
"""


class NamelessJobs:
    """What the ledger does for `scale_sets.nameless`. Every method can be repeated."""

    UNCLAIMED = "unclaimed"
    """The result of a row that GitHub gave no job to."""

    def __init__(self, database: Database, clock: Clock, jobs: Jobs, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._jobs = jobs
        self._notifications = notifications

    async def make(self, source: Source, job: NewJob, *, make: int, at_most: int, by: str, why: str) -> int:
        """Rows like `job` until there are `at_most` unstarted ones, `make` at most; gives how many. LeaseLostError.

        Died before the commit: nothing. After it: the rows are there, and whoever counts next counts them.
        """
        fields = ("account_id", "pool", "platform", "vcpus", "memory_mb", "repository", "repository_id")
        values = {name: getattr(job, name) for name in fields}
        values |= {"name": NOT_NAMED, "nameless": NAMELESS, "source_id": source.source_id}
        values |= {"make": make, "at_most": at_most, "now": self._clock.now(), "by": by, "why": why}
        async with self._database.transaction() as connection:
            lease = await connection.execute(LEASE, [source.source_id, source.epoch])
            if await lease.fetchone() is None:
                raise LeaseLostError(f"the lease on scale set source {source.source_id} is another's")
            made = (await connection.execute(MAKE, values)).rowcount
        await self._enqueued(job.pool, made)
        return made

    async def nudge(self, job: NewJob, *, since: datetime, by: str, why: str) -> bool:
        """One row for a job that waits at GitHub and that nobody announces, so that a runner comes and wakes it. Repeatable.

        Only where the job's set is listened to and has no open row that may run: whoever serves another job of it wakes this one,
        too. Not for a repository that may run nothing, and not if a row was made for that since `since` and waited in vain.
        """
        fields = (f for f in NewJob.__struct_fields__ if f not in ("job_id", "labels"))
        values = {name: getattr(job, name) for name in fields}
        values |= {
            "nudged": NUDGED,
            "result": self.UNCLAIMED,
            "since": since,
            "now": self._clock.now(),
            "by": by,
            "why": why,
        }
        async with self._database.transaction() as connection:
            source = await (await connection.execute(LISTENED_TO, values)).fetchone()
            if source is None:
                return False
            made = (await connection.execute(NUDGE, {**values, "source_id": source[0]})).rowcount
        await self._enqueued(job.pool, made)
        return made > 0

    async def name(
        self, source: Source, assignment: Assignment, job: NewJob, *, runner_name: str | None, taken_at: datetime | None
    ) -> int | None:
        """The number of the nameless row that this assignment has named now; None if none fits, or it is known already.

        `taken_at` is when a runner took the job: one that did so before a row was made was not waiting then, and is not
        what the row was made for. Both the row and what people read of it change together.
        """
        if await self._database.value(ANY, [source.source_id, _WORDS]) is None:
            return None
        said = ("repository", "repository_id", "workflow_name", "job_name", "enqueued_at")
        values = {name: getattr(job, name) for name in said}
        values |= {"source_id": source.source_id, "nameless": _WORDS, "nudged": NUDGED, "key": assignment.key}
        values |= {"job_guid": assignment.job_guid, "workflow_run_id": assignment.workflow_run_id}
        values |= {"assigned_at": assignment.assigned_at, "runner_name": runner_name, "taken_at": taken_at}
        async with self._database.transaction() as connection:
            await connection.execute(TURN, [source.source_id])
            named = await (await connection.execute(NAME, values)).fetchone()
        return None if named is None else named[0]

    async def in_vain(self, source: Source, since: datetime) -> int:
        """How many rows of the source ended since then because no runner was given a job for them."""
        params = {"source_id": source.source_id, "nameless": _WORDS, "result": self.UNCLAIMED, "since": since}
        return await self._database.value(IN_VAIN, params)

    async def _enqueued(self, pool: str, made: int) -> None:
        if self._jobs.metrics is not None:
            for _ in range(made):
                self._jobs.metrics.enqueued(pool)
        if made > 0:
            await self._notifications.hint(pool)
