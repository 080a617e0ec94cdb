"""The heal ledger: a line for everything that healing undid, with what every ledger said at that moment.

What is deleted for good is written down before it is deleted, as an intent; `record` closes it. A process that dies in
between leaves the intent, which says what was about to happen to whom, and is closed or withdrawn by the next pass.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from psycopg.types.json import Jsonb

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns, fetch_one
from paddock.runners.ledger.errors import InvalidEntryError

__all__ = ["Heal", "Heals"]


class Heal(Struct, frozen=True, kw_only=True):
    """A line of the heal ledger. Without `done_at` it is what is about to be done, or was when the process died."""

    id: int
    at: datetime
    kind: str
    subject: str
    pod_uid: str
    job_id: int | None
    sentence: str
    evidence: dict[str, Any]
    seconds: float
    done_at: datetime | None


INTEND = f"""
-- intend_heal: asked again by whoever resumes, it is the same intent with fresher evidence
INSERT INTO heals (at, kind, subject, pod_uid, job_id, sentence, evidence, seconds)
VALUES (%(now)s, %(kind)s, %(subject)s, %(pod_uid)s, %(job_id)s, %(sentence)s, %(evidence)s, %(seconds)s)
ON CONFLICT (kind, pod_uid) WHERE done_at IS NULL DO UPDATE
    SET sentence = excluded.sentence, evidence = excluded.evidence, seconds = excluded.seconds
RETURNING {columns(Heal)}
"""
DONE = f"""
-- heal_done: the intent of that kind for that Pod, if there is one
UPDATE heals SET done_at = %(now)s, seconds = greatest(seconds, %(seconds)s)
WHERE kind = %(kind)s AND pod_uid = %(pod_uid)s AND pod_uid <> '' AND done_at IS NULL RETURNING {columns(Heal)}
"""
RECORD = f"""
-- record_heal
INSERT INTO heals (at, kind, subject, pod_uid, job_id, sentence, evidence, seconds, done_at)
VALUES (%(now)s, %(kind)s, %(subject)s, %(pod_uid)s, %(job_id)s, %(sentence)s, %(evidence)s, %(seconds)s, %(now)s)
RETURNING {columns(Heal)}
"""
WITHDRAW = """
-- withdraw_heal: it was not done after all
DELETE FROM heals WHERE kind = %s AND pod_uid = %s AND done_at IS NULL
"""
INTENDED = f"""
-- intended_heals: under way, or interrupted
SELECT {columns(Heal)} FROM heals WHERE done_at IS NULL ORDER BY at, id
"""
NEWEST = f"""
-- newest_heals
SELECT {columns(Heal)} FROM heals ORDER BY id DESC LIMIT %s
"""
COUNT_BY_KIND = """
-- count_heals_by_kind: what was done
SELECT kind, count(*) FROM heals WHERE at >= %s AND done_at IS NOT NULL GROUP BY kind
"""
FORGET = """
-- forget_heals: a bounded bite of the oldest
DELETE FROM heals WHERE id IN (SELECT id FROM heals WHERE at < %s ORDER BY at LIMIT %s)
"""


class Heals:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def intend(
        self,
        kind: str,
        subject: str,
        sentence: str,
        *,
        pod_uid: str,
        job_id: int | None = None,
        evidence: Mapping[str, Any] | None = None,
        seconds: float = 0.0,
    ) -> Heal:
        """Write down what is about to be done to a Pod, and on what evidence. Repeatable; close it with `record`."""
        if not pod_uid:
            raise InvalidEntryError("pod_uid is empty: an intent is about one Pod")
        heal = await self._database.row(
            Heal, INTEND, self._line(kind, subject, sentence, pod_uid, job_id, evidence, seconds)
        )
        assert heal is not None, "an upsert gives its row"
        return heal

    async def record(
        self,
        kind: str,
        subject: str,
        sentence: str,
        *,
        pod_uid: str = "",
        job_id: int | None = None,
        evidence: Mapping[str, Any] | None = None,
        seconds: float = 0.0,
    ) -> Heal:
        """It was done: closes the Pod's intent of that kind, evidence and all, or writes a line where there was none."""
        line = self._line(kind, subject, sentence, pod_uid, job_id, evidence, seconds)
        async with self._database.transaction() as connection:
            heal = await fetch_one(connection, Heal, DONE, line) or await fetch_one(connection, Heal, RECORD, line)
        assert heal is not None, "an insert gives its row"
        return heal

    async def withdraw(self, kind: str, pod_uid: str) -> bool:
        """The intent was not carried out. False if there was none."""
        return await self._database.run(WITHDRAW, [kind, pod_uid]) == 1

    async def intended(self) -> list[Heal]:
        """Intents that were neither closed nor withdrawn, oldest first."""
        return await self._database.rows(Heal, INTENDED)

    async def newest(self, limit: int = 100) -> list[Heal]:
        """The latest lines, newest first."""
        return await self._database.rows(Heal, NEWEST, [limit])

    async def count_by_kind(self, since: datetime) -> dict[str, int]:
        """How many were done since then, by kind."""
        async with self._database.connection() as connection:
            return dict(await (await connection.execute(COUNT_BY_KIND, [since])).fetchall())

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop lines older than that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])

    def _line(
        self,
        kind: str,
        subject: str,
        sentence: str,
        pod_uid: str,
        job_id: int | None,
        evidence: Mapping[str, Any] | None,
        seconds: float,
    ) -> dict[str, Any]:
        return {
            "now": self._clock.now(),
            "kind": kind,
            "subject": subject,
            "pod_uid": pod_uid,
            "job_id": job_id,
            "sentence": sentence,
            "evidence": Jsonb(dict(evidence or {})),
            "seconds": max(0.0, seconds),
        }
