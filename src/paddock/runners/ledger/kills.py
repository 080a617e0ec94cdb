"""Every job that ended because of something we did, whichever process did it: the one count of them."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns

__all__ = ["GivenUp", "Kill", "Kills"]


class GivenUp(Struct, frozen=True, kw_only=True):
    """A job that was ended, as its ender reports it. Each report of it has the same `key`: the Pod's uid where it has one.

    Without `at` it ended when it is written down.
    """

    key: str
    at: datetime | None
    path: str
    pod_uid: str = ""
    pod_name: str = ""
    account: str = ""
    machine: str = ""
    why: str = ""


class Kill(Struct, frozen=True, kw_only=True):
    """A row. `job_id` is what the Pod's runner executed, where its session says so."""

    kill_key: str
    at: datetime
    path: str
    pod_uid: str
    pod_name: str
    account: str
    machine: str
    job_id: int | None
    why: str
    recorded_at: datetime


RECORD = """
-- record_kills: the first report of a job stands; no kill lies ahead of our clock
INSERT INTO kills (kill_key, at, path, pod_uid, pod_name, account, machine, job_id, why, recorded_at)
SELECT k.key, least(k.at, %(now)s), k.path, k.pod_uid, k.pod_name, k.account, k.machine,
       (SELECT coalesce(s.executed_job_id, s.job_id) FROM sessions s WHERE s.pod_uid = k.pod_uid), k.why, %(now)s
FROM unnest(%(keys)s::text[], %(ats)s::timestamptz[], %(paths)s::text[], %(uids)s::text[], %(names)s::text[],
            %(accounts)s::text[], %(machines)s::text[], %(whys)s::text[])
     AS k (key, at, path, pod_uid, pod_name, account, machine, why)
ON CONFLICT (kill_key) DO NOTHING
"""
NEWEST = f"""
-- newest_kills
SELECT {columns(Kill)} FROM kills ORDER BY at DESC, kill_key LIMIT %s
"""
COUNT_BY_PATH = """
-- count_kills_by_path
SELECT path, count(*) FROM kills WHERE at >= %s GROUP BY path
"""
FORGET = """
-- forget_kills: a bounded bite of the oldest
DELETE FROM kills WHERE kill_key IN (SELECT kill_key FROM kills WHERE at < %s ORDER BY at LIMIT %s)
"""


class Kills:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def record(self, kills: Sequence[GivenUp]) -> int:
        """Write these down; gives how many were not known yet. Repeatable."""
        params = {
            "now": self._clock.now(),
            "keys": [one.key for one in kills],
            "ats": [one.at for one in kills],
            "paths": [one.path for one in kills],
            "uids": [one.pod_uid for one in kills],
            "names": [one.pod_name for one in kills],
            "accounts": [one.account for one in kills],
            "machines": [one.machine for one in kills],
            "whys": [one.why for one in kills],
        }
        return await self._database.run(RECORD, params) if kills else 0

    async def newest(self, limit: int = 100) -> list[Kill]:
        """The latest first."""
        return await self._database.rows(Kill, NEWEST, [limit])

    async def count_by_path(self, since: datetime) -> dict[str, int]:
        """How many ended since then, by who ended them."""
        async with self._database.connection() as connection:
            return dict(await (await connection.execute(COUNT_BY_PATH, [since])).fetchall())

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop rows older than that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])
