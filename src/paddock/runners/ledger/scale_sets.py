"""Scale sets in the ledger: who listens to which, what GitHub assigned, and how each source fares.

A source is a pool and an account (or repository). Its lease belongs to a dispatcher that beats; taking it raises the epoch,
and every later write about the source names it. Assignments are written without one: they are GitHub's facts, and repeatable.
"""

import random
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.errors import LedgerError
from paddock.runners.ledger.views import JobSourceView

__all__ = [
    "FIRST_JOB_ID",
    "AssignedJob",
    "Assignment",
    "LeaseLostError",
    "Listenable",
    "Room",
    "ScaleSetRows",
    "Source",
    "SourceState",
    "is_scale_set_job",
]

FIRST_JOB_ID: Final = 4_503_599_627_370_496
"""From here on numbers of jobs are ours: 2^52, far above GitHub's, and exact in every reader of JSON."""

SourceState = Literal["Starting", "Listening", "Conflict", "Lost", "Refused", "Stopped"]


def is_scale_set_job(job_id: int | None) -> bool:
    """Whether the number is one of ours, which GitHub does not know."""
    return job_id is not None and job_id >= FIRST_JOB_ID


class LeaseLostError(LedgerError):
    """Another dispatcher listens to this source now: stop, and touch nothing more of it."""


class Source(Struct, frozen=True, kw_only=True):
    """A source as it was read. `epoch` is the lease's: every write names it."""

    source_id: int
    pool: str
    account_id: int
    repository: str
    scale_set_id: int | None
    session_id: str
    epoch: int
    dispatcher_id: int | None
    state: str
    sentence: str
    since: datetime
    heard_at: datetime | None
    assigned: int
    running: int
    advertised: int


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


class Room(Struct, frozen=True, kw_only=True):
    """What an account may hold on a platform, what of it other pools hold, and how many others want the pool's Pods."""

    vcpus: int
    memory_mb: int
    elsewhere_vcpus: int
    elsewhere_memory_mb: int
    rivals: int


OWNER = """
-- scale_set_owner: the first to say so is right for good
WITH new AS (INSERT INTO scale_set_owner (owner) VALUES (%(owner)s) ON CONFLICT DO NOTHING RETURNING owner)
SELECT owner FROM new UNION ALL SELECT owner FROM scale_set_owner LIMIT 1
"""
KNOWN = """
-- know_source
INSERT INTO scale_set_sources (pool, account_id, repository, since)
VALUES (%(pool)s, %(account_id)s, %(repository)s, %(now)s) ON CONFLICT DO NOTHING
"""
TAKE = f"""
-- take_source: free, or its holder is silent. The epoch makes every write of the holder before us void.
UPDATE scale_set_sources s SET epoch = epoch + 1, dispatcher_id = %(dispatcher)s
WHERE pool = %(pool)s AND account_id = %(account_id)s AND repository = %(repository)s
  AND (dispatcher_id IS NULL OR dispatcher_id = %(dispatcher)s OR NOT EXISTS (
      SELECT FROM dispatchers d WHERE d.dispatcher_id = s.dispatcher_id AND d.seen_at >= %(silent_since)s))
RETURNING {columns(Source)}
"""
NOTE = """
-- note_source: only under the lease; `since` is when the state began
UPDATE scale_set_sources SET
    since = CASE WHEN state = %(state)s THEN since ELSE %(now)s END, state = %(state)s, sentence = %(sentence)s,
    heard_at = CASE WHEN %(heard)s THEN %(now)s ELSE heard_at END, advertised = coalesce(%(advertised)s, advertised),
    assigned = coalesce(%(assigned)s, assigned), running = coalesce(%(running)s, running)
WHERE source_id = %(source_id)s AND epoch = %(epoch)s
"""
RECORD = """
-- record_source: the set's number and the session, only under the lease
UPDATE scale_set_sources SET scale_set_id = %(scale_set_id)s, session_id = %(session_id)s
WHERE source_id = %(source_id)s AND epoch = %(epoch)s
"""
GIVE_BACK = """
-- give_back_source
UPDATE scale_set_sources SET dispatcher_id = NULL, session_id = '' WHERE source_id = %(source_id)s AND epoch = %(epoch)s
"""
SOURCES = f"""
-- sources
SELECT {columns(Source)} FROM scale_set_sources ORDER BY pool, account_id, repository
"""
VIEWS = """
-- job_source_views
SELECT s.pool, a.login, s.repository, s.state, s.sentence, s.since, s.heard_at, s.assigned, s.advertised
FROM scale_set_sources s JOIN accounts a USING (account_id) WHERE s.state <> 'Stopped' ORDER BY s.pool, a.login, s.repository
"""
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
-- assignment_of_run: the newest that is not over, where the moment of assignment was not told
SELECT assignment FROM scale_set_jobs
WHERE source_id = %s AND workflow_run_id = %s AND job_guid = %s AND finished_at IS NULL
ORDER BY assigned_at DESC LIMIT 1
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
SOURCE_OF = f"""
-- source_of_job
SELECT {columns(Source, "s.")} FROM scale_set_sources s JOIN scale_set_jobs j USING (source_id) WHERE j.job_id = %s
"""
OPEN = f"""
-- open_assignments: those whose job is not over, oldest first
SELECT {columns(AssignedJob, "a.")} FROM scale_set_jobs a JOIN jobs j USING (job_id)
WHERE a.source_id = %s AND j.status IN ('queued', 'claimed', 'running') ORDER BY a.assigned_at, a.job_id
"""
POOLS_OPEN = """
-- pools_with_open_assignments
SELECT DISTINCT j.pool, j.account_id, s.repository FROM scale_set_jobs a JOIN jobs j USING (job_id)
JOIN scale_set_sources s USING (source_id) WHERE j.status IN ('queued', 'claimed', 'running')
"""
ROOM = """
-- room_of_source
SELECT l.vcpus, l.memory_mb,
    coalesce(sum(c.vcpus) FILTER (WHERE c.pool <> %(pool)s), 0)::integer AS elsewhere_vcpus,
    coalesce(sum(c.memory_mb) FILTER (WHERE c.pool <> %(pool)s), 0)::integer AS elsewhere_memory_mb,
    (SELECT count(*) FROM scale_set_sources s
     WHERE s.pool = %(pool)s AND s.source_id <> %(source_id)s AND s.assigned > 0)::integer AS rivals
FROM limits l LEFT JOIN claims c ON c.limit_id = l.limit_id
WHERE l.account_id = %(account_id)s AND l.platform = %(platform)s GROUP BY l.vcpus, l.memory_mb
"""
QUARANTINE = """
-- quarantine_entry
INSERT INTO scale_set_messages (source_id, digest, message_id, at, why, body)
VALUES (%(source_id)s, %(digest)s, %(message_id)s, %(now)s, %(why)s, %(body)s) ON CONFLICT DO NOTHING
"""
FORGET = """
-- forget_entries: what was set aside long ago; a bounded bite
DELETE FROM scale_set_messages WHERE (source_id, digest) IN (
    SELECT source_id, digest FROM scale_set_messages WHERE at < %s ORDER BY at LIMIT %s)
"""
ALLOWED = """
-- accounts_that_may_listen: installed, and named on the list, themselves or with a repository
SELECT a.account_id, a.login, a.installation_id,
    bool_and(e.allowed) AND bool_or(e.repository_id = 0) AS whole,
    coalesce(array_agg(e.name ORDER BY e.name) FILTER (WHERE e.repository_id <> 0 AND e.allowed), '{}') AS repositories
FROM accounts a JOIN allow_list e USING (account_id)
WHERE a.installation_id IS NOT NULL
GROUP BY a.account_id, a.login, a.installation_id HAVING bool_or(e.allowed) ORDER BY a.account_id
"""


class Listenable(Struct, frozen=True):
    """An account that may run jobs: wholly, without an exception, or with these repositories ("owner/name") alone."""

    account_id: int
    login: str
    installation_id: int
    whole: bool = True
    repositories: list[str] = []


class _OpenSource(Struct, frozen=True):
    pool: str
    account_id: int
    repository: str


class ScaleSetRows:
    def __init__(self, database: Database, clock: Clock, rng: random.Random) -> None:
        self._database = database
        self._clock = clock
        self._rng = rng

    # Sources

    async def owner(self) -> str:
        """The name of this ledger, drawn once, by which sets that it made are known again."""
        return await self._database.value(OWNER, {"owner": new_uuid(self._rng)})

    async def take(
        self, pool: str, account_id: int, repository: str, *, dispatcher: int, silent_since: datetime
    ) -> Source | None:
        """The lease on a source, with a new epoch; None while a dispatcher that beats has it."""
        key = {"pool": pool, "account_id": account_id, "repository": repository}
        await self._database.run(KNOWN, {**key, "now": self._clock.now()})
        return await self._database.row(Source, TAKE, {**key, "dispatcher": dispatcher, "silent_since": silent_since})

    async def note(
        self,
        source: Source,
        state: SourceState,
        sentence: str = "",
        *,
        heard: bool = False,
        advertised: int | None = None,
        assigned: int | None = None,
        running: int | None = None,
    ) -> None:
        """How the source fares. LeaseLostError if it is another's now."""
        values = {
            "state": state,
            "sentence": sentence[:1000],
            "heard": heard,
            "advertised": advertised,
            "assigned": assigned,
            "running": running,
            "now": self._clock.now(),
            "source_id": source.source_id,
            "epoch": source.epoch,
        }
        if await self._database.run(NOTE, values) == 0:
            raise _lost(source)

    async def record(self, source: Source, *, scale_set_id: int | None, session_id: str) -> None:
        """The set's number and the session that stands, so that whoever comes next can close it. LeaseLostError."""
        values = {"source_id": source.source_id, "epoch": source.epoch}
        values |= {"scale_set_id": scale_set_id, "session_id": session_id}
        if await self._database.run(RECORD, values) == 0:
            raise _lost(source)

    async def give_back(self, source: Source) -> None:
        """The source is free for others at once; nothing happens if it is another's already."""
        await self._database.run(GIVE_BACK, {"source_id": source.source_id, "epoch": source.epoch})

    async def sources(self) -> list[Source]:
        return await self._database.rows(Source, SOURCES)

    async def views(self) -> list[JobSourceView]:
        """Every source that is to be listened to, as people are shown it."""
        return await self._database.rows(JobSourceView, VIEWS)

    async def listenable(self) -> list[Listenable]:
        """Accounts with the App installed that may run jobs, wholly or with some repository."""
        return await self._database.rows(Listenable, ALLOWED)

    async def unfinished(self) -> list[tuple[str, int, str]]:
        """Pool, account and repository of sources that have open jobs."""
        rows = await self._database.rows(_OpenSource, POOLS_OPEN)
        return [(row.pool, row.account_id, row.repository) for row in rows]

    async def room(self, source: Source, platform: str) -> Room | None:
        """What the account may hold and what it holds elsewhere; None for one without a limit."""
        params = {"pool": source.pool, "source_id": source.source_id, "account_id": source.account_id}
        return await self._database.row(Room, ROOM, {**params, "platform": platform})

    # Assignments

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

    async def newest_of_run(self, source: Source, workflow_run_id: int, job_guid: str) -> str | None:
        """The key of the job's newest assignment that is not over."""
        return await self._database.value(OF_RUN, [source.source_id, workflow_run_id, job_guid])

    async def started(self, job_id: int, runner_name: str, at: datetime) -> None:
        await self._database.run(STARTED, {"job_id": job_id, "runner_name": runner_name, "at": at})

    async def finished(self, job_id: int, result: str, at: datetime, runner_name: str | None) -> None:
        params = {"job_id": job_id, "result": result, "at": at, "runner_name": runner_name}
        await self._database.run(FINISHED_, params)

    async def numbered(self, job_id: int, forge_job_id: int) -> None:
        await self._database.run(FORGE_ID, {"job_id": job_id, "forge_job_id": forge_job_id})

    async def job(self, job_id: int) -> AssignedJob | None:
        return await self._database.row(AssignedJob, JOB, [job_id])

    async def source_of(self, job_id: int) -> Source | None:
        """The source that announced the job."""
        return await self._database.row(Source, SOURCE_OF, [job_id])

    async def open(self, source: Source) -> list[AssignedJob]:
        """The source's assignments whose job is not over, oldest first."""
        return await self._database.rows(AssignedJob, OPEN, [source.source_id])

    async def quarantine(self, source: Source, *, message_id: int, digest: str, why: str, body: str) -> None:
        """Keep an entry that could not be read or written. Repeatable."""
        params = {"source_id": source.source_id, "digest": digest, "message_id": message_id, "why": why[:1000]}
        await self._database.run(QUARANTINE, {**params, "now": self._clock.now(), "body": body[:65_536]})

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop entries that were set aside before that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])


def _lost(source: Source) -> LeaseLostError:
    return LeaseLostError(f"the lease on scale set source {source.source_id} (epoch {source.epoch}) is another's")
