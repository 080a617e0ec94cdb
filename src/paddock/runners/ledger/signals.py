"""What the autoscaler needs to know of a pool."""

from datetime import datetime, timedelta

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database

__all__ = ["InLine", "PoolSignals", "Signals"]

_LONGEST_JOB = timedelta(hours=6)

SIGNALS = """
-- pool_signals: queued jobs count only as far as their account may run them now; those that rest after a failed mint are no
-- load, because no Pod could take them
WITH waiting AS (
    SELECT j.account_id, j.platform, j.vcpus, j.memory_mb, j.enqueued_at,
           coalesce(j.not_before > %(now)s, false) OR EXISTS (
               SELECT FROM setbacks s WHERE s.account_id = j.account_id AND s.repository IN ('', j.repository)
                                        AND s.not_before > %(now)s) AS rests
    FROM jobs j WHERE j.status = 'queued' AND j.pool = %(pool)s AND j.enqueued_at > %(now)s - interval '7 days'
), line AS (
    SELECT account_id, platform, count(*) AS jobs, max(vcpus) AS vcpus, max(memory_mb) AS memory_mb,
           min(enqueued_at) AS oldest
    FROM waiting WHERE NOT rests GROUP BY account_id, platform
), room AS (
    SELECT line.jobs, line.oldest, greatest(0, least(
               (l.vcpus - coalesce(used.vcpus, 0)) / line.vcpus,
               (l.memory_mb - coalesce(used.memory_mb, 0)) / line.memory_mb)) AS headroom
    FROM line LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
), queue AS (
    SELECT coalesce(sum(jobs), 0)::integer AS raw,
           coalesce(sum(least(jobs, coalesce(headroom, 0))), 0)::integer AS queued,
           min(oldest) FILTER (WHERE headroom > 0) AS oldest
    FROM room
), held AS (
    SELECT count(*)::integer AS claimed FROM claims WHERE pool = %(pool)s
), occupying AS (
    SELECT count(*)::integer AS pods FROM (
        SELECT pod_uid FROM claims WHERE pool = %(pool)s
        UNION SELECT pod_uid FROM sessions
        WHERE pool = %(pool)s AND ended_at IS NULL AND started_at > %(now)s - %(longest)s::interval
    ) pods
), minutes AS (
    -- the non-empty minutes of the last hour, by how many sessions each saw
    SELECT count(*) AS sessions
    FROM generate_series(%(now)s - interval '59 minutes', %(now)s, interval '1 minute') AS minute
    JOIN sessions s ON s.pool = %(pool)s AND s.started_at > %(now)s - %(longest)s::interval - interval '1 hour'
        AND s.started_at <= minute AND coalesce(s.ended_at, s.started_at + %(longest)s::interval) > minute - interval '1 minute'
    GROUP BY minute
)
SELECT %(pool)s AS pool, held.claimed, greatest(held.claimed, occupying.pods) AS occupied, queue.queued,
       queue.raw - queue.queued AS withheld,
       coalesce(extract(epoch FROM %(now)s - queue.oldest), 0)::float8 AS oldest_dispatchable_seconds,
       coalesce((SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY sessions) FROM minutes), 0)::integer
           AS p95_concurrent_last_hour,
       (SELECT count(*) FROM claims WHERE pool = %(pool)s AND state = 'claimed')::integer AS unminted,
       (SELECT count(*) FROM claims WHERE pool = %(pool)s AND state = 'running' AND executing_since IS NOT NULL)::integer
           AS executing,
       (SELECT count(*) FROM waiting WHERE rests)::integer AS resting,
       (SELECT count(*) FROM jobs WHERE status = 'waiting' AND pool = %(pool)s)::integer AS held
FROM queue, held, occupying
"""


LINE = """
-- line_by_account: who waits where, since when, and whether the next of them may run now
WITH line AS (
    SELECT j.pool, j.account_id, j.platform, min(j.vcpus) AS vcpus, min(j.memory_mb) AS memory_mb,
           min(j.enqueued_at) AS oldest
    FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > %(now)s - interval '7 days'
      AND NOT coalesce(j.not_before > %(now)s, false)
      AND NOT EXISTS (SELECT FROM setbacks s WHERE s.account_id = j.account_id AND s.repository IN ('', j.repository)
                                               AND s.not_before > %(now)s)
    GROUP BY j.pool, j.account_id, j.platform
)
SELECT line.pool, line.account_id, line.platform, line.oldest,
       coalesce(coalesce(used.vcpus, 0) + line.vcpus <= l.vcpus
                AND coalesce(used.memory_mb, 0) + line.memory_mb <= l.memory_mb, false) AS may_run
FROM line LEFT JOIN limits l USING (account_id, platform)
LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                   WHERE c.limit_id = l.limit_id) used ON true
"""


UNSERVED = """
-- unserved_jobs
SELECT count(*)::integer FROM jobs WHERE status = 'unserved'
"""


class InLine(Struct, frozen=True):
    """The jobs of one account that wait in one pool: since when the oldest does, and whether one may run now."""

    pool: str
    account_id: int
    platform: str
    oldest: datetime
    may_run: bool


class PoolSignals(Struct, frozen=True):
    """`queued` may run now, `withheld` is over its account's limit; `occupied` counts Pods that are still tearing down.

    No load at all: `resting` backs off after a failed mint, `held` waits for somebody's approval.
    """

    pool: str
    claimed: int
    occupied: int
    queued: int
    withheld: int
    oldest_dispatchable_seconds: float
    p95_concurrent_last_hour: int
    resting: int = 0
    held: int = 0
    unminted: int = 0
    executing: int = 0
    """Of the claims: not minted yet, and heard to execute a job; the others were handed a runner and wait."""


class Signals:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def of_pool(self, pool: str) -> PoolSignals:
        """The pool's load; zeros for one that the ledger does not know."""
        params = {"pool": pool, "now": self._clock.now(), "longest": _LONGEST_JOB}
        signals = await self._database.row(PoolSignals, SIGNALS, params)
        assert signals is not None  # aggregates without GROUP BY give one row
        return signals

    async def unserved(self) -> int:
        """How many jobs carry labels that no pool offers."""
        return await self._database.value(UNSERVED) or 0

    async def line(self) -> list[InLine]:
        """Everybody who waits, by pool and account."""
        return await self._database.rows(InLine, LINE, {"now": self._clock.now()})
