"""Jobs that ended: the newest of them, and what they come to by account or repository. Not those that ran elsewhere.

What is read is bounded by the time that was asked for and by MOST_ENDS at the young end of an index, never by the length of
the history: each end finds its job and its session by an index of theirs, which a planner that saw the whole tables would
not always choose. One sum at a time in a process, in a transaction that only reads: it holds one connection of the pool, so
that whoever looks never holds up whoever dispatches. After SECONDS all of it is given up, waiting for one's turn included.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final, Literal, LiteralString

import psycopg
from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Connection, Database, fetch_all, fetch_one
from paddock.runners.ledger.errors import LedgerError
from paddock.runners.ledger.views import FinishedJob

__all__ = ["GROUPS", "MOST_ENDS", "SECONDS", "By", "EndedJobs", "EndedSum", "EndedSums", "Selection", "TooLongError"]

By = Literal["account", "repository"]
MOST_ENDS: Final = 2_000_000
"""More than a week of a thousand Macs."""
SECONDS: Final = 20
GROUPS: Final = 1000

# A job that a runner of others had was never ours, though its end is known here: nobody's jobs are counted by it.
_OURS: LiteralString = "f.conclusion <> 'elsewhere'"
# A runner's name is given to one mint only, so within its account it means one session: LIMIT 1 says so to the planner.
_SPANS: LiteralString = """
    f.conclusion, f.runner_name, f.completed_at, coalesce(j.repository, s.repository, '') AS repository,
    coalesce(j.pool, s.pool, '') AS pool, coalesce(j.platform, s.platform, '') AS platform,
    CASE WHEN f.runner_name IS NOT NULL THEN
        greatest(0, extract(epoch FROM coalesce(s.job_started_at, j.started_at) - j.enqueued_at))::float8 END AS waited_seconds,
    CASE WHEN f.runner_name IS NOT NULL THEN
        greatest(0, extract(epoch FROM f.completed_at - coalesce(s.job_started_at, j.started_at)))::float8 END AS ran_seconds,
    CASE WHEN s.started_at IS NOT NULL THEN
        greatest(0, extract(epoch FROM coalesce(s.ended_at, %(now)s) - s.started_at))::float8 END AS pod_seconds,
    s.node_name, CASE WHEN m.until IS NULL OR m.until > s.started_at THEN nullif(m.price, 0) END AS price"""
_JOINED: LiteralString = """
LEFT JOIN LATERAL (SELECT repository, workflow_name, job_name, pool, platform, enqueued_at, started_at
                   FROM jobs WHERE jobs.job_id = f.job_id LIMIT 1) j ON true
LEFT JOIN LATERAL (SELECT repository, pool, platform, started_at, ended_at, job_started_at, pod_name, last_lines, node_name
                   FROM sessions WHERE sessions.account_id = f.account_id AND sessions.runner_name = f.runner_name
                   LIMIT 1) s ON true
LEFT JOIN LATERAL (SELECT price, until FROM mac_states
                   WHERE mac_states.machine = s.node_name AND mac_states.machine <> ''
                     AND mac_states.at < coalesce(s.ended_at, %(now)s)
                   ORDER BY mac_states.at DESC LIMIT 1) m ON true"""
_OF_ACCOUNT: LiteralString = """(%(account)s::text IS NULL OR f.account_id = ANY (ARRAY(
    SELECT account_id FROM accounts WHERE lower(login) = lower(%(account)s))))"""
_OF_REPOSITORY: LiteralString = """(%(repository)s::text IS NULL
    OR lower(coalesce(j.repository, s.repository)) = lower(%(repository)s))"""
_LISTED = (
    "SELECT f.job_id, f.account_id, a.login, coalesce(j.workflow_name, '') AS workflow_name,"
    " coalesce(j.job_name, '') AS job_name, j.enqueued_at, j.started_at, s.pod_name, s.last_lines,"
    + _SPANS
    + "\nFROM {ends} f JOIN accounts a USING (account_id)"
    + _JOINED
)
NEWEST = (
    "-- newest_ended: the young end of the completions, a hundred times as far at most\n"
    "WITH latest AS (SELECT * FROM (SELECT * FROM completions ORDER BY completed_at DESC LIMIT 100 * %(limit)s::bigint) f\n"
    f"                WHERE {_OURS} ORDER BY completed_at DESC LIMIT %(limit)s)\n"
    + _LISTED.format(ends="latest")
    + "\nORDER BY f.completed_at DESC, f.job_id DESC"
)
CHOSEN = (
    "-- chosen_ended: from the young end on, until there are enough of that account or repository\n"
    + _LISTED.format(ends="completions")
    + f"\nWHERE f.completed_at >= %(since)s AND {_OURS} AND {_OF_ACCOUNT} AND {_OF_REPOSITORY}"
    + "\nORDER BY f.completed_at DESC LIMIT %(limit)s"
)
OF_JOB = (
    "-- priced_job: one job, running or ended, beside the Pod of the runner that has or had it\n"
    """WITH asked AS (
    SELECT job_id, coalesce(c.account_id, j.account_id) AS account_id, coalesce(c.conclusion, j.conclusion, '') AS conclusion,
           coalesce(c.runner_name, j.runner_name) AS runner_name, coalesce(c.completed_at, %(now)s) AS completed_at
    FROM (SELECT %(job_id)s::bigint AS job_id) a LEFT JOIN jobs j USING (job_id) LEFT JOIN completions c USING (job_id)
)
""" + _LISTED.format(ends="asked")
)
EDGE = """
-- edge_of_ended: where so many ends are reached, if the time holds more; and the oldest end that is kept
SELECT (SELECT completed_at FROM completions WHERE completed_at >= %(since)s
        ORDER BY completed_at DESC OFFSET %(most)s LIMIT 1) AS edge,
       (SELECT min(completed_at) FROM completions) AS kept_since
"""
SUMS = (
    "-- sums_of_ended: who had most of the Macs' time comes first\nWITH ended AS (\n    SELECT {name} AS name,"
    + _SPANS
    + "\n    FROM completions f {accounts}"
    + _JOINED
    + f"\n    WHERE f.completed_at >= %(since)s AND {_OURS} AND {_OF_ACCOUNT} AND {_OF_REPOSITORY}"
    + """
), times AS (
    SELECT name, count(*)::integer AS jobs, min(completed_at) AS since,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY waited_seconds) AS waited_p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY waited_seconds) AS waited_p95,
           percentile_cont(0.5) WITHIN GROUP (ORDER BY ran_seconds) AS ran_p50,
           percentile_cont(0.95) WITHIN GROUP (ORDER BY ran_seconds) AS ran_p95
    FROM ended GROUP BY name
), results AS (
    SELECT name, jsonb_object_agg(conclusion, jobs) AS results
    FROM (SELECT name, conclusion, count(*) AS jobs FROM ended GROUP BY name, conclusion) each GROUP BY name
), held AS (
    SELECT name, jsonb_object_agg(pool, seconds) AS mac_pod_seconds, sum(seconds) AS seconds,
           jsonb_object_agg(pool, price) FILTER (WHERE price IS NOT NULL) AS mac_pod_price, sum(unpriced)::integer AS unpriced
    FROM (SELECT name, pool, sum(pod_seconds) AS seconds, sum(pod_seconds / 3600 * price) AS price,
                 count(*) FILTER (WHERE price IS NULL AND pod_seconds > 0) AS unpriced FROM ended
          WHERE platform = 'macos' AND pod_seconds IS NOT NULL GROUP BY name, pool) each GROUP BY name
)
SELECT name, jobs, results, since, waited_p50, waited_p95, ran_p50, ran_p95,
       coalesce(mac_pod_seconds, '{{}}') AS mac_pod_seconds, coalesce(mac_pod_price, '{{}}') AS mac_pod_price,
       coalesce(unpriced, 0) AS unpriced
FROM times JOIN results USING (name) LEFT JOIN held USING (name)
ORDER BY coalesce(seconds, 0) DESC, jobs DESC, name LIMIT %(limit)s
"""
)
BY_ACCOUNT = SUMS.format(name="a.login", accounts="JOIN accounts a USING (account_id)")
BY_REPOSITORY = SUMS.format(name="coalesce(j.repository, s.repository, '')", accounts="")


class TooLongError(LedgerError):
    """So many jobs ended in that time that they could not be read within SECONDS, or others were reading: the sentence says which."""


class Selection(Struct, frozen=True, kw_only=True):
    """Which ends: since then, of an account and of a repository where they are given, in whichever case they are written."""

    since: datetime
    account: str | None = None
    repository: str | None = None


class EndedSum(Struct, frozen=True, kw_only=True):
    """What the jobs of one account or repository come to. Times are None where no runner took any of them up."""

    name: str
    """Empty for jobs of which only the end was heard."""
    jobs: int
    results: dict[str, int]
    """How many by conclusion."""
    since: datetime
    """When the oldest of them ended."""
    waited_p50: float | None
    waited_p95: float | None
    ran_p50: float | None
    ran_p95: float | None
    mac_pod_seconds: dict[str, float]
    """How long Pods on Macs were theirs, by pool, which says what share of a Mac each had. Pods on Linux are not in it."""
    mac_pod_price: dict[str, float] = {}
    """What whole Macs cost for so long, by pool, as far as their price of then was recorded."""
    unpriced: int = 0
    """How many jobs on Macs that is not known of."""
    mac_seconds: float | None = None
    """Of those the shares, summed up by whoever knows the pools (`JobCosts`); None where there was no Mac."""
    euros: float | None = None


class EndedSums(Struct, frozen=True, kw_only=True):
    """At most GROUPS sums. `counted_since` is later than what was asked for where that holds more than MOST_ENDS ends.

    `kept_since` is the oldest end that is kept: older ones were forgotten for their age, or there were none.
    """

    by: By
    counted_since: datetime
    kept_since: datetime | None
    sums: list[EndedSum]
    left_off: bool = False
    """Whether there were more than GROUPS: those that had least of the Macs' time are not in `sums`."""


class _Edge(Struct, frozen=True):
    edge: datetime | None
    kept_since: datetime | None


class EndedJobs:
    """`newest` and `sums` raise TooLongError where SECONDS did not suffice."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._turn = asyncio.Lock()

    async def newest(self, chosen: Selection, limit: int) -> list[FinishedJob]:
        """The jobs of that selection that ended last, latest first."""
        params = {**_params(chosen), "now": self._clock.now(), "limit": limit}
        async with self._looking() as connection:
            return await fetch_all(connection, FinishedJob, CHOSEN, params)

    async def of_job(self, job_id: int) -> FinishedJob | None:
        """One job as if it ended now, if it has not; None where it is not known."""
        params = {"job_id": job_id, "now": self._clock.now()}
        async with self._database.looking() as connection:
            return await fetch_one(connection, FinishedJob, OF_JOB, params)

    async def sums(self, by: By, chosen: Selection) -> EndedSums:
        """What the jobs of that selection come to, by account or by repository; who had most of the Macs comes first."""
        params = {**_params(chosen), "now": self._clock.now(), "limit": GROUPS + 1}
        async with self._looking() as connection:
            found = await fetch_one(connection, _Edge, EDGE, {"since": chosen.since, "most": MOST_ENDS - 1})
            assert found is not None  # a SELECT without FROM gives one row
            since = max(chosen.since, found.edge or chosen.since)
            statement = BY_ACCOUNT if by == "account" else BY_REPOSITORY
            sums = await fetch_all(connection, EndedSum, statement, {**params, "since": since})
        left_off = len(sums) > GROUPS
        return EndedSums(by=by, counted_since=since, kept_since=found.kept_since, sums=sums[:GROUPS], left_off=left_off)

    @asynccontextmanager
    async def _looking(self) -> AsyncIterator[Connection]:
        began = False
        try:
            async with asyncio.timeout(SECONDS), self._turn, self._database.looking(SECONDS) as connection:
                began = True
                yield connection
        except (TimeoutError, psycopg.errors.QueryCanceled) as error:
            if not began:
                raise TooLongError(f"others were counting for {SECONDS} s: ask again in a moment") from error
            told = f"more jobs ended in that time than can be read in {SECONDS} s: ask for a shorter time"
            raise TooLongError(told) from error


def _params(chosen: Selection) -> dict[str, datetime | str | None]:
    return {"since": chosen.since, "account": chosen.account, "repository": chosen.repository}
