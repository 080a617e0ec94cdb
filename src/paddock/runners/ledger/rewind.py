"""The ledger as it was at a moment of the past, read from the log that is only ever added to.

Exact for every job, claim and fence whose lines are still kept: nothing moves without a line, and a line is never changed.
How much is read grows with how much has ended since, so last night is cheap, and a year ago is refused by age.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from paddock.runners.ledger.database import Database, columns, fetch_all, fetch_one
from paddock.runners.ledger.rows import Transition

__all__ = ["FenceThen", "JobThen", "PoolThen", "Rewind", "Then"]

_RECORDED_LATE = timedelta(days=1)
"""A job's end may be recorded so long after GitHub's moment of it: until then it was open here."""

KEPT_SINCE = """
-- log_kept_since
SELECT at FROM transitions ORDER BY at LIMIT 1
"""
OPEN_THEN = """
-- open_then: whatever is open now or ended since, as its last line before that moment says
WITH candidates AS (
    SELECT job_id FROM completions WHERE completed_at > %(ended_after)s
    UNION SELECT job_id FROM jobs WHERE status = 'queued'
    UNION SELECT job_id FROM jobs WHERE status IN ('waiting', 'unserved')
    UNION SELECT job_id FROM jobs WHERE status = 'running'
    UNION SELECT job_id FROM claims WHERE job_id IS NOT NULL
), then_ AS (
    SELECT last.* FROM candidates CROSS JOIN LATERAL (
        SELECT t.* FROM transitions t WHERE t.job_id = candidates.job_id AND t.subject = 'job' AND t.at <= %(at)s
        ORDER BY t.transition_id DESC LIMIT 1) last
    WHERE last.became IN ('waiting', 'unserved', 'queued', 'claimed', 'running')
)"""
POOLS_THEN = """
SELECT j.pool, count(*) FILTER (WHERE t.became = 'queued')::integer AS queued,
       count(*) FILTER (WHERE t.became = 'claimed')::integer AS claimed,
       count(*) FILTER (WHERE t.became = 'running')::integer AS running,
       coalesce(extract(epoch FROM %(at)s - min(j.enqueued_at) FILTER (WHERE t.became = 'queued')), 0)::float8
           AS oldest_queued_seconds
FROM then_ t JOIN jobs j USING (job_id) GROUP BY j.pool ORDER BY j.pool
"""
JOBS_THEN = """
SELECT j.job_id, a.login, j.repository, j.workflow_name, j.job_name, j.pool, t.became AS state, t.at AS since, t.why,
       t.pod_uid, j.enqueued_at, j.status AS now, j.conclusion, j.completed_at
FROM then_ t JOIN jobs j USING (job_id) JOIN accounts a ON a.account_id = j.account_id
ORDER BY array_position(ARRAY['queued', 'unserved', 'waiting', 'claimed', 'running'], t.became), t.at, j.job_id LIMIT %(limit)s
"""
FENCES_THEN = """
-- fences_then: of those that stand now and those that were lifted since, what was raised before that moment
WITH known AS (
    SELECT pod_uid, generation FROM claims WHERE state = 'fenced'
    UNION SELECT pod_uid, generation FROM transitions WHERE subject = 'fence' AND became = 'lifted' AND at > %(at)s
)
SELECT t.pod_uid, t.pod_name, t.at AS since, t.by, t.why FROM known JOIN transitions t USING (pod_uid, generation)
WHERE t.subject = 'fence' AND t.became = 'fenced' AND t.at <= %(at)s ORDER BY t.at, t.transition_id LIMIT %(limit)s
"""
LINES_AROUND = f"""
-- lines_around: what was written down about that moment, oldest first
SELECT {columns(Transition)} FROM transitions WHERE at BETWEEN %(since)s AND %(until)s ORDER BY at, transition_id LIMIT %(limit)s
"""


class PoolThen(Struct, frozen=True, kw_only=True):
    """A pool's open jobs at that moment."""

    pool: str
    queued: int
    claimed: int
    running: int
    oldest_queued_seconds: float


class JobThen(Struct, frozen=True, kw_only=True):
    """A job that was open at that moment: its state then, since when and why; and what became of it."""

    job_id: int
    login: str
    repository: str
    workflow_name: str
    job_name: str
    pool: str
    state: str
    since: datetime
    why: str
    pod_uid: str | None
    enqueued_at: datetime
    now: str
    conclusion: str | None
    completed_at: datetime | None


class FenceThen(Struct, frozen=True, kw_only=True):
    """A Pod that was being retired at that moment."""

    pod_uid: str
    pod_name: str | None
    since: datetime
    by: str
    why: str


class Then(Struct, frozen=True, kw_only=True):
    """Everything that was open at `at`. `kept_since` is how far back the log goes; None while it is empty."""

    at: datetime
    kept_since: datetime | None
    pools: list[PoolThen]
    jobs: list[JobThen]
    fences: list[FenceThen]
    lines: list[Transition]


class Rewind:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def to(self, at: datetime, *, around: timedelta = timedelta(minutes=2), limit: int = 200) -> Then:
        """What was open at that moment, and the lines written `around` it; lists have at most `limit` items.

        One snapshot. LedgerUnavailableError also where too much has happened since to be read in three seconds.
        """
        params = {
            "at": at,
            "ended_after": at - _RECORDED_LATE,
            "since": at - around,
            "until": at + around,
            "limit": limit,
        }
        async with self._database.looking(snapshot=True) as connection:
            kept = await fetch_one(connection, _Kept, KEPT_SINCE)
            return Then(
                at=at,
                kept_since=None if kept is None else kept.at,
                pools=await fetch_all(connection, PoolThen, OPEN_THEN + POOLS_THEN, params),
                jobs=await fetch_all(connection, JobThen, OPEN_THEN + JOBS_THEN, params),
                fences=await fetch_all(connection, FenceThen, FENCES_THEN, params),
                lines=await fetch_all(connection, Transition, LINES_AROUND, params),
            )


class _Kept(Struct, frozen=True):
    at: datetime
