"""Scale sets in the ledger: who listens to which, and how each source fares.

A source is a pool and an account (or repository). Its lease belongs to a dispatcher that beats; taking it raises the epoch,
and every later write about the source names it. What GitHub assigned is in `assignments`.
"""

import random
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.runners.ledger.database import Database, columns
from paddock.runners.ledger.errors import LedgerError
from paddock.runners.ledger.views import JobSourceView

__all__ = [
    "FIRST_JOB_ID",
    "LeaseLostError",
    "Listenable",
    "Room",
    "ScaleSetRows",
    "Source",
    "SourceState",
    "is_scale_set_job",
    "may_act_on",
]

FIRST_JOB_ID: Final = 4_503_599_627_370_496
"""From here on numbers of jobs are ours: 2^52, far above GitHub's, and exact in every reader of JSON."""

SourceState = Literal["Starting", "Listening", "Conflict", "Lost", "Refused", "Stopped"]


def is_scale_set_job(job_id: int | None) -> bool:
    """Whether the number is one of ours, which GitHub does not know."""
    return job_id is not None and job_id >= FIRST_JOB_ID


def may_act_on(minted_for: int | None, job_id: int) -> bool:
    """Whether a runner that was minted for one job may be what runs, or ran, the other.

    GitHub gives a scale set's runner no job but one that its queue announced, which stands here under a number of ours; a row
    under GitHub's own number is another's, or the same job once more.
    """
    return minted_for is None or is_scale_set_job(minted_for) == is_scale_set_job(job_id)


class LeaseLostError(LedgerError):
    """Another dispatcher listens to this source now: stop, and touch nothing more of it."""


class Source(Struct, frozen=True, kw_only=True):
    """A source as it was read. `epoch` is the lease's: every write names it.

    `asked_labels` and `asked_group` are what the set was last asked to be, whatever GitHub made of it; None where that is not
    known. `replacing_since` is when its pool began to want a set that this one cannot become; where there is none, when
    GitHub was asked for one, whose number is not known yet.
    """

    source_id: int
    pool: str
    account_id: int
    repository: str
    scale_set_id: int | None
    session_id: str
    epoch: int
    dispatcher_id: int | None
    state: str
    sentence: str
    since: datetime
    heard_at: datetime | None
    assigned: int
    running: int
    advertised: int
    asked_labels: list[str] | None = None
    asked_group: str | None = None
    replacing_since: datetime | None = None
    session_since: datetime | None = None


class Room(Struct, frozen=True, kw_only=True):
    """What an account may hold on a platform, what of it is not this source's to promise, and who wants the pool's Pods.

    `elsewhere_` is what other pools and the account's other sets of this pool hold, and what waits in those.

    `weight` is the account's own, `rivals` the weights of the others that have jobs there, added up: as many as they are
    where nobody has one.
    """

    vcpus: int
    memory_mb: int
    elsewhere_vcpus: int
    elsewhere_memory_mb: int
    rivals: int
    weight: int = 1


OWNER = """
-- scale_set_owner: the first to say so is right for good
WITH new AS (INSERT INTO scale_set_owner (owner) VALUES (%(owner)s) ON CONFLICT DO NOTHING RETURNING owner)
SELECT owner FROM new UNION ALL SELECT owner FROM scale_set_owner LIMIT 1
"""
KNOWN = """
-- know_source
INSERT INTO scale_set_sources (pool, account_id, repository, since)
VALUES (%(pool)s, %(account_id)s, %(repository)s, %(now)s) ON CONFLICT DO NOTHING
"""
TAKE = f"""
-- take_source: free, or its holder is silent. The epoch makes every write of the holder before us void.
UPDATE scale_set_sources s SET epoch = epoch + 1, dispatcher_id = %(dispatcher)s
WHERE pool = %(pool)s AND account_id = %(account_id)s AND repository = %(repository)s
  AND (dispatcher_id IS NULL OR dispatcher_id = %(dispatcher)s OR NOT EXISTS (
      SELECT FROM dispatchers d WHERE d.dispatcher_id = s.dispatcher_id AND d.seen_at >= %(silent_since)s))
RETURNING {columns(Source)}
"""
NOTE = """
-- note_source: only under the lease; `since` is when the state began
UPDATE scale_set_sources SET
    since = CASE WHEN state = %(state)s THEN since ELSE %(now)s END, state = %(state)s, sentence = %(sentence)s,
    heard_at = CASE WHEN %(heard)s THEN %(now)s ELSE heard_at END, advertised = coalesce(%(advertised)s, advertised),
    assigned = coalesce(%(assigned)s, assigned), running = coalesce(%(running)s, running)
WHERE source_id = %(source_id)s AND epoch = %(epoch)s
"""
RECORD = """
-- record_source: the set's number, the session, and what the set was asked to be; only under the lease
UPDATE scale_set_sources SET scale_set_id = %(scale_set_id)s, session_id = %(session_id)s,
    session_since = %(session_since)s, asked_labels = %(asked_labels)s, asked_group = %(asked_group)s, replacing_since = %(replacing_since)s
WHERE source_id = %(source_id)s AND epoch = %(epoch)s
"""
GIVE_BACK = """
-- give_back_source
UPDATE scale_set_sources SET dispatcher_id = NULL, session_id = %(session_id)s
WHERE source_id = %(source_id)s AND epoch = %(epoch)s
"""
SOURCES = f"""
-- sources
SELECT {columns(Source)} FROM scale_set_sources ORDER BY pool, account_id, repository
"""
LISTENED = """
-- accounts_listened_to: those that have or had a scale set
SELECT DISTINCT account_id FROM scale_set_sources
"""
STARTING = """
-- starting_sources: those that were not listened to yet, or that are to begin anew
SELECT pool, account_id, repository, since FROM scale_set_sources WHERE state = 'Starting'
"""
VIEWS = """
-- job_source_views
SELECT s.pool, a.login, s.repository, s.state, s.sentence, s.since, s.heard_at, s.assigned, s.advertised
FROM scale_set_sources s JOIN accounts a USING (account_id) WHERE s.state <> 'Stopped' ORDER BY s.pool, a.login, s.repository
"""
ROOM = """
-- room_of_source: what other jobs of the account hold, and what waits in its other sets of this pool. A claim without a job counts as
-- the source's own: its runner takes one of the set's.
WITH held AS (
    SELECT c.vcpus, c.memory_mb FROM claims c JOIN limits l USING (limit_id)
    WHERE l.account_id = %(account_id)s AND l.platform = %(platform)s
      AND (c.pool <> %(pool)s OR (c.job_id IS NOT NULL AND NOT EXISTS (
          SELECT FROM scale_set_jobs a WHERE a.job_id = c.job_id AND a.source_id = %(source_id)s)))
    UNION ALL
    SELECT j.vcpus, j.memory_mb FROM scale_set_sources s JOIN scale_set_jobs a USING (source_id) JOIN jobs j USING (job_id)
    WHERE s.account_id = %(account_id)s AND s.pool = %(pool)s AND s.source_id <> %(source_id)s AND j.status = 'queued'
), elsewhere AS (
    SELECT coalesce(sum(vcpus), 0)::integer AS vcpus, coalesce(sum(memory_mb), 0)::integer AS memory_mb FROM held
)
SELECT l.vcpus, l.memory_mb, e.vcpus AS elsewhere_vcpus, e.memory_mb AS elsewhere_memory_mb,
    (SELECT coalesce(sum(coalesce(p.weight, 1)), 0) FROM scale_set_sources s
     LEFT JOIN precedence p ON p.account_id = s.account_id AND p.repository_id = 0
     WHERE s.pool = %(pool)s AND s.source_id <> %(source_id)s AND s.assigned > 0)::integer AS rivals,
    coalesce((SELECT p.weight FROM precedence p
              WHERE p.account_id = %(account_id)s AND p.repository_id = 0), 1) AS weight
FROM limits l, elsewhere e WHERE l.account_id = %(account_id)s AND l.platform = %(platform)s
"""
REPOSITORY = """
-- number_of_repository: GitHub's queue tells names only; whoever has a limit, a line or a precedence of its own was looked up by a person
SELECT repository_id FROM (
    SELECT repository_id, name FROM repository_limits WHERE account_id = %(account_id)s
    UNION ALL SELECT repository_id, name FROM allow_list WHERE account_id = %(account_id)s AND repository_id <> 0
    UNION ALL SELECT repository_id, name FROM precedence WHERE account_id = %(account_id)s AND repository_id <> 0
) known WHERE lower(name) = lower(%(name)s) LIMIT 1
"""
QUARANTINE = """
-- quarantine_entry
INSERT INTO scale_set_messages (source_id, digest, message_id, at, why, body)
VALUES (%(source_id)s, %(digest)s, %(message_id)s, %(now)s, %(why)s, %(body)s) ON CONFLICT DO NOTHING
"""
FORGET = """
-- forget_entries: what was set aside long ago; a bounded bite
DELETE FROM scale_set_messages WHERE (source_id, digest) IN (
    SELECT source_id, digest FROM scale_set_messages WHERE at < %s ORDER BY at LIMIT %s)
"""
ALLOWED = """
-- accounts_that_may_listen: installed, and named on the list, themselves or with a repository
SELECT a.account_id, a.login, a.installation_id,
    bool_and(e.allowed) AND bool_or(e.repository_id = 0) AS whole,
    coalesce(array_agg(e.name ORDER BY e.name) FILTER (WHERE e.repository_id <> 0 AND e.allowed), '{}') AS repositories
FROM accounts a JOIN allow_list e USING (account_id)
WHERE a.installation_id IS NOT NULL
GROUP BY a.account_id, a.login, a.installation_id HAVING bool_or(e.allowed) ORDER BY a.account_id
"""

NOT_LISTED = """
-- installed_and_not_listed: nobody has decided about them; whoever was denied was decided about
SELECT a.login FROM accounts a WHERE a.installation_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM allow_list e WHERE e.account_id = a.account_id) ORDER BY a.login LIMIT %s
"""


class Listenable(Struct, frozen=True):
    """An account that may run jobs: wholly, without an exception, or with these repositories ("owner/name") alone."""

    account_id: int
    login: str
    installation_id: int
    whole: bool = True
    repositories: list[str] = []


class _Login(Struct, frozen=True):
    login: str


class ScaleSetRows:
    def __init__(self, database: Database, clock: Clock, rng: random.Random) -> None:
        self._database = database
        self._clock = clock
        self._rng = rng

    # Sources

    async def owner(self) -> str:
        """The name of this ledger, drawn once, by which sets that it made are known again."""
        return await self._database.value(OWNER, {"owner": new_uuid(self._rng)})

    async def take(
        self, pool: str, account_id: int, repository: str, *, dispatcher: int, silent_since: datetime
    ) -> Source | None:
        """The lease on a source, with a new epoch; None while a dispatcher that beats has it."""
        key = {"pool": pool, "account_id": account_id, "repository": repository}
        await self._database.run(KNOWN, {**key, "now": self._clock.now()})
        return await self._database.row(Source, TAKE, {**key, "dispatcher": dispatcher, "silent_since": silent_since})

    async def note(
        self,
        source: Source,
        state: SourceState,
        sentence: str = "",
        *,
        heard: bool = False,
        advertised: int | None = None,
        assigned: int | None = None,
        running: int | None = None,
    ) -> None:
        """How the source fares. LeaseLostError if it is another's now."""
        values = {
            "state": state,
            "sentence": sentence[:1000],
            "heard": heard,
            "advertised": advertised,
            "assigned": assigned,
            "running": running,
            "now": self._clock.now(),
            "source_id": source.source_id,
            "epoch": source.epoch,
        }
        if await self._database.run(NOTE, values) == 0:
            raise _lost(source)

    async def record(self, source: Source) -> None:
        """Its set, the session that stands, so that whoever comes next can close it, and what was asked for. LeaseLostError."""
        fields = ("source_id", "epoch", "scale_set_id", "session_id", "session_since")
        asked = ("asked_labels", "asked_group", "replacing_since")
        if await self._database.run(RECORD, {name: getattr(source, name) for name in (*fields, *asked)}) == 0:
            raise _lost(source)

    async def give_back(self, source: Source) -> None:
        """The source is free for others at once, with the session that the caller leaves open, if any, for them to close.

        Nothing happens if it is another's already.
        """
        values = {"source_id": source.source_id, "epoch": source.epoch, "session_id": source.session_id}
        await self._database.run(GIVE_BACK, values)

    async def sources(self) -> list[Source]:
        return await self._database.rows(Source, SOURCES)

    async def listened(self) -> frozenset[int]:
        """The accounts that have a scale set, or had one."""
        async with self._database.connection() as connection:
            return frozenset(number for (number,) in await (await connection.execute(LISTENED)).fetchall())

    async def starting(self) -> dict[tuple[str, int, str], datetime]:
        """Sources (pool, account, repository) whose listener is to begin, and since when."""
        async with self._database.connection() as connection:
            found = await (await connection.execute(STARTING)).fetchall()
        return {(pool, account_id, repository): since for pool, account_id, repository, since in found}

    async def views(self) -> list[JobSourceView]:
        """Every source that is to be listened to, as people are shown it."""
        return await self._database.rows(JobSourceView, VIEWS)

    async def listenable(self) -> list[Listenable]:
        """Accounts with the App installed that may run jobs, wholly or with some repository."""
        return await self._database.rows(Listenable, ALLOWED)

    async def not_listed(self, limit: int = 20) -> list[str]:
        """Logins with the App installed of which the allow list says nothing, neither yes nor no; so many at most."""
        return [row.login for row in await self._database.rows(_Login, NOT_LISTED, [limit])]

    async def room(self, source: Source, platform: str) -> Room | None:
        """What the account may hold, and what of it this source cannot promise; None for one without a limit."""
        params = {"pool": source.pool, "source_id": source.source_id, "account_id": source.account_id}
        return await self._database.row(Room, ROOM, {**params, "platform": platform})

    async def repository_id(self, account_id: int, name: str) -> int:
        """GitHub's number of a repository that has a limit or a line of its own; 0 for every other."""
        return await self._database.value(REPOSITORY, {"account_id": account_id, "name": name}) or 0

    # Entries set aside

    async def quarantine(self, source: Source, *, message_id: int, digest: str, why: str, body: str) -> None:
        """Keep an entry that could not be read or written. Repeatable."""
        params = {"source_id": source.source_id, "digest": digest, "message_id": message_id, "why": why[:1000]}
        await self._database.run(QUARANTINE, {**params, "now": self._clock.now(), "body": body[:65_536]})

    async def forget(self, before: datetime, *, limit: int = 10_000) -> int:
        """Drop entries that were set aside before that; gives how many. Call again while it gives `limit`."""
        return await self._database.run(FORGET, [before, limit])


def _lost(source: Source) -> LeaseLostError:
    return LeaseLostError(f"the lease on scale set source {source.source_id} (epoch {source.epoch}) is another's")
