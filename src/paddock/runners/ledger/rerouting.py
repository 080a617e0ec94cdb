"""Jobs that no runner has, by what decides where they go; and the one way to send them elsewhere.

Many jobs share their labels, so that they are read and moved in groups: a line of ten thousand is a handful of rows.
"""

from typing import Literal, LiteralString

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.api import Platform
from paddock.runners.ledger.database import Connection, Database, fetch_one
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.scale_sets import FIRST_JOB_ID

__all__ = ["UNSURE_TURN", "FormerPool", "Rerouting", "Routed", "Unsure", "count_unsure"]

_NEWEST = 10_000
_MOST_AT_ONCE = 500
"""Jobs that are moved in one transaction, each under its own lock."""

GROUPS = """
-- routed_groups: the jobs that no runner has, by where they were sent, as what they are counted, and why
SELECT status, pool, label, labels, CASE WHEN status = 'unserved' THEN changed_why ELSE '' END AS why, platform, vcpus, memory_mb,
       count(*)::integer AS jobs
FROM jobs WHERE status IN ('waiting', 'unserved', 'queued') GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
"""
FORMER = """
-- former_labels: what the newest jobs of webhooks were dispatched by, and where to; numbers of GitHub's only grow. Only jobs that a
-- Pod had, or that are in line for one: a job that is kept because its label was ours once must not keep the label ours
SELECT DISTINCT ON (lower(label)) lower(label) AS label, pool, platform, vcpus, memory_mb FROM (
    SELECT job_id, label, pool, platform, vcpus, memory_mb FROM (
        SELECT * FROM jobs WHERE job_id < %(ours)s ORDER BY job_id DESC LIMIT 10 * %(newest)s
    ) latest
    WHERE label <> '' AND (pod_uid IS NOT NULL OR status IN ('waiting', 'queued', 'claimed', 'running'))
    ORDER BY job_id DESC LIMIT %(newest)s
) newest ORDER BY lower(label), job_id DESC
"""
UNSURE = """
-- unsure_jobs: unserved, and by no dispatch label of ours; all of them, and those of the account
SELECT count(*)::integer AS of_all, (count(*) FILTER (WHERE account_id = %(account_id)s))::integer AS of_account
FROM jobs WHERE status = 'unserved' AND label = ''
"""
UNSURE_TURN = """
-- unsure_turn: whoever counts them before adding one waits here for whoever does so at this moment, in any process
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/unsure', 7408213))
"""
_BITE = """
WITH line AS MATERIALIZED (
    SELECT job_id FROM jobs
    WHERE status = %(read_status)s AND pool = %(read_pool)s AND label = %(read_label)s AND labels = %(read_labels)s::text[]
      AND platform = %(read_platform)s AND vcpus = %(read_vcpus)s AND memory_mb = %(read_memory_mb)s
), bite AS MATERIALIZED (
    SELECT job_id FROM line WHERE job_id > %(after)s ORDER BY job_id LIMIT %(most)s
), free AS MATERIALIZED (
    SELECT job_id FROM jobs
    WHERE job_id = ANY (ARRAY(SELECT bite.job_id FROM bite))
      AND status = %(read_status)s AND pool = %(read_pool)s AND label = %(read_label)s AND labels = %(read_labels)s::text[]
      AND platform = %(read_platform)s AND vcpus = %(read_vcpus)s AND memory_mb = %(read_memory_mb)s
    ORDER BY job_id FOR UPDATE SKIP LOCKED
), ours AS MATERIALIZED (
    SELECT job_id FROM free WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
)"""
_TOLD = """
SELECT (SELECT count(*) FROM bite)::integer AS looked_at, (SELECT max(bite.job_id) FROM bite) AS last,
       (SELECT count(*) FROM moved)::integer AS moved
"""
MOVE = f"""
-- reroute_group: those that still are as they were read, and that nobody is taking or speaking of at this moment; a bounded bite,
-- because each has a lock in the server's memory, of which everybody shares a few thousand
{_BITE}, moved AS (
    UPDATE jobs SET status = %(status)s, pool = %(pool)s, platform = %(platform)s, vcpus = %(vcpus)s,
        memory_mb = %(memory_mb)s, label = %(label)s, changed_at = %(now)s, changed_by = 'routing', changed_why = %(why)s
    WHERE job_id = ANY (ARRAY(SELECT ours.job_id FROM ours)) RETURNING 1
)
{_TOLD}"""
STRAND = f"""
-- strand_group: as above; pool and size stay what they were, because there is no other
{_BITE}, moved AS (
    UPDATE jobs SET status = 'unserved', changed_why = %(why)s, changed_by = 'routing',
        label = CASE WHEN %(unsure)s AND labels <> '{{}}' THEN '' ELSE label END,
        changed_at = CASE WHEN status = 'unserved' THEN changed_at ELSE %(now)s END
    WHERE job_id = ANY (ARRAY(SELECT ours.job_id FROM ours)) AND status IN ('queued', 'unserved') RETURNING 1
)
{_TOLD}"""
RESIZE = f"""
-- resize_group: as above; each keeps its place and everything else
{_BITE}, moved AS (
    UPDATE jobs SET platform = %(platform)s, vcpus = %(vcpus)s, memory_mb = %(memory_mb)s
    WHERE job_id = ANY (ARRAY(SELECT ours.job_id FROM ours)) RETURNING 1
)
{_TOLD}"""


class Routed(Struct, frozen=True, kw_only=True):
    """Jobs that were sent to one pool alike, and are counted alike. `why` is why no pool runs them, where none does."""

    status: Literal["waiting", "unserved", "queued"]
    pool: str
    label: str
    labels: list[str]
    why: str
    platform: Platform
    vcpus: int
    memory_mb: int
    jobs: int


class _Bite(Struct, frozen=True, kw_only=True):
    looked_at: int
    last: int | None
    moved: int


class FormerPool(Struct, frozen=True, kw_only=True):
    """Where jobs with a dispatch label went; the pool may be gone."""

    label: str
    pool: str
    platform: Platform
    vcpus: int
    memory_mb: int


class Unsure(Struct, frozen=True, kw_only=True):
    """How many jobs are kept that may be meant for runners of others."""

    of_all: int
    of_account: int


async def count_unsure(connection: Connection, account_id: int) -> Unsure:
    found = await fetch_one(connection, Unsure, UNSURE, {"account_id": account_id})
    assert found is not None  # a count gives one row
    return found


class Rerouting:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications

    async def groups(self) -> list[Routed]:
        return await self._database.rows(Routed, GROUPS)

    async def former(self) -> dict[str, FormerPool]:
        """The dispatch labels of the newest ten thousand jobs that a Pod had or is to have, in small letters, and where each went."""
        rows = await self._database.rows(FormerPool, FORMER, {"ours": FIRST_JOB_ID, "newest": _NEWEST})
        return {row.label: row for row in rows}

    async def unsure(self) -> int:
        """How many jobs are kept that no pool serves and that may be meant for runners of others."""
        return (await self.unsure_of(0)).of_all

    async def unsure_of(self, account_id: int) -> Unsure:
        """The same, and how many of them are the account's."""
        async with self._database.connection() as connection:
            return await count_unsure(connection, account_id)

    async def move(
        self, read: Routed, *, pool: str, platform: Platform, vcpus: int, memory_mb: int, label: str, why: str
    ) -> int:
        """Send these jobs to that pool; what was unserved is queued, what GitHub holds back stays so. Gives how many.

        A job that a dispatcher takes at this moment stays where it is: its Pod offers what it was routed for. Repeatable, and right
        wherever it is interrupted: what was not moved yet is found again.
        """
        params = {
            **_read(read),
            "status": "queued" if read.status == "unserved" else read.status,
            "pool": pool,
            "platform": platform,
            "vcpus": vcpus,
            "memory_mb": memory_mb,
            "label": label,
            "why": why,
            "now": self._clock.now(),
        }
        return await self._in_bites(MOVE, params, pool)

    async def resize(self, read: Routed, *, platform: Platform, vcpus: int, memory_mb: int) -> int:
        """Their pool has another size: they are counted as that from now on. Gives how many. Repeatable.

        What a Pod holds already is counted as it was admitted.
        """
        size = {"platform": platform, "vcpus": vcpus, "memory_mb": memory_mb}
        return await self._in_bites(RESIZE, {**_read(read), **size}, read.pool if read.status == "queued" else "")

    async def strand(self, read: Routed, *, why: str, unsure: bool = False) -> int:
        """No pool runs these jobs: they leave the line and say so, until one does. Gives how many.

        `unsure`: somebody else runs them, most likely, so that they are counted apart and are nobody's alarm.
        """
        params = {**_read(read), "why": why, "unsure": unsure, "now": self._clock.now()}
        return await self._in_bites(STRAND, params, "")

    async def _in_bites(self, statement: LiteralString, params: dict[str, object], pool: str) -> int:
        """The whole group, a transaction each for so many of it; the pool's dispatchers hear of each of them."""
        whole, after = 0, 0
        while True:
            bite = await self._database.row(_Bite, statement, {**params, "after": after, "most": _MOST_AT_ONCE})
            assert bite is not None  # counts give one row
            whole += bite.moved
            if bite.moved:
                await self._notifications.hint(pool)
            if bite.last is None or bite.looked_at < _MOST_AT_ONCE:
                return whole
            after = bite.last


def _read(read: Routed) -> dict[str, object]:
    return {
        "read_status": read.status,
        "read_pool": read.pool,
        "read_label": read.label,
        "read_labels": read.labels,
        "read_platform": read.platform,
        "read_vcpus": read.vcpus,
        "read_memory_mb": read.memory_mb,
    }
