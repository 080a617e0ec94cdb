"""What GitHub said of each assignment of a job to a scale set.

Written without the source's lease: these are GitHub's facts, whoever hears them, and every statement can be repeated. The row of
`jobs` follows the assignment; an assignment is open for as long as that is.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.rows import NewJob
from paddock.runners.ledger.scale_sets import Source

__all__ = ["NAMELESS", "NO_REPOSITORY", "NUDGED", "AssignedJob", "Assignment", "Assignments", "OpenAssignment"]

NAMELESS: Final = "nameless"
"""The GUID of a job that GitHub counts and has not named: no GUID of GitHub's is a word."""

NUDGED: Final = "nudged"
"""The same for a job that GitHub's list shows waiting, and that it neither counts nor announces until a runner comes."""

NO_REPOSITORY: Final = "(unknown)"
"""In the place of a repository's name, where GitHub told none: no repository of GitHub's can be called so."""


_CLOCKS_APART: Final = timedelta(minutes=1)
"""When a job was made and when it was assigned is told by two services of GitHub's."""


class Assignment(Struct, frozen=True, kw_only=True):
    """What identifies an assignment: `key` for ever, the rest for finding it by less."""

    key: str
    job_guid: str
    workflow_run_id: int
    assigned_at: datetime


class AssignedJob(Struct, frozen=True, kw_only=True):
    """An assignment, and what GitHub has said of it since."""

    job_id: int
    source_id: int
    assignment: str
    workflow_run_id: int
    assigned_at: datetime
    runner_name: str | None
    started_at: datetime | None
    finished_at: datetime | None
    result: str | None
    forge_job_id: int | None
    job_guid: str = ""

    @property
    def nameless(self) -> bool:
        """Whether the row stands for a job that GitHub has not named to us."""
        return self.job_guid in (NAMELESS, NUDGED) and not self.workflow_run_id

    @property
    def nudged(self) -> bool:
        """Whether GitHub does not even count the job: the row's runner is to wake it."""
        return self.nameless and self.job_guid == NUDGED


class OpenAssignment(AssignedJob, frozen=True, kw_only=True):
    """An assignment whose job is not over. `handed_at`: since when a Pod has the job, whether or not its runner was given it."""

    handed_at: datetime | None = None
    executing_since: datetime | None = None
    """By a webhook, perhaps before the queue has said so."""

    @property
    def handed(self) -> bool:
        return self.handed_at is not None

    @property
    def started(self) -> bool:
        """Whether a runner was given the job, by the queue's word or a webhook's."""
        return self.started_at is not None or self.executing_since is not None


ASSIGN = """
-- assign_job: the number of this assignment's job, drawn when it is heard of first
WITH known AS (
    SELECT job_id FROM scale_set_jobs WHERE source_id = %(source_id)s AND assignment = %(key)s
), new AS (
    INSERT INTO scale_set_jobs (job_id, source_id, assignment, job_guid, workflow_run_id, assigned_at)
    SELECT nextval('scale_set_job_ids'), %(source_id)s, %(key)s, %(job_guid)s, %(workflow_run_id)s, %(assigned_at)s
    WHERE NOT EXISTS (SELECT FROM known) ON CONFLICT DO NOTHING RETURNING job_id
)
SELECT job_id FROM new UNION ALL SELECT job_id FROM known
"""
OF_RUN = """
-- assignment_of_run: where the moment of assignment was not told. That of the runner that speaks, over or not: a runner has one
-- job in its life, and its end may have been heard by webhook before. Else the newest that is not over. Else, of an end without
-- a runner, the newest that ended so: it is said again.
SELECT assignment FROM scale_set_jobs
WHERE source_id = %(source_id)s AND workflow_run_id = %(workflow_run_id)s AND job_guid = %(job_guid)s
  AND (finished_at IS NULL OR runner_name = %(runner_name)s
       OR (%(ended)s AND %(runner_name)s::text IS NULL AND runner_name IS NULL))
ORDER BY runner_name = %(runner_name)s IS TRUE DESC, finished_at IS NULL DESC, assigned_at DESC LIMIT 1
"""
STARTED = """
-- assignment_started: the first word counts
UPDATE scale_set_jobs SET runner_name = coalesce(runner_name, %(runner_name)s), started_at = coalesce(started_at, %(at)s)
WHERE job_id = %(job_id)s
"""
FINISHED_ = """
-- assignment_finished: the first word counts
UPDATE scale_set_jobs SET finished_at = coalesce(finished_at, %(at)s), result = coalesce(result, %(result)s),
    runner_name = coalesce(runner_name, %(runner_name)s)
WHERE job_id = %(job_id)s
"""
FORGE_ID = """
-- assignment_numbered: GitHub's own number, once it is known
UPDATE scale_set_jobs SET forge_job_id = %(forge_job_id)s WHERE job_id = %(job_id)s
"""
JOB = f"""
-- assigned_job
SELECT {columns(AssignedJob)} FROM scale_set_jobs WHERE job_id = %s
"""
OF_RUNNER = f"""
-- assignment_of_runner: the open one that the queue said it runs; else that which it was minted for, if run and name agree
SELECT {columns(AssignedJob, "a.")} FROM scale_set_sources s JOIN scale_set_jobs a USING (source_id) JOIN jobs j USING (job_id)
WHERE s.account_id = %(account_id)s AND a.workflow_run_id = %(workflow_run_id)s AND a.result IS NULL
  AND (a.runner_name = %(runner_name)s
       OR (a.runner_name IS NULL AND j.runner_name = %(runner_name)s AND j.job_name = %(job_name)s))
ORDER BY a.runner_name IS NULL LIMIT 1
"""
NUMBER_OF_RUNNER = """
-- number_assignment_of_runner: also of one that is over, so that its announcement, should it come late, is known
UPDATE scale_set_jobs a SET forge_job_id = %(forge_job_id)s FROM scale_set_sources s
WHERE s.source_id = a.source_id AND s.account_id = %(account_id)s AND a.workflow_run_id = %(workflow_run_id)s
  AND a.runner_name = %(runner_name)s AND a.forge_job_id IS NULL
"""
MAY_BE = """
-- may_be_assigned: of a set that offers the job's labels, or offered them when its pool had another source of jobs
WITH told AS (
    SELECT a.workflow_run_id, a.assigned_at, a.runner_name, a.forge_job_id, j.status IN ('queued', 'claimed', 'running') AS open
    FROM scale_set_sources s JOIN scale_set_jobs a USING (source_id) JOIN jobs j USING (job_id)
    WHERE s.account_id = %(account_id)s AND a.workflow_run_id = ANY (%(runs)s)
      AND (s.pool = %(pool)s OR %(labels)s::text[] <@ ARRAY(SELECT lower(label) FROM unnest(s.asked_labels) label))
)
SELECT EXISTS (SELECT FROM told WHERE
    CASE WHEN forge_job_id IS NOT NULL THEN forge_job_id = %(job_id)s AND (open OR runner_name IS NOT NULL)
         ELSE open AND assigned_at >= %(created_at)s END)
"""
SOURCE_OF = f"""
-- source_of_job
SELECT {columns(Source, "s.")} FROM scale_set_sources s JOIN scale_set_jobs j USING (source_id) WHERE j.job_id = %s
"""
OPEN = f"""
-- open_assignments: those whose job is not over, oldest first
SELECT {columns(AssignedJob, "a.")}, CASE WHEN j.status <> 'queued' THEN coalesce(j.claimed_at, j.changed_at) END AS handed_at,
    (SELECT max(c.executing_since) FROM claims c WHERE c.job_id = a.job_id) AS executing_since
FROM scale_set_jobs a JOIN jobs j USING (job_id)
WHERE a.source_id = %s AND j.status IN ('queued', 'claimed', 'running') ORDER BY a.assigned_at, a.job_id
"""
POOLS_OPEN = """
-- sources_with_open_assignments: the source's own pool, wherever a job of it runs
SELECT DISTINCT s.pool, s.account_id, s.repository FROM scale_set_jobs a JOIN jobs j USING (job_id)
JOIN scale_set_sources s USING (source_id) WHERE j.status IN ('queued', 'claimed', 'running')
"""
OLDEST = """
-- oldest_assignments: since when an assignment of each pool has waited for a runner to take it
SELECT s.pool, min(a.assigned_at) AS since FROM scale_set_jobs a JOIN jobs j USING (job_id)
JOIN scale_set_sources s USING (source_id)
WHERE j.status IN ('queued', 'claimed', 'running') AND a.started_at IS NULL GROUP BY s.pool
"""

COUNT_OPEN = """
-- count_open_assignments
SELECT s.pool, count(*)::integer AS jobs FROM scale_set_jobs a JOIN jobs j USING (job_id)
JOIN scale_set_sources s USING (source_id) WHERE j.status IN ('queued', 'claimed', 'running') GROUP BY s.pool
"""


class _Oldest(Struct, frozen=True):
    pool: str
    since: datetime


class _OpenCount(Struct, frozen=True):
    pool: str
    jobs: int


class _OpenSource(Struct, frozen=True):
    pool: str
    account_id: int
    repository: str


class Assignments:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def assign(self, source: Source, assignment: Assignment) -> int:
        """The number of the assignment's job, the same however often it is asked."""
        params = {
            "source_id": source.source_id,
            "key": assignment.key,
            "job_guid": assignment.job_guid,
            "workflow_run_id": assignment.workflow_run_id,
            "assigned_at": assignment.assigned_at,
        }
        # A rival that inserts at the same moment makes the first statement see neither: the second sees the rival's.
        return await self._database.value(ASSIGN, params) or await self._database.value(ASSIGN, params)

    async def of_run(
        self, source: Source, workflow_run_id: int, job_guid: str, *, runner_name: str | None, ended: bool
    ) -> str | None:
        """The key of the assignment that is most likely spoken of, where its moment was not told; None if it is a new one.

        `ended`: its end is what is told.
        """
        params = {"source_id": source.source_id, "workflow_run_id": workflow_run_id, "job_guid": job_guid}
        return await self._database.value(OF_RUN, {**params, "runner_name": runner_name, "ended": ended})

    async def started(self, job_id: int, runner_name: str, at: datetime) -> None:
        await self._database.run(STARTED, {"job_id": job_id, "runner_name": runner_name, "at": at})

    async def finished(self, job_id: int, result: str, at: datetime, runner_name: str | None) -> None:
        params = {"job_id": job_id, "result": result, "at": at, "runner_name": runner_name}
        await self._database.run(FINISHED_, params)

    async def numbered(self, job_id: int, forge_job_id: int) -> None:
        await self._database.run(FORGE_ID, {"job_id": job_id, "forge_job_id": forge_job_id})

    async def job(self, job_id: int) -> AssignedJob | None:
        return await self._database.row(AssignedJob, JOB, [job_id])

    async def of_runner(
        self, account_id: int, runner_name: str, workflow_run_id: int, job_name: str
    ) -> AssignedJob | None:
        """The unfinished assignment that this runner runs, by the queue's word (then it has the runner's name); else the one it
        was minted for, if that is of this run and name. A runner's name means something only within its account.
        """
        params = {"account_id": account_id, "runner_name": runner_name}
        params |= {"workflow_run_id": workflow_run_id, "job_name": job_name}
        return await self._database.row(AssignedJob, OF_RUNNER, params)

    async def number_of_runner(
        self, account_id: int, runner_name: str, workflow_run_id: int, forge_job_id: int
    ) -> None:
        """GitHub's number of the job of this run that the queue said this runner runs or ran."""
        params = {"account_id": account_id, "runner_name": runner_name}
        params |= {"workflow_run_id": workflow_run_id, "forge_job_id": forge_job_id}
        await self._database.run(NUMBER_OF_RUNNER, params)

    async def may_be(self, job: NewJob, *, created_at: datetime | None) -> bool:
        """Whether the queue of a scale set has told of this job of GitHub's under a number of ours, as far as can be known.

        By GitHub's number, where the assignment has one: then also of a job that ran. Else by its run, and by when it was made,
        because nothing is assigned before that; one that GitHub counts and has not named may be any. So it errs for jobs of one
        run that were made together, until the assignments of that run are over or have their numbers. Never by the job's name,
        which two services of GitHub's need not write alike.
        """
        earliest = datetime.min.replace(tzinfo=UTC) if created_at is None else created_at - _CLOCKS_APART
        params = {
            "job_id": job.job_id,
            "account_id": job.account_id,
            "pool": job.pool,
            "labels": [label.lower() for label in job.labels],
            "runs": [0, job.workflow_run_id],
            "created_at": earliest,
        }
        return bool(await self._database.value(MAY_BE, params))

    async def source_of(self, job_id: int) -> Source | None:
        """The source that announced the job."""
        return await self._database.row(Source, SOURCE_OF, [job_id])

    async def open(self, source: Source) -> list[OpenAssignment]:
        """The source's assignments whose job is not over, oldest first."""
        return await self._database.rows(OpenAssignment, OPEN, [source.source_id])

    async def unfinished(self) -> list[tuple[str, int, str]]:
        """Pool, account and repository of sources that have open jobs."""
        rows = await self._database.rows(_OpenSource, POOLS_OPEN)
        return [(row.pool, row.account_id, row.repository) for row in rows]

    async def count_open(self) -> dict[str, int]:
        """How many assignments of each pool's scale sets are not over; none for a pool where all are."""
        return {row.pool: row.jobs for row in await self._database.rows(_OpenCount, COUNT_OPEN)}

    async def oldest(self) -> dict[str, datetime]:
        """Since when the oldest assignment of each pool has waited for a runner; none for a pool where none waits."""
        return {row.pool: row.since for row in await self._database.rows(_Oldest, OLDEST)}
