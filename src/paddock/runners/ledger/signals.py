"""What the autoscaler needs to know of a pool."""

from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database
from paddock.runners.ledger.runner_versions import RunnerVersions

__all__ = ["InLine", "PoolSignals", "Signals"]

_LONGEST_JOB = timedelta(hours=6)

SIGNALS = """
-- pool_signals: queued jobs count only as far as they are allowed and their repository and account may run them now;
-- those that rest after a failed mint are no load, because no Pod could take them
WITH waiting AS (
    SELECT j.account_id, j.platform, j.repository_id, j.repository, j.vcpus, j.memory_mb, j.enqueued_at,
           coalesce(j.not_before > %(now)s, false) OR EXISTS (
               SELECT FROM setbacks s WHERE s.account_id = j.account_id AND s.repository IN ('', j.repository)
                                        AND s.not_before > %(now)s) AS rests
    FROM jobs j WHERE j.status = 'queued' AND j.pool = %(pool)s AND j.enqueued_at > %(now)s - interval '7 days'
), repositories AS (
    SELECT account_id, platform, repository_id, repository, count(*) AS jobs, max(vcpus) AS vcpus, max(memory_mb) AS memory_mb,
           min(enqueued_at) AS oldest
    FROM waiting WHERE NOT rests GROUP BY account_id, platform, repository_id, repository
), line AS (
    SELECT r.account_id, r.platform, sum(r.jobs) AS raw, coalesce(sum(r.jobs) FILTER (WHERE NOT is_ok), 0) AS not_allowed,
           coalesce(sum(least(r.jobs, room.jobs)) FILTER (WHERE is_ok), 0) AS jobs, max(r.vcpus) AS vcpus,
           max(r.memory_mb) AS memory_mb, min(r.oldest) FILTER (WHERE is_ok AND room.jobs IS DISTINCT FROM 0) AS oldest
    FROM repositories r CROSS JOIN LATERAL is_allowed(r.account_id, r.repository_id, r.repository) is_ok
    LEFT JOIN LATERAL (SELECT greatest(0, least(own.vcpus / r.vcpus, own.memory_mb / r.memory_mb)) AS jobs
                       FROM repository_room(r.account_id, r.repository_id, r.platform) own) room ON true
    GROUP BY r.account_id, r.platform
), room AS (
    SELECT line.raw, line.not_allowed, line.jobs, line.oldest, greatest(0, least(
               (l.vcpus - coalesce(used.vcpus, 0)) / line.vcpus,
               (l.memory_mb - coalesce(used.memory_mb, 0)) / line.memory_mb)) AS headroom
    FROM line LEFT JOIN limits l USING (account_id, platform)
    LEFT JOIN LATERAL (SELECT sum(c.vcpus) AS vcpus, sum(c.memory_mb) AS memory_mb FROM claims c
                       WHERE c.limit_id = l.limit_id) used ON true
), queue AS (
    SELECT coalesce(sum(raw), 0)::integer AS raw, coalesce(sum(not_allowed), 0)::integer AS not_allowed,
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
), spans AS (
    -- of each session of the last hour, by the clock of its sixty minutes: the first that saw it, and the last
    SELECT greatest(0, ceil(extract(epoch FROM s.started_at - %(now)s) / 60 + 59))::integer AS first,
           least(59, ceil(extract(epoch FROM coalesce(s.ended_at, s.started_at + %(longest)s::interval) - %(now)s) / 60 + 59))::integer AS last
    FROM sessions s WHERE s.pool = %(pool)s AND s.started_at > %(now)s - %(longest)s::interval - interval '1 hour'
        AND s.started_at <= %(now)s AND coalesce(s.ended_at, s.started_at + %(longest)s::interval) > %(now)s - interval '1 hour'
), steps AS (
    SELECT first AS minute, count(*) AS more FROM spans GROUP BY first
    UNION ALL SELECT last + 1, -count(*) FROM spans GROUP BY last
), minutes AS (
    -- the non-empty minutes of the last hour, by how many sessions each saw: what came until then less what had ended, because to
    -- look at every session for every minute would cost sixty times as much
    SELECT sum(steps.more) AS sessions FROM generate_series(0, 59) AS hour (minute) JOIN steps ON steps.minute <= hour.minute
    GROUP BY hour.minute HAVING sum(steps.more) > 0
)
SELECT %(pool)s AS pool, held.claimed, greatest(held.claimed, occupying.pods) AS occupied, queue.queued,
       queue.raw - queue.queued - queue.not_allowed AS withheld,
       coalesce(extract(epoch FROM %(now)s - queue.oldest), 0)::float8 AS oldest_dispatchable_seconds,
       coalesce((SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY sessions) FROM minutes), 0)::integer
           AS p95_concurrent_last_hour,
       queue.not_allowed,
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
    -- of what may not run now there is no smallest, and so no room for it
    SELECT j.pool, j.account_id, j.platform, min(j.vcpus) FILTER (WHERE ok) AS vcpus,
           min(j.memory_mb) FILTER (WHERE ok) AS memory_mb, coalesce(min(j.oldest) FILTER (WHERE ok), min(j.oldest)) AS oldest
    FROM (
        SELECT j.pool, j.account_id, j.platform, j.repository_id, j.repository, min(j.vcpus) AS vcpus,
               min(j.memory_mb) AS memory_mb, min(j.enqueued_at) AS oldest
        FROM jobs j WHERE j.status = 'queued' AND j.enqueued_at > %(now)s - interval '7 days'
          AND NOT coalesce(j.not_before > %(now)s, false)
          AND NOT EXISTS (SELECT FROM setbacks s WHERE s.account_id = j.account_id AND s.repository IN ('', j.repository)
                                                   AND s.not_before > %(now)s)
        GROUP BY j.pool, j.account_id, j.platform, j.repository_id, j.repository
    ) j CROSS JOIN LATERAL (
        SELECT is_allowed(j.account_id, j.repository_id, j.repository) AND NOT EXISTS (
            SELECT FROM repository_room(j.account_id, j.repository_id, j.platform) own
            WHERE own.vcpus < j.vcpus OR own.memory_mb < j.memory_mb) AS ok
    ) judged
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
-- unserved_jobs: those that a dispatch label of ours brought; the others may be meant for runners of others
SELECT count(*)::integer FROM jobs WHERE status = 'unserved' AND label <> ''
"""


class InLine(Struct, frozen=True):
    """The jobs of one account that wait in one pool: since when the oldest does, and whether one may run now."""

    pool: str
    account_id: int
    platform: str
    oldest: datetime
    may_run: bool


class PoolSignals(Struct, frozen=True):
    """`queued` may run now, `withheld` is over a limit; `occupied` counts Pods that are still tearing down.

    No load at all: `not_allowed` is of nobody on the list, `resting` backs off after a failed mint, `held` waits for
    somebody's approval.
    """

    pool: str
    claimed: int
    occupied: int
    queued: int
    withheld: int
    oldest_dispatchable_seconds: float
    p95_concurrent_last_hour: int
    not_allowed: int = 0
    resting: int = 0
    held: int = 0
    unminted: int = 0
    executing: int = 0
    """Of the claims: not minted yet, and heard to execute a job; the others were handed a runner and wait."""
    too_old: int = 0
    too_old_since: datetime | None = None
    """Runners in a row that GitHub called too old for it, none of which got a job."""


class Signals:
    def __init__(self, database: Database, clock: Clock, versions: RunnerVersions) -> None:
        self._database = database
        self._clock = clock
        self._versions = versions

    async def of_pool(self, pool: str) -> PoolSignals:
        """The pool's load; zeros for one that the ledger does not know."""
        params = {"pool": pool, "now": self._clock.now(), "longest": _LONGEST_JOB}
        signals = await self._database.row(PoolSignals, SIGNALS, params)
        assert signals is not None  # aggregates without GROUP BY give one row
        refused = await self._versions.of_pool(pool)
        if refused is None:
            return signals
        return msgspec.structs.replace(signals, too_old=refused.pods, too_old_since=refused.since)

    async def unserved(self) -> int:
        """How many jobs that are meant for us carry labels that no pool offers; of the others, `rerouting.unsure`."""
        return await self._database.value(UNSERVED) or 0

    async def line(self) -> list[InLine]:
        """Everybody who waits, by pool and account."""
        return await self._database.rows(InLine, LINE, {"now": self._clock.now()})
