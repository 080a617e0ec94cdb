"""The ledger's side of healing: what leaked, and the guarded ways to let go of it.

Each way ends claims through the one function that also puts the job back and writes the log. What was read is named again
in the write (generation, moment of absence), so a worker that decided on old news changes nothing.
"""

from collections.abc import Collection
from datetime import datetime
from typing import LiteralString

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, columns, fetch_all
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.rows import Ended, HeldPod, Job
from paddock.runners.ledger.sessions import Sessions

__all__ = ["PodStopped", "Recovery"]

STALE = f"""
-- stale_claims: never minted, and either old or left by a dispatcher that stopped beating
SELECT {columns(HeldPod, "c.")}
FROM claims c LEFT JOIN dispatchers d USING (dispatcher_id)
WHERE c.state = 'claimed' AND (c.claimed_at < %(before)s OR d.seen_at < %(silent_since)s)
ORDER BY c.claimed_at, c.pod_uid
"""
NOTE_MISSING = """
-- note_missing: the first absence is remembered, a reappearance forgets it
WITH concerned AS (
    SELECT pod_uid FROM claims
    WHERE state <> 'fenced' AND claimed_at < %(claimed_before)s
      AND (missing_since IS NULL) <> (pod_uid = ANY (%(present)s))
    ORDER BY pod_uid FOR UPDATE
)
UPDATE claims c SET missing_since = CASE WHEN c.pod_uid = ANY (%(present)s) THEN NULL ELSE coalesce(missing_since, %(now)s) END
FROM concerned WHERE concerned.pod_uid = c.pod_uid
"""
MISSING = f"""
-- missing_claims: oldest absence first
SELECT {columns(HeldPod)}
FROM claims WHERE missing_since < %s AND state <> 'fenced' ORDER BY missing_since, pod_uid
"""
RELEASE_MISSING = """
-- release_missing: only what is still missing since the moments that were read; what was never minted waits again, a job
-- that was handed over is left for GitHub to speak about: the machine of a Pod that was deleted by force may work on
SELECT * FROM end_claims((
    SELECT array_agg(c.generation) FROM claims c
    JOIN unnest(%(generations)s::bigint[], %(since)s::timestamptz[]) AS read (generation, missing_since)
      ON read.generation = c.generation AND read.missing_since = c.missing_since
), 'unminted', NULL, false, %(by)s, %(why)s, %(now)s)
"""
RELEASE_STOPPED = """
-- release_stopped: what was never minted waits again; a job that was handed over is left for GitHub to speak about
SELECT * FROM end_claims((SELECT array_agg(generation) FROM claims
                          WHERE pod_uid = %(uid)s AND (state = 'claimed' OR %(minted)s)), 'unminted', NULL, false, %(by)s, %(why)s, %(now)s)
"""
RUNNING_ON = f"""
-- jobs_running_on: by the Pod, whether its claim is still there or not
SELECT {columns(Job)} FROM jobs WHERE status = 'running' AND pod_uid = %s ORDER BY job_id
"""


class PodStopped(Struct, frozen=True):
    """What a Pod's end left behind: jobs that ran on it, whose fate only GitHub knows."""

    session_ended: bool
    released: tuple[Ended, ...]
    unsettled: tuple[Job, ...]


class Recovery:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications, sessions: Sessions) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications
        self._sessions = sessions

    async def stale(self, *, claimed_before: datetime, silent_since: datetime) -> list[HeldPod]:
        """Claims that were never minted and are older than that, or whose dispatcher was last seen before `silent_since`.

        Release each with `Claims.release`; a claim whose dispatcher turned out to live is refused when it confirms.
        """
        return await self._database.rows(HeldPod, STALE, {"before": claimed_before, "silent_since": silent_since})

    async def note_pods(self, present: Collection[str], *, claimed_before: datetime) -> int:
        """Remember which claims older than that have no Pod, given the uids of ALL Pods there are; gives how many changed.

        Call it only with a complete and plausible list: an error or a suddenly empty list is not evidence.
        """
        params = {"present": list(present), "now": self._clock.now(), "claimed_before": claimed_before}
        return await self._database.run(NOTE_MISSING, params)

    async def missing(self, *, since_before: datetime) -> list[HeldPod]:
        """Claims whose Pod has been missing since before that, longest first."""
        return await self._database.rows(HeldPod, MISSING, [since_before])

    async def release_missing(self, claims: Collection[HeldPod], *, by: str, why: str) -> list[Ended]:
        """End those of these claims that are still missing since the very moment that was read.

        A job that was never minted waits again; ask GitHub about the others.
        """
        params = {
            "generations": [claim.generation for claim in claims],
            "since": [claim.missing_since for claim in claims],
        }
        return await self._end(RELEASE_MISSING, params, by=by, why=why)

    async def pod_stopped(
        self, pod_uid: str, ended_at: datetime, *, by: str, why: str, minted: bool = True
    ) -> PodStopped:
        """The Pod ended: its session ends, its claim too. A job that was never minted waits again.

        Not `minted`: the Pod is gone, and nobody saw it end. Its runner may live on, so that a claim that was minted stays
        until GitHub has no such runner any more (`healing`).

        Repeatable, and right at whichever of the three steps it was interrupted: each finds its own work.
        """
        session_ended = await self._sessions.end(pod_uid, ended_at, by=by, why=why)
        released = await self._end(RELEASE_STOPPED, {"uid": pod_uid, "minted": minted}, by=by, why=why)
        unsettled = await self._database.rows(Job, RUNNING_ON, [pod_uid])
        return PodStopped(session_ended, tuple(released), tuple(unsettled))

    async def _end(self, statement: LiteralString, params: dict[str, object], *, by: str, why: str) -> list[Ended]:
        async with self._database.connection() as connection:
            ended = await fetch_all(
                connection,
                Ended,
                statement,
                {**params, "by": by, "why": why, "now": self._clock.now()},
            )
        await self._notifications.hint(*(claim.pool for claim in ended))
        return ended
