"""What each Mac was, from when to when; and which runners were on it.

A stretch lasts until a sampler sees the Mac in another state. Closing the old one and opening the new one is one transaction,
and a Mac has at most one open stretch by the table's own key, so a sampler that dies leaves the state before, and two at once
write what one would. Accurate to the time between two looks, which is seconds.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from paddock.runners.ledger.database import Database, columns

__all__ = ["MacSeen", "MacStates", "MacStretch", "RanOnMac", "Stay"]


Stay = tuple[str, datetime, datetime]
"""A Mac was the Node of that name from the first moment until the second."""


class MacSeen(Struct, frozen=True, kw_only=True):
    """A Mac as a sampler sees it. `machine` is empty while no machine has it."""

    host: str
    state: str
    machine: str
    title: str
    zone: str
    fleet: str
    price: float = 0.0


class MacStretch(Struct, frozen=True, kw_only=True):
    """What a Mac was from `at` on; `until` is None while it lasts."""

    host: str
    at: datetime
    until: datetime | None
    state: str
    machine: str
    title: str
    zone: str
    fleet: str
    price: float


class RanOnMac(Struct, frozen=True, kw_only=True):
    """A runner that was on a Mac, and what came of its job."""

    pod_uid: str
    pod_name: str
    node_name: str
    job_id: int | None
    repository: str
    job_name: str
    started_at: datetime
    ended_at: datetime | None
    conclusion: str | None


CLOSE = """
-- close_mac_states: what changed, and what is not there any more
UPDATE mac_states m SET until = %(at)s
WHERE m.until IS NULL AND m.at < %(at)s AND NOT EXISTS (
    SELECT FROM unnest(%(hosts)s::text[], %(states)s::text[], %(machines)s::text[], %(fleets)s::text[]) AS s (host, state, machine, fleet)
    WHERE s.host = m.host AND s.state = m.state AND s.machine = m.machine AND s.fleet = m.fleet)
"""
OPEN = """
-- open_mac_states: of every Mac that has none open
INSERT INTO mac_states (host, at, state, machine, title, zone, fleet, price)
SELECT s.host, %(at)s, s.state, s.machine, s.title, s.zone, s.fleet, s.price
FROM unnest(%(hosts)s::text[], %(states)s::text[], %(machines)s::text[], %(titles)s::text[], %(zones)s::text[], %(fleets)s::text[],
            %(prices)s::float8[]) AS s (host, state, machine, title, zone, fleet, price)
WHERE NOT EXISTS (SELECT FROM mac_states m WHERE m.host = s.host AND m.until IS NULL)
ON CONFLICT DO NOTHING
"""
AT = f"""
-- macs_at: how much is read grows with how much has changed since
SELECT {columns(MacStretch)} FROM mac_states WHERE until IS NULL AND at <= %(at)s
UNION ALL SELECT {columns(MacStretch)} FROM mac_states WHERE until > %(at)s AND at <= %(at)s
ORDER BY host
"""
OF_MAC = f"""
-- stretches_of_mac: newest first
SELECT {columns(MacStretch)} FROM mac_states WHERE host = %s AND at > %s ORDER BY at DESC LIMIT %s
"""
KEPT_SINCE = """
-- mac_states_kept_since: the first stretch that ended is the oldest that is known to the second
SELECT least((SELECT min(until) FROM mac_states WHERE until IS NOT NULL), (SELECT min(at) FROM mac_states WHERE until IS NULL))
"""
PLACE = """
-- place_sessions: on which Node a runner is; gives those that have a session at all
WITH placed AS (
    UPDATE sessions s SET node_name = p.node_name
    FROM unnest(%(uids)s::text[], %(nodes)s::text[]) AS p (pod_uid, node_name)
    WHERE s.pod_uid = p.pod_uid AND s.node_name IS NULL
)
SELECT pod_uid FROM sessions WHERE pod_uid = ANY(%(uids)s)
"""
RAN_ON = """
-- ran_on_mac: the latest runners on Nodes, each since the Node was on this Mac
SELECT s.pod_uid, s.pod_name, s.node_name, coalesce(s.executed_job_id, s.job_id) AS job_id, s.repository,
       coalesce(j.job_name, '') AS job_name, s.started_at, s.ended_at, coalesce(c.conclusion, j.conclusion) AS conclusion
FROM unnest(%(nodes)s::text[], %(since)s::timestamptz[], %(until)s::timestamptz[]) AS n (name, since, until)
CROSS JOIN LATERAL (
    SELECT * FROM sessions one WHERE one.node_name = n.name AND one.started_at >= n.since AND one.started_at < n.until
    ORDER BY one.started_at DESC LIMIT %(limit)s) s
LEFT JOIN jobs j ON j.job_id = coalesce(s.executed_job_id, s.job_id)
LEFT JOIN completions c ON c.job_id = j.job_id
ORDER BY s.started_at DESC LIMIT %(limit)s
"""
COUNT_ON = """
-- count_on_mac: of each stay in its order, how many runners had a job, and how many of those jobs failed
SELECT count(s.pod_uid)::integer, count(*) FILTER (WHERE c.conclusion IN ('failure', 'timed_out', 'startup_failure'))::integer
FROM unnest(%(nodes)s::text[], %(since)s::timestamptz[], %(until)s::timestamptz[]) WITH ORDINALITY AS n (name, since, until, place)
LEFT JOIN sessions s ON s.node_name = n.name AND s.started_at >= n.since AND s.started_at < n.until
LEFT JOIN completions c ON c.job_id = coalesce(s.executed_job_id, s.job_id)
GROUP BY n.place ORDER BY n.place
"""
FORGET = """
-- forget_mac_states: stretches that ended long ago; a bounded bite of the oldest
DELETE FROM mac_states WHERE (host, at) IN (SELECT host, at FROM mac_states WHERE until < %s ORDER BY until LIMIT %s)
"""


class MacStates:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def observe(self, at: datetime, macs: Sequence[MacSeen]) -> None:
        """These are all Macs that there are: open and close stretches accordingly. Repeatable.

        The caller's duty: `macs` is a complete read. A Mac that is not in it is taken for gone.
        """
        params = {
            "at": at,
            "hosts": [mac.host for mac in macs],
            "states": [mac.state for mac in macs],
            "machines": [mac.machine for mac in macs],
            "titles": [mac.title for mac in macs],
            "zones": [mac.zone for mac in macs],
            "fleets": [mac.fleet for mac in macs],
            "prices": [mac.price for mac in macs],
        }
        # One transaction: between the two a Mac would have no state.
        async with self._database.transaction() as connection:
            await connection.execute(CLOSE, params)
            await connection.execute(OPEN, params)

    async def at(self, moment: datetime) -> list[MacStretch]:
        """What every Mac was at that moment."""
        return await self._database.rows(MacStretch, AT, {"at": moment})

    async def of_mac(self, host: str, since: datetime, *, limit: int = 5000) -> list[MacStretch]:
        """The stretches of one Mac, newest first."""
        return await self._database.rows(MacStretch, OF_MAC, [host, since, limit])

    async def kept_since(self) -> datetime | None:
        return await self._database.value(KEPT_SINCE)

    async def place(self, nodes: Mapping[str, str]) -> set[str]:
        """Write down on which Node these Pods are (uid → Node). Gives those that were handed a runner; ask again for the rest."""
        if not nodes:
            return set()
        async with self._database.connection() as connection:
            found = await connection.execute(PLACE, {"uids": list(nodes), "nodes": list(nodes.values())})
            return {uid for (uid,) in await found.fetchall()}

    async def ran_on(self, stays: Sequence[Stay], *, limit: int = 50) -> list[RanOnMac]:
        """The latest runners on a Mac, newest first."""
        return await self._database.rows(RanOnMac, RAN_ON, {**_columns(stays), "limit": limit}) if stays else []

    async def count_on(self, stays: Sequence[Stay]) -> list[tuple[int, int]]:
        """Of each stay how many runners there were, and how many of their jobs failed."""
        if not stays:
            return []
        async with self._database.connection() as connection:
            return await (await connection.execute(COUNT_ON, _columns(stays))).fetchall()

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop stretches that ended before that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])


def _columns(stays: Sequence[Stay]) -> dict[str, list[Any]]:
    names, since, until = zip(*stays, strict=True)
    return {"nodes": list(names), "since": list(since), "until": list(until)}
