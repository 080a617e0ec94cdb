"""What the autoscaler needs to know of a pool."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec
from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Connection, Database, fetch_one
from paddock.runners.ledger.runner_versions import RunnerVersions
from paddock.runners.ledger.waiting_load import PoolLoad, WaitingLoad, read_waiting_load

__all__ = ["PoolSignals", "Signals"]

_LONGEST_JOB = timedelta(hours=6)
_SECONDS = 10
"""The operator waits no longer for a pool's load."""

SIGNALS = """
-- pool_signals: what the pool's Pods do now, and did in the last hour
WITH held AS (
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
SELECT %(pool)s AS pool, held.claimed, greatest(held.claimed, occupying.pods) AS occupied,
       coalesce((SELECT percentile_disc(0.95) WITHIN GROUP (ORDER BY sessions) FROM minutes), 0)::integer
           AS p95_concurrent_last_hour,
       (SELECT count(*) FROM claims WHERE pool = %(pool)s AND state = 'claimed')::integer AS unminted,
       (SELECT count(*) FROM claims WHERE pool = %(pool)s AND state = 'running' AND executing_since IS NOT NULL)::integer
           AS executing,
       (SELECT count(*) FROM jobs WHERE status = 'waiting' AND pool = %(pool)s)::integer AS held
FROM held, occupying
"""


UNSERVED = """
-- unserved_jobs: those that a dispatch label of ours brought; the others may be meant for runners of others
SELECT count(*)::integer FROM jobs WHERE status = 'unserved' AND label <> ''
"""


class PoolSignals(Struct, frozen=True):
    """`queued` may run now, together with what may run in other pools; `withheld` is over a limit, and the room of its account
    goes to the others; `occupied` counts Pods that are still tearing down.

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


class _Pods(Struct, frozen=True):
    pool: str
    claimed: int
    occupied: int
    p95_concurrent_last_hour: int
    unminted: int
    executing: int
    held: int


class Signals:
    def __init__(self, database: Database, clock: Clock, versions: RunnerVersions) -> None:
        self._database = database
        self._clock = clock
        self._versions = versions

    async def of_pool(self, pool: str) -> PoolSignals:
        """The pool's load; zeros for one that the ledger does not know."""
        signals, _ = await self.of_pools([pool])
        return signals[pool]

    async def of_pools(self, pools: Iterable[str]) -> tuple[dict[str, PoolSignals], WaitingLoad]:
        """The load of each, and the line that they wait in: all of one moment, so that no job is counted twice or not at all."""
        now = self._clock.now()
        async with self._database.looking(_SECONDS, snapshot=True) as connection:
            load = await read_waiting_load(connection, now)
            found = {pool: await self._signals(connection, pool, load.of_pool(pool), now) for pool in pools}
        for pool, signals in found.items():
            refused = await self._versions.of_pool(pool)
            if refused is not None:
                found[pool] = msgspec.structs.replace(signals, too_old=refused.pods, too_old_since=refused.since)
        return found, load

    async def _signals(self, connection: Connection, pool: str, load: PoolLoad, now: datetime) -> PoolSignals:
        pods = await fetch_one(connection, _Pods, SIGNALS, {"pool": pool, "now": now, "longest": _LONGEST_JOB})
        assert pods is not None  # aggregates without GROUP BY give one row
        return PoolSignals(
            **msgspec.structs.asdict(pods),
            queued=load.dispatchable,
            withheld=load.withheld,
            oldest_dispatchable_seconds=load.waited(now),
            not_allowed=load.not_allowed,
            resting=load.resting,
        )

    async def unserved(self) -> int:
        """How many jobs that are meant for us carry labels that no pool offers; of the others, `rerouting.unsure`."""
        return await self._database.value(UNSERVED) or 0
