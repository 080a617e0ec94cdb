"""What was wrong with the fleet, from when to when, and when processes started: the marks on the charts.

As with stretches of Macs, a problem is open until a sampler does not see it any more, by one row of its key.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from paddock.runners.ledger.database import Database, columns

__all__ = ["Incident", "Incidents", "ProblemSeen"]


class ProblemSeen(Struct, frozen=True, kw_only=True):
    """A problem as a sampler sees it. `key` stays the same while its words change."""

    key: str
    about: str
    sentence: str


class Incident(Struct, frozen=True, kw_only=True):
    """`kind` is problem or restart; `until` is None while it lasts."""

    incident_id: int
    kind: str
    key: str
    about: str
    sentence: str
    at: datetime
    until: datetime | None


CLOSE = """
-- close_incidents: what is not seen any more
UPDATE incidents SET until = %(at)s WHERE until IS NULL AND at < %(at)s AND NOT key = ANY(%(keys)s)
"""
OPEN = """
-- open_incidents: what is seen and not open; while it is open, its first words stay
INSERT INTO incidents (kind, key, about, sentence, at)
SELECT 'problem', s.key, s.about, s.sentence, %(at)s
FROM unnest(%(keys)s::text[], %(abouts)s::text[], %(sentences)s::text[]) AS s (key, about, sentence)
WHERE NOT EXISTS (SELECT FROM incidents i WHERE i.key = s.key AND i.until IS NULL)
ON CONFLICT DO NOTHING
"""
RESTART = """
-- tell_restart
INSERT INTO incidents (kind, key, about, sentence, at, until)
VALUES ('restart', 'restart/' || %(who)s, %(who)s, %(sentence)s, %(at)s, %(at)s)
"""
BETWEEN = f"""
-- incidents_between: what was open at some time of it, oldest first
SELECT * FROM (
    SELECT {columns(Incident)} FROM incidents WHERE at <= %(until)s AND (until IS NULL OR until >= %(since)s)
    ORDER BY at DESC LIMIT %(limit)s) newest ORDER BY at, incident_id
"""
FORGET = """
-- forget_incidents: a bounded bite of the oldest
DELETE FROM incidents WHERE incident_id IN (SELECT incident_id FROM incidents WHERE until < %s ORDER BY until LIMIT %s)
"""


class Incidents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def observe(self, at: datetime, problems: Sequence[ProblemSeen]) -> None:
        """These are all problems that there are now: open and close incidents accordingly. Repeatable."""
        by_key = {problem.key: problem for problem in problems}
        params = {
            "at": at,
            "keys": list(by_key),
            "abouts": [one.about for one in by_key.values()],
            "sentences": [one.sentence for one in by_key.values()],
        }
        async with self._database.transaction() as connection:
            await connection.execute(CLOSE, params)
            await connection.execute(OPEN, params)

    async def restarted(self, at: datetime, who: str) -> None:
        """A process began to work."""
        params = {"at": at, "who": who, "sentence": f"{who} started"}
        await self._database.run(RESTART, params)

    async def between(self, since: datetime, until: datetime, *, limit: int = 300) -> list[Incident]:
        """What was open at some time between, oldest first; of more than `limit` the newest."""
        return await self._database.rows(Incident, BETWEEN, {"since": since, "until": until, "limit": limit})

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop what was over before that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])
