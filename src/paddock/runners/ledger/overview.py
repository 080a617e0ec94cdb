"""What people ask of the ledger: how long is the line, why does this job wait, what runs, what ran, how long it took.

Read only, in transactions that say so, each cut off after three seconds: whoever looks never holds up whoever dispatches.
Every statement is bounded by what waits and runs now, or by a number of rows at the young end of an index; none reads the
history from end to end.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from paddock.base.clock import Clock
from paddock.base.metrics import ALLOWED_KILLS
from paddock.runners.ledger.database import Connection, Database, columns, fetch_all, fetch_one
from paddock.runners.ledger.ended_jobs import NEWEST
from paddock.runners.ledger.rows import Session
from paddock.runners.ledger.views import (
    AccountView,
    FinishedJob,
    QueueSummary,
    RunningJob,
    Stage,
    Waiting,
    WaitingJob,
    explain,
)
from paddock.runners.ledger.waiting_load import WaitingLoad, read_waiting_load

__all__ = ["LARGEST_PAGE", "Overview"]

LARGEST_PAGE: Final = 1000
_SAMPLES = 10_000
_STAGES = ("queued_to_claimed", "claimed_to_running", "running_to_started", "total")

SUMMARY = """
-- summary: all that is no part of the line
SELECT (SELECT count(*) FROM claims WHERE state = 'claimed')::integer AS claimed,
       (SELECT count(*) FROM jobs WHERE status = 'running')::integer AS running,
       (SELECT count(*) FROM sessions WHERE ended_at IS NULL)::integer AS sessions_open,
       (SELECT count(*) FROM completions
        WHERE completed_at > %(now)s - interval '1 hour' AND conclusion <> 'elsewhere')::integer AS completed_last_hour,
       (SELECT count(*) FROM jobs WHERE status = 'waiting')::integer AS held,
       (SELECT count(*) FROM jobs WHERE status = 'unserved' AND label <> '')::integer AS unserved,
       coalesce((SELECT changed_why FROM jobs WHERE status = 'unserved' AND label <> '' ORDER BY changed_at, job_id LIMIT 1), '')
           AS unserved_why,
       (SELECT min(changed_at) FROM jobs WHERE status = 'unserved' AND label <> '') AS unserved_since,
       (SELECT count(*) FROM jobs WHERE status = 'unserved' AND label = '')::integer AS unsure,
       coalesce((SELECT changed_why FROM jobs WHERE status = 'unserved' AND label = '' ORDER BY changed_at, job_id LIMIT 1), '')
           AS unsure_why,
       coalesce((SELECT s.why FROM setbacks s WHERE s.not_before > %(now)s ORDER BY s.not_before DESC LIMIT 1), '')
           AS resting_why,
       (SELECT count(*) FROM kills WHERE at > %(now)s - interval '1 day')::integer AS killed_last_day,
       (SELECT count(*) FROM kills WHERE at > %(now)s - interval '1 day' AND path = ANY(%(allowed)s))::integer
           AS forced_last_day,
       (SELECT min(at) FROM kills WHERE at > %(now)s - interval '1 day' AND NOT path = ANY(%(allowed)s)) AS killed_since
"""
IN_LINE = """
-- in_line: the jobs that have waited longest, and as many of those that are outside of the line
WITH line AS (
    (SELECT * FROM jobs WHERE status = 'queued' ORDER BY enqueued_at, job_id LIMIT %(limit)s)
    UNION ALL
    (SELECT * FROM jobs WHERE status IN ('waiting', 'unserved') ORDER BY enqueued_at, job_id LIMIT %(limit)s)
)"""
THE_JOB = """
-- the_job: one job, if it waits
WITH line AS (
    SELECT * FROM jobs WHERE job_id = %(job_id)s AND status IN ('waiting', 'unserved', 'queued')
)"""
WHY_IT_WAITS = """
-- why_it_waits: each waiting job beside everything that may hold it up; its place is the one that claiming would give it
, places AS (
    SELECT of_pool.pool, place.job_id, place.number::integer AS number, count(*) OVER (PARTITION BY of_pool.pool) AS ranked
    FROM (SELECT DISTINCT pool FROM line) of_pool
    CROSS JOIN LATERAL unnest(next_jobs(of_pool.pool, %(deep)s, %(now)s, '{}')) WITH ORDINALITY AS place (job_id, number)
), highest AS (
    SELECT places.pool, max(coalesce(own.priority, its.priority, 0)) AS priority
    FROM places JOIN jobs j USING (job_id)
    LEFT JOIN precedence its ON its.account_id = j.account_id AND its.repository_id = 0
    LEFT JOIN precedence own ON own.account_id = j.account_id AND own.repository_id = j.repository_id AND j.repository_id <> 0
    WHERE EXISTS (SELECT FROM precedence) GROUP BY places.pool
)
SELECT line.job_id, line.account_id, a.login, line.repository, line.workflow_name, line.job_name, line.pool,
       line.platform, line.label, line.labels, line.status, line.vcpus, line.memory_mb, line.enqueued_at, line.changed_at,
       line.mint_failures, line.not_before,
       line.changed_why, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
       coalesce(used.vcpus, 0)::integer AS used_vcpus, coalesce(used.memory_mb, 0)::integer AS used_memory_mb,
       setback.repository AS setback_repository, setback.not_before AS setback_until, setback.why AS setback_why,
       places.number AS position,
       coalesce((SELECT max(p.ranked) FROM places p WHERE p.pool = line.pool), 0)::integer AS ranked,
       is_allowed(line.account_id, line.repository_id, line.repository) AS allowed,
       own.vcpus::integer AS room_vcpus, own.memory_mb::integer AS room_memory_mb,
       coalesce(of_account.weight, 1) AS weight, coalesce(of_repository.priority, of_account.priority, 0) AS priority,
       coalesce(highest.priority, 0) AS highest_priority
FROM line JOIN accounts a USING (account_id)
LEFT JOIN limits l ON l.account_id = line.account_id AND l.platform = line.platform
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE c.limit_id = l.limit_id) used ON true
LEFT JOIN LATERAL (SELECT s.repository, s.not_before, s.why FROM setbacks s
                   WHERE s.account_id = line.account_id AND s.repository IN ('', line.repository)
                     AND s.not_before > %(now)s ORDER BY s.not_before DESC LIMIT 1) setback ON true
LEFT JOIN LATERAL repository_room(line.account_id, line.repository_id, line.platform) own ON true
LEFT JOIN places ON places.pool = line.pool AND places.job_id = line.job_id
LEFT JOIN highest ON highest.pool = line.pool
LEFT JOIN precedence of_account ON of_account.account_id = line.account_id AND of_account.repository_id = 0
LEFT JOIN precedence of_repository ON of_repository.account_id = line.account_id AND line.repository_id <> 0
                                  AND of_repository.repository_id = line.repository_id
ORDER BY line.enqueued_at, line.job_id
"""
RUNNING = """
-- running_for_people: longest first
SELECT j.job_id, j.account_id, a.login, j.repository, j.workflow_name, j.job_name, j.pool, j.platform, j.enqueued_at,
       j.claimed_at, j.started_at, c.executing_since, j.pod_uid, j.pod_name, j.runner_name
FROM jobs j JOIN accounts a USING (account_id) LEFT JOIN claims c ON c.job_id = j.job_id
WHERE j.status = 'running' AND j.started_at IS NOT NULL ORDER BY j.started_at, j.job_id LIMIT %(limit)s
"""
LATENCY = """
-- latency: jobs that ended in the window or run since, at most so many; a runner's own session says when GitHub started it
WITH concerned AS (
    (SELECT job_id FROM completions WHERE completed_at > %(since)s AND conclusion <> 'elsewhere'
     ORDER BY completed_at DESC LIMIT %(samples)s)
    UNION
    (SELECT job_id FROM jobs WHERE status = 'running' AND started_at > %(since)s ORDER BY started_at DESC LIMIT %(samples)s)
), spans AS (
    -- A job that was never claimed itself, because another's runner took it, has only a total.
    SELECT j.claimed_at - j.enqueued_at AS queued, j.started_at - j.claimed_at AS served,
           CASE WHEN j.claimed_at IS NOT NULL THEN s.job_started_at - j.started_at END AS taken_up,
           s.job_started_at - j.enqueued_at AS total
    FROM concerned JOIN jobs j USING (job_id) LEFT JOIN sessions s
         ON s.account_id = j.account_id AND s.runner_name = j.runner_name AND s.executed_job_id = j.job_id
), seconds AS (
    -- GitHub counts in whole seconds, so that its moments may lie a little before ours.
    SELECT stage.name, greatest(0, extract(epoch FROM stage.span))::float8 AS seconds
    FROM spans CROSS JOIN LATERAL (VALUES ('queued_to_claimed', queued), ('claimed_to_running', served),
                                          ('running_to_started', taken_up), ('total', total)) AS stage (name, span)
    WHERE stage.span IS NOT NULL
)
SELECT name, count(*)::integer AS count, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
       percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95,
       percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) AS p99
FROM seconds GROUP BY name
"""
ACCOUNTS = """
-- accounts_for_people: whoever holds or waits for something first
WITH waiting AS (
    SELECT account_id, platform, count(*) AS jobs FROM jobs WHERE status = 'queued' GROUP BY account_id, platform
)
SELECT a.account_id, a.login, a.installation_id, l.platform, l.vcpus AS limit_vcpus, l.memory_mb AS limit_memory_mb,
       coalesce(used.vcpus, 0)::integer AS used_vcpus, coalesce(used.memory_mb, 0)::integer AS used_memory_mb,
       coalesce(used.claims, 0)::integer AS claims, coalesce(waiting.jobs, 0)::integer AS queued,
       coalesce((SELECT CASE WHEN bool_or(e.allowed) FILTER (WHERE e.repository_id = 0) THEN 'allowed'
                             WHEN bool_or(e.allowed) THEN 'some' WHEN count(*) > 0 THEN 'denied' END
                 FROM allow_list e WHERE e.account_id = a.account_id), '') AS listed
FROM limits l JOIN accounts a USING (account_id)
LEFT JOIN (SELECT limit_id, sum(vcpus) AS vcpus, sum(memory_mb) AS memory_mb, count(*) AS claims FROM claims
           WHERE limit_id IS NOT NULL GROUP BY limit_id) used USING (limit_id)
LEFT JOIN waiting USING (account_id, platform)
ORDER BY coalesce(used.vcpus, 0)::float8 / l.vcpus DESC, coalesce(waiting.jobs, 0) DESC, a.login, l.platform LIMIT %(limit)s
"""
RUNNER = f"""
-- session_of_runner: a name is given to one mint only, so within its account it means one Pod
SELECT {columns(Session)} FROM sessions WHERE account_id = %s AND runner_name = %s ORDER BY started_at DESC LIMIT 1
"""


class _BesideTheLine(Struct, frozen=True):
    claimed: int
    running: int
    sessions_open: int
    completed_last_hour: int
    held: int
    unserved: int
    unserved_why: str
    unserved_since: datetime | None
    unsure: int
    unsure_why: str
    resting_why: str
    killed_last_day: int
    forced_last_day: int
    killed_since: datetime | None


class Overview:
    """`limit` is at most LARGEST_PAGE everywhere. LedgerUnavailableError also where an answer took too long."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def summary(self) -> QueueSummary:
        """The state of everything in one line."""
        summary, _ = await self.summary_and_line()
        return summary

    async def summary_and_line(self) -> tuple[QueueSummary, WaitingLoad]:
        """The same beside the line that it sums up, both of one moment."""
        now = self._clock.now()
        async with self._database.looking(snapshot=True) as connection:
            load = await read_waiting_load(connection, now)
            asked = {"now": now, "allowed": list(ALLOWED_KILLS)}
            beside = await fetch_one(connection, _BesideTheLine, SUMMARY, asked)
        assert beside is not None  # a SELECT without FROM gives one row
        total = load.total()
        waiting = {pool: one for pool, one in load.pools.items() if one.dispatchable}
        summary = QueueSummary(
            **asdict(beside),
            oldest_dispatchable_seconds=total.waited(now),
            dispatchable=total.dispatchable,
            withheld=total.withheld,
            resting=total.resting,
            resting_since=total.resting_since,
            not_allowed=total.not_allowed,
            dispatchable_by_pool={pool: one.dispatchable for pool, one in waiting.items()},
            oldest_by_pool={pool: one.waited(now) for pool, one in waiting.items()},
        )
        return summary, load

    async def queue(self, limit: int = 100) -> list[WaitingJob]:
        """The jobs that have waited longest, each with the reason why it still waits."""
        now, limit = self._clock.now(), _page(limit)
        async with self._database.looking(snapshot=True) as connection:
            load = await read_waiting_load(connection, now)
            params = {"now": now, "limit": limit, "deep": limit}
            waiting = await fetch_all(connection, Waiting, IN_LINE + WHY_IT_WAITS, params)
        return [explain(one, now, ranked_at_most=limit, dispatchable=load.dispatchable) for one in waiting]

    async def waiting(self, job_id: int) -> WaitingJob | None:
        """Why this job waits; None if it does not."""
        now = self._clock.now()
        async with self._database.looking(snapshot=True) as connection:
            params = {"now": now, "job_id": job_id, "deep": LARGEST_PAGE}
            one = await fetch_one(connection, Waiting, THE_JOB + WHY_IT_WAITS, params)
            if one is None:
                return None
            load = await read_waiting_load(connection, now)
        return explain(one, now, ranked_at_most=LARGEST_PAGE, dispatchable=load.dispatchable)

    async def running(self, limit: int = 100) -> list[RunningJob]:
        """The jobs that run, longest first."""
        async with self._looking() as connection:
            return await fetch_all(connection, RunningJob, RUNNING, {"limit": _page(limit)})

    async def recent(self, limit: int = 100) -> list[FinishedJob]:
        """The jobs that ended last, latest first."""
        async with self._looking() as connection:
            return await fetch_all(connection, FinishedJob, NEWEST, {"limit": _page(limit), "now": self._clock.now()})

    async def latency(self, window: timedelta = timedelta(hours=1)) -> list[Stage]:
        """How long each stage took for jobs of the last `window`, newest ten thousand; every stage is there."""
        async with self._looking() as connection:
            params = {"since": self._clock.now() - window, "samples": _SAMPLES}
            seen = {stage.name: stage for stage in await fetch_all(connection, Stage, LATENCY, params)}
        return [seen.get(name, Stage(name, 0, None, None, None)) for name in _STAGES]

    async def accounts(self, limit: int = LARGEST_PAGE) -> list[AccountView]:
        """What each account holds beside what it may hold, fullest first."""
        async with self._looking() as connection:
            return await fetch_all(connection, AccountView, ACCOUNTS, {"limit": _page(limit)})

    async def runner(self, account_id: int, runner_name: str) -> Session | None:
        """The session of the Pod that was handed the runner of that name."""
        return await self._database.row(Session, RUNNER, [account_id, runner_name])

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[Connection]:
        async with self._database.looking() as connection:
            yield connection


def _page(limit: int) -> int:
    return max(1, min(limit, LARGEST_PAGE))
