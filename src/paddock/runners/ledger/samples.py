"""Numbers of the fleet over time, at a cost that is bounded: minutes for two days, quarters for eight, hours for a month.

A row's key is its step and the moment at which the step began, and the first row of a key stays. So two samplers at once, or
one that dies and is followed by another, leave one row; a time without any sampler leaves a gap, and nothing is made up for it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString

from msgspec import Struct
from psycopg.types.json import Jsonb

from paddock.runners.ledger.database import Database, columns

__all__ = ["HOUR", "KEPT", "MINUTE", "QUARTER", "FleetNumbers", "Sample", "Samples", "step_began"]

MINUTE: Final = timedelta(minutes=1)
QUARTER: Final = timedelta(minutes=15)
HOUR: Final = timedelta(hours=1)
KEPT: Final = {MINUTE: timedelta(days=2), QUARTER: timedelta(days=8), HOUR: timedelta(days=31)}
"""How long rows of each step stay: at most 2,880, 768 and 744 of them."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# A wait ends when GitHub says that the job began. The session began shortly before, which bounds what is read.
_MEASURED: LiteralString = """
waits AS (
    SELECT greatest(0, extract(epoch FROM s.job_started_at - j.enqueued_at))::float8 AS seconds, {bucket} AS began
    FROM sessions s JOIN jobs j ON j.job_id = s.executed_job_id
    WHERE s.started_at > %(since)s - interval '1 hour' AND s.started_at < %(until)s + interval '1 minute'
      AND s.job_started_at >= %(since)s AND s.job_started_at < %(until)s
)"""
ADD = (
    "-- add_sample: a minute, once\nWITH"
    + _MEASURED.format(bucket="0")
    + """
INSERT INTO samples (step, at, macs, waiting, running, started, wait_p50, wait_p95, heals, per_hour, currency, ended)
SELECT 60, %(since)s, %(macs)s, %(waiting)s, %(running)s, count(*),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds), percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds),
       (SELECT count(*) FROM heals WHERE at >= %(since)s AND at < %(until)s AND done_at IS NOT NULL),
       %(per_hour)s, %(currency)s,
       -- The moment at which an end was written down decides, so that none falls between two minutes. Ends of the last hour are
       -- found by their age; one that was heard of later than that, by the line that its job left as it was written down.
       coalesce((SELECT jsonb_object_agg(conclusion, jobs) FROM (
           SELECT conclusion, count(*) AS jobs FROM (
               SELECT conclusion, recorded_at FROM completions WHERE completed_at > %(since)s - interval '1 hour'
               UNION ALL
               SELECT conclusion, recorded_at FROM completions WHERE completed_at <= %(since)s - interval '1 hour' AND job_id IN (
                   SELECT job_id FROM transitions
                   WHERE at >= %(since)s AND at < %(until)s AND subject = 'job' AND became IN ('completed', 'cancelled'))
           ) heard
           WHERE recorded_at >= %(since)s AND recorded_at < %(until)s AND conclusion <> 'elsewhere'
           GROUP BY conclusion) each), '{}')
FROM waits ON CONFLICT (step, at) DO NOTHING
"""
)
ROLL_UP = (
    "-- roll_up_samples: every step that is over and has minutes, but no row yet\nWITH"
    + _MEASURED.format(bucket="date_bin(%(step)s, s.job_started_at, %(epoch)s)")
    + """, minutes AS (
    SELECT date_bin(%(step)s, m.at, %(epoch)s) AS began, m.* FROM samples m
    WHERE m.step = 60 AND m.at >= %(since)s AND m.at < %(until)s
), due AS (
    SELECT began, count(*) AS rows, avg(waiting) AS waiting, avg(running) AS running, avg(per_hour) AS per_hour,
           max(currency) AS currency
    FROM minutes GROUP BY began
    HAVING NOT EXISTS (SELECT FROM samples s WHERE s.step = extract(epoch FROM %(step)s)::integer AND s.at = began)
)
INSERT INTO samples (step, at, macs, waiting, running, started, wait_p50, wait_p95, heals, per_hour, currency, ended)
SELECT extract(epoch FROM %(step)s)::integer, d.began,
       coalesce((SELECT jsonb_object_agg(state, mean) FROM (
           SELECT each.key AS state, round((sum(each.value::numeric) / d.rows), 2) AS mean
           FROM minutes m CROSS JOIN LATERAL jsonb_each_text(m.macs) each WHERE m.began = d.began GROUP BY each.key) means), '{}'),
       d.waiting, d.running, w.started, w.p50, w.p95,
       (SELECT count(*) FROM heals WHERE at >= d.began AND at < d.began + %(step)s AND done_at IS NOT NULL),
       d.per_hour, d.currency,
       coalesce((SELECT jsonb_object_agg(conclusion, jobs) FROM (
           SELECT each.key AS conclusion, sum(each.value::integer) AS jobs
           FROM minutes m CROSS JOIN LATERAL jsonb_each_text(m.ended) each WHERE m.began = d.began GROUP BY each.key) sums), '{}')
FROM due d CROSS JOIN LATERAL (
    SELECT count(*) AS started, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) AS p95
    FROM waits WHERE waits.began = d.began) w
ON CONFLICT (step, at) DO NOTHING
"""
)
FORGET = """
-- forget_samples: of one step
DELETE FROM samples WHERE (step, at) IN (
    SELECT step, at FROM samples WHERE step = %s AND at < %s ORDER BY at LIMIT %s)
"""


class FleetNumbers(Struct, frozen=True, kw_only=True):
    """What a sampler saw at the end of a minute. Waits and heals are not in it: the ledger counts those itself."""

    macs: Mapping[str, int]
    waiting: int
    running: int
    per_hour: float = 0.0
    currency: str = ""


class Sample(Struct, frozen=True, kw_only=True):
    """A row: gauges are means over the step, `started`, `heals` and `ended` are counts in it; without a start there is no wait."""

    step: int
    at: datetime
    macs: dict[str, float]
    waiting: float
    running: float
    started: int
    wait_p50: float | None
    wait_p95: float | None
    heals: int
    per_hour: float
    currency: str
    ended: dict[str, int]
    """Jobs whose end was written down, by conclusion; empty where an older release wrote the row."""


WINDOW = f"""
-- samples_of_window: rows of the step, and after the last of them those of finer steps, which are not rolled up yet
WITH coarse AS (
    SELECT {columns(Sample)} FROM samples WHERE step = %(step)s AND at >= %(since)s
), quarters AS (
    SELECT {columns(Sample)} FROM samples WHERE step = 900 AND %(step)s > 900 AND at >= coalesce(
        (SELECT max(at) FROM coarse) + make_interval(secs => %(step)s), %(since)s)
), minutes AS (
    SELECT {columns(Sample)} FROM samples WHERE step = 60 AND %(step)s > 60 AND at >= coalesce(
        (SELECT max(at) FROM quarters) + interval '15 minutes',
        (SELECT max(at) FROM coarse) + make_interval(secs => %(step)s), %(since)s)
)
SELECT * FROM coarse UNION ALL SELECT * FROM quarters UNION ALL SELECT * FROM minutes ORDER BY at
"""


def step_began(moment: datetime, step: timedelta) -> datetime:
    """The beginning of the step that the moment lies in. Steps are counted from 1970, so every process cuts alike."""
    return moment - (moment - _EPOCH) % step


class Samples:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, minute: datetime, numbers: FleetNumbers) -> bool:
        """Write the minute that began then. False if it was written before: the first row stays."""
        params = {
            "since": minute,
            "until": minute + MINUTE,
            "macs": Jsonb(dict(numbers.macs)),
            "waiting": numbers.waiting,
            "running": numbers.running,
            "per_hour": numbers.per_hour,
            "currency": numbers.currency,
        }
        return await self._database.run(ADD, params) == 1

    async def roll_up(self, now: datetime) -> int:
        """Write every quarter and hour that is over and has minutes; gives how many. Whoever comes next writes what is missing."""
        written = 0
        for step in (QUARTER, HOUR):
            until = step_began(now, step)
            params = {"step": step, "since": until - KEPT[MINUTE], "until": until, "epoch": _EPOCH}
            written += await self._database.run(ROLL_UP, params)
        return written

    async def since(self, moment: datetime, step: timedelta) -> list[Sample]:
        """The rows since then, oldest first; at the young end, where the step is not over, those of finer steps."""
        return await self._database.rows(Sample, WINDOW, {"since": moment, "step": int(step.total_seconds())})

    async def forget(self, now: datetime, *, limit: int = 10_000) -> int:
        """Drop what is older than KEPT; gives how many."""
        return sum(
            [
                await self._database.run(FORGET, [int(step.total_seconds()), now - kept, limit])
                for step, kept in KEPT.items()
            ]
        )
