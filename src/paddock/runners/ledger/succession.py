"""A scale set goes from one source to another: the pool was deleted, and another one has its dispatch label.

The set at GitHub is the same, so its assignments are, too. They go over with it, and jobs that no Pod has follow to the pool
that has Pods.
"""

from datetime import datetime

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.database import Connection, Database, columns, fetch_one
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.scale_sets import LeaseLostError, Source

__all__ = ["Succession"]

HOLDER = """
-- holder_of_scale_set: another source of this place that has the set as its own
SELECT pool FROM scale_set_sources
WHERE scale_set_id = %(scale_set_id)s AND account_id = %(account_id)s AND repository = %(repository)s
  AND source_id <> %(source_id)s ORDER BY source_id LIMIT 1
"""
LEASE = """
-- lease_of_heir
SELECT 1 FROM scale_set_sources WHERE source_id = %(source_id)s AND epoch = %(epoch)s FOR UPDATE
"""
FORMER = """
-- former_source
SELECT source_id, session_id, asked_labels, asked_group, replacing_since FROM scale_set_sources
WHERE scale_set_id = %(scale_set_id)s AND account_id = %(account_id)s AND repository = %(repository)s
  AND source_id <> %(source_id)s ORDER BY source_id LIMIT 1 FOR UPDATE
"""
GIVE_UP = """
-- give_up_source: whoever listens for it has lost the lease, and so never deletes the set
UPDATE scale_set_sources SET epoch = epoch + 1, dispatcher_id = NULL, scale_set_id = NULL, session_id = '', state = 'Stopped',
    sentence = %(sentence)s, since = %(now)s, assigned = 0, running = 0, advertised = 0, replacing_since = NULL
WHERE source_id = %(former)s
"""
ASSIGNMENTS = """
-- assignments_of_heir: all of them, so that a message which comes again finds what it speaks of
UPDATE scale_set_jobs a SET source_id = %(source_id)s WHERE a.source_id = %(former)s
  AND NOT EXISTS (SELECT FROM scale_set_jobs k WHERE k.source_id = %(source_id)s AND k.assignment = a.assignment)
"""
INHERIT = f"""
-- inherit_scale_set
UPDATE scale_set_sources SET scale_set_id = %(scale_set_id)s, session_id = %(session_id)s, asked_labels = %(asked_labels)s,
    asked_group = %(asked_group)s, replacing_since = %(replacing_since)s
WHERE source_id = %(source_id)s RETURNING {columns(Source)}
"""
LEFT_BEHIND = """
-- pools_of_jobs_left_behind: where jobs are to go that wait in a pool which their scale set is not of
SELECT DISTINCT s.pool FROM scale_set_jobs a JOIN jobs j USING (job_id) JOIN scale_set_sources s USING (source_id)
WHERE j.status = 'queued' AND j.pool <> s.pool
"""
FOLLOW = """
-- jobs_follow_their_set: those that nobody is taking or speaking of at this moment
WITH free AS MATERIALIZED (
    SELECT j.job_id FROM jobs j JOIN scale_set_jobs a USING (job_id) JOIN scale_set_sources s USING (source_id)
    WHERE j.status = 'queued' AND s.pool = %(pool)s AND j.pool <> s.pool ORDER BY j.job_id FOR UPDATE OF j SKIP LOCKED
), ours AS MATERIALIZED (
    SELECT job_id FROM free WHERE pg_try_advisory_xact_lock(job_lock_key(job_id))
)
UPDATE jobs SET pool = %(pool)s, platform = %(platform)s, vcpus = %(vcpus)s, memory_mb = %(memory_mb)s,
    changed_at = %(now)s, changed_by = 'scale set', changed_why = %(why)s
FROM ours WHERE ours.job_id = jobs.job_id
"""


class _Former(Struct, frozen=True):
    source_id: int
    session_id: str
    asked_labels: list[str] | None
    asked_group: str | None
    replacing_since: datetime | None


class _Behind(Struct, frozen=True):
    pool: str


class Succession:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications

    async def holder(self, source: Source, scale_set_id: int) -> str | None:
        """The pool whose source has this set as its own; None if there is no other."""
        return await self._database.value(HOLDER, _key(source, scale_set_id))

    async def inherit(self, source: Source, scale_set_id: int) -> Source:
        """Set, session and assignments of the other source are this one's from now on. LeaseLostError.

        One transaction: died before its commit, nothing has happened; after it, the heir has everything. The session is
        still the former listener's: the heir closes it before it opens its own.
        """
        key = _key(source, scale_set_id)
        async with self._database.transaction() as connection:
            if await (await connection.execute(LEASE, {**key, "epoch": source.epoch})).fetchone() is None:
                raise LeaseLostError(f"the lease on scale set source {source.source_id} is another's")
            former = await fetch_one(connection, _Former, FORMER, key)
            if former is None:
                return source  # another process was first, or the set was given up: the caller looks again
            return await self._hand_over(connection, source, former, key)

    async def _hand_over(
        self, connection: Connection, source: Source, former: _Former, key: dict[str, object]
    ) -> Source:
        gone = {"former": former.source_id, "now": self._clock.now()}
        await connection.execute(GIVE_UP, {**gone, "sentence": f"pool {source.pool} has its scale set now"})
        await connection.execute(ASSIGNMENTS, {**key, **gone})
        kept = {name: getattr(former, name) for name in ("session_id", "asked_labels", "asked_group")}
        mine = await fetch_one(connection, Source, INHERIT, {**key, **kept, "replacing_since": former.replacing_since})
        assert mine is not None  # its row is locked
        return mine

    async def left_behind(self) -> list[str]:
        """Pools to which waiting jobs of their scale sets have yet to follow."""
        return [row.pool for row in await self._database.rows(_Behind, LEFT_BEHIND)]

    async def follow(self, pool: RunnerPool) -> int:
        """Jobs of this pool's scale sets that wait in another pool come here; gives how many. Repeatable.

        A job that a Pod has stays where it is: its runner is of this set already.
        """
        name = pool.metadata.name
        params = {"pool": name, "platform": pool.platform, "vcpus": pool.vcpus, "memory_mb": pool.spec.pod_memory_mb}
        params |= {"now": self._clock.now(), "why": f"pool {name} has the scale set that the job was assigned to"}
        moved = await self._database.run(FOLLOW, params)
        if moved:
            await self._notifications.hint(name)
        return moved


def _key(source: Source, scale_set_id: int) -> dict[str, object]:
    return {
        "scale_set_id": scale_set_id,
        "account_id": source.account_id,
        "repository": source.repository,
        "source_id": source.source_id,
    }
