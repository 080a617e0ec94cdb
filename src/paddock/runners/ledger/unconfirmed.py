"""What healing reads to form a verdict, and the writes that hold only if everything the verdict stood on is still so.

A claim keeps its generation when it is minted and when GitHub binds it to another job. So a write that ends one here names
beside the generation whatever else was read (state, job, whether the runner was heard to execute), checks it under the
row's lock, and changes nothing if any of it has moved on: the next pass reads again.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, LiteralString

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Connection, Database, columns, fetch_all, fetch_one
from paddock.runners.ledger.job_statements import COMPLETE, FINISH, LOCK, REQUEUE
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.rows import Ended, HeldPod, Job, Session
from paddock.runners.ledger.scale_sets import FIRST_JOB_ID

__all__ = ["FinishedClaim", "SeenRepository", "UnconfirmedClaims"]

_NEWEST = 100_000
"""Among so many jobs a repository's number is looked for: some hours of a thousand Macs, and a bounded read."""

OVER = f"""
-- claims_of_finished_jobs: with what is known of the runner's other job, if it has one
SELECT {columns(HeldPod, "c.")},
       f.conclusion, f.runner_name AS executor, f.recorded_at,
       coalesce(s.executed_job_id <> c.job_id
                AND NOT EXISTS (SELECT FROM completions o WHERE o.job_id = s.executed_job_id), false) AS busy_elsewhere
FROM claims c JOIN completions f USING (job_id) LEFT JOIN sessions s ON s.pod_uid = c.pod_uid
WHERE c.state <> 'fenced' ORDER BY c.claimed_at, c.pod_uid
"""
DISPLACED = f"""
-- displaced_claims: minted, and their job has been another runner's since before that
SELECT {columns(HeldPod)} FROM claims
WHERE state = 'running' AND job_id IS NULL AND coalesce(displaced_at, claimed_at) < %s ORDER BY claimed_at, pod_uid
"""
HOLD_BACK = """
-- hold_back: GitHub holds back what has just been put back, so that it must not be handed out in between
UPDATE jobs SET status = 'waiting', changed_at = %(now)s, changed_by = %(by)s, changed_why = %(why)s
WHERE job_id = %(job_id)s AND status = 'queued'
"""
STILL_UNMINTED = """
-- still_unminted
SELECT generation FROM claims WHERE pod_uid = %(uid)s AND generation = %(generation)s AND state = 'claimed' FOR UPDATE
"""
STILL_DISPLACED = """
-- still_displaced: minted, and no job of ours is behind it
SELECT generation FROM claims WHERE pod_uid = %(uid)s AND generation = %(generation)s AND state = 'running'
AND job_id IS NULL FOR UPDATE
"""
STILL_OVER = """
-- still_over: the same claim of the same job, which is over
SELECT c.generation FROM claims c WHERE c.pod_uid = %(uid)s AND c.generation = %(generation)s AND c.job_id = %(job_id)s
AND EXISTS (SELECT FROM completions f WHERE f.job_id = c.job_id) FOR UPDATE OF c
"""
END_CLAIMS = """
-- end_doubted_claim
SELECT * FROM end_claims(ARRAY[%(generation)s::bigint], %(requeue)s, NULL, false, %(by)s, %(why)s, %(now)s)
"""
HELD_FOR = f"""
-- claim_held_for_job
SELECT {columns(HeldPod)}
FROM claims WHERE job_id = %s FOR UPDATE
"""
STILL_RUNNING = f"""
-- still_running: under the same claim, on the same Pod, by the same runner
SELECT {columns(Job)} FROM jobs WHERE job_id = %(job_id)s AND status = 'running' AND generation IS NOT DISTINCT FROM %(generation)s
AND pod_uid IS NOT DISTINCT FROM %(pod_uid)s AND runner_name IS NOT DISTINCT FROM %(runner_name)s FOR UPDATE
"""
STILL_QUEUED = f"""
-- still_queued
SELECT {columns(Job)} FROM jobs WHERE job_id = %s AND status IN ('waiting', 'unserved', 'queued') FOR UPDATE
"""
RENEW = """
-- renew_place: a job that still waits as it was read counts as waiting since a later moment; the old are not handed out
UPDATE jobs SET enqueued_at = %(since)s
WHERE job_id = %(job_id)s AND status IN ('queued', 'unserved') AND enqueued_at = %(read)s AND enqueued_at < %(since)s
"""
KNOWN = """
-- known_jobs: announced here, or over. Not those that no pool serves: the queue of a scale set may be silent about one of them
SELECT job_id FROM jobs WHERE job_id = ANY (%(ids)s) AND status <> 'unserved' UNION SELECT job_id FROM completions WHERE job_id = ANY (%(ids)s)
"""
INSTALLATIONS = """
-- installations_of_accounts
SELECT account_id, installation_id FROM accounts WHERE account_id = ANY (%s) AND installation_id IS NOT NULL
"""
SESSIONS = f"""
-- sessions_of_pods
SELECT {columns(Session)} FROM sessions WHERE pod_uid = ANY (%s)
"""
REPOSITORIES = """
-- repositories_seen: that were handed a runner since then, or wait for one, or run
SELECT DISTINCT a.account_id, a.installation_id, seen.repository FROM (
    SELECT account_id, repository FROM sessions WHERE started_at > %(since)s
    UNION SELECT account_id, repository FROM jobs WHERE status = 'queued'
    UNION SELECT account_id, repository FROM jobs WHERE status IN ('waiting', 'unserved')
    UNION SELECT account_id, repository FROM jobs WHERE status = 'running'
) seen JOIN accounts a USING (account_id)
WHERE a.installation_id IS NOT NULL AND seen.repository LIKE '%%/%%' AND seen.repository NOT LIKE '%%/(unknown)'
ORDER BY a.installation_id, seen.repository
"""
REPOSITORY_NUMBER = """
-- number_of_repository_heard: that of the newest job of this name; a name may have had another repository before
SELECT repository_id FROM (
    SELECT job_id, account_id, repository, repository_id FROM jobs WHERE job_id < %(ours)s ORDER BY job_id DESC LIMIT %(newest)s
) newest
WHERE account_id = %(account_id)s AND repository_id <> 0 AND lower(repository) = lower(%(name)s) ORDER BY job_id DESC LIMIT 1
"""
ENDED_RUNNERS = f"""
-- runners_by_name: whose session is known, with the Pod's uid and whether it ended
SELECT {columns(Session)} FROM sessions WHERE account_id = ANY (%(accounts)s) AND runner_name = ANY (%(names)s)
"""
HELD_RUNNERS = """
-- runners_held: names under a live claim
SELECT runner_name FROM claims WHERE account_id = ANY (%(accounts)s) AND runner_name = ANY (%(names)s)
"""


class FinishedClaim(HeldPod, frozen=True, kw_only=True):
    """A live claim whose job is over, and how it is known."""

    conclusion: str
    executor: str | None
    recorded_at: datetime
    busy_elsewhere: bool


class SeenRepository(Struct, frozen=True):
    """A repository that we serve."""

    account_id: int
    installation_id: int
    repository: str


class UnconfirmedClaims:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications

    async def finished_claims(self) -> list[FinishedClaim]:
        """Claims whose job is over, oldest first."""
        return await self._database.rows(FinishedClaim, OVER)

    async def displaced(self, *, since_before: datetime) -> list[HeldPod]:
        """Claims of runners whose job has been another runner's since before that, oldest first."""
        return await self._database.rows(HeldPod, DISPLACED, [since_before])

    async def release_unminted(self, claim: HeldPod, *, by: str, why: str) -> Ended | None:
        """End the claim if it is still the same and still unminted; its job waits again."""
        return await self._end(STILL_UNMINTED, claim, requeue="live", by=by, why=why)

    async def release_displaced(self, claim: HeldPod, *, by: str, why: str) -> Ended | None:
        """End the claim if it still is without a job: one that GitHub has given its runner since counts, and stays."""
        return await self._end(STILL_DISPLACED, claim, requeue="none", by=by, why=why)

    async def release_finished(self, claim: HeldPod, *, by: str, why: str) -> Ended | None:
        """End the claim if it still is of the same job, and that job is over. Puts nothing back."""
        return await self._end(STILL_OVER, claim, requeue="none", by=by, why=why)

    async def put_back(self, job: Job, *, heard: datetime | None, by: str, why: str, held: bool = False) -> bool:
        """A running job waits again in its old place, with the end of its claim if it still has one: all or nothing.

        `held`: GitHub holds it back for an approval, so that it waits outside of the line.

        False, and nothing changed, if the job is not running any more as `job` says, or if its claim is another one, or
        was heard to execute at another moment than `heard` (None: never).
        """
        words = {"job_id": job.job_id, "now": self._clock.now(), "by": by, "why": why, "generation": job.generation}
        async with self._database.transaction() as connection:
            await connection.execute(LOCK, [job.job_id])
            claim = await fetch_one(connection, HeldPod, HELD_FOR, [job.job_id])
            if claim is not None and (claim.generation != job.generation or claim.executing_since != heard):
                return False
            still = {**words, "pod_uid": job.pod_uid, "runner_name": job.runner_name}
            if await fetch_one(connection, Job, STILL_RUNNING, still) is None:
                return False
            if claim is not None:
                await fetch_all(connection, Ended, END_CLAIMS, {**words, "requeue": "live"})
            else:
                await connection.execute(REQUEUE, words)
            if held:
                await connection.execute(HOLD_BACK, words)
        await self._notifications.hint(job.pool)
        return True

    async def give_up(self, job: Job, *, conclusion: str, by: str, why: str) -> bool:
        """End a job that waits, if it still waits: a dispatcher that has taken it since is left alone."""
        now = self._clock.now()
        end = {
            "job_id": job.job_id,
            "account_id": job.account_id,
            "conclusion": conclusion,
            "runner_name": None,
            "started_at": None,
            "completed_at": now,
            "status": "completed",
            "now": now,
            "by": by,
            "why": why,
        }
        async with self._database.transaction() as connection:
            await connection.execute(LOCK, [job.job_id])
            if await fetch_one(connection, Job, STILL_QUEUED, [job.job_id]) is None:
                return False
            await connection.execute(COMPLETE, end)
            await connection.execute(FINISH, end)
        return True

    async def renew(self, job: Job, since: datetime) -> bool:
        """Let a waiting job count as waiting since then only, because GitHub says that it does wait. False: it moved on."""
        read = {"job_id": job.job_id, "read": job.enqueued_at, "since": since}
        if await self._database.run(RENEW, read) == 0:
            return False
        await self._notifications.hint(job.pool)
        return True

    async def known(self, job_ids: Collection[int]) -> frozenset[int]:
        """Those of these jobs that were ever heard of."""
        return frozenset(number for (number,) in await self._tuples(KNOWN, {"ids": list(job_ids)}))

    async def installations(self, accounts: Collection[int]) -> dict[int, int]:
        """The installation of each of these accounts that has one."""
        return dict(await self._tuples(INSTALLATIONS, [list(accounts)]))

    async def sessions(self, pod_uids: Collection[str]) -> dict[str, Session]:
        """The sessions of these Pods, by uid."""
        return {one.pod_uid: one for one in await self._database.rows(Session, SESSIONS, [list(pod_uids)])}

    async def repositories(self, since: datetime) -> list[SeenRepository]:
        """Repositories that were handed a runner since then, or wait for one, or run."""
        return await self._database.rows(SeenRepository, REPOSITORIES, {"since": since})

    async def repository_id(self, account_id: int, name: str) -> int:
        """GitHub's number of a repository, as the newest announced job of that name told it; 0 where none did lately."""
        params = {"account_id": account_id, "name": name, "ours": FIRST_JOB_ID, "newest": _NEWEST}
        return await self._database.value(REPOSITORY_NUMBER, params) or 0

    async def sessions_by_runner(self, accounts: Collection[int], names: Collection[str]) -> dict[str, Session]:
        """The sessions of runners of these names, within these accounts."""
        params = {"accounts": list(accounts), "names": list(names)}
        return {one.runner_name: one for one in await self._database.rows(Session, ENDED_RUNNERS, params)}

    async def held_runners(self, accounts: Collection[int], names: Collection[str]) -> frozenset[str]:
        """Those of these names that stand in a live claim."""
        params = {"accounts": list(accounts), "names": list(names)}
        return frozenset(name for (name,) in await self._tuples(HELD_RUNNERS, params))

    async def _end(self, still: LiteralString, claim: HeldPod, *, requeue: str, by: str, why: str) -> Ended | None:
        read = {"uid": claim.pod_uid, "generation": claim.generation, "job_id": claim.job_id}
        words = {**read, "requeue": requeue, "by": by, "why": why, "now": self._clock.now()}
        async with self._database.transaction() as connection:
            # Locked before it is ended: what was just found true stays true until the end of this transaction.
            if await (await connection.execute(still, read)).fetchone() is None:
                return None
            ended = await fetch_all(connection, Ended, END_CLAIMS, words)
        await self._notifications.hint(*(one.pool for one in ended))
        return ended[0] if ended else None

    async def _tuples(self, statement: LiteralString, params: Any) -> list[tuple[Any, ...]]:
        async with self._database.connection() as connection:
            return await _all(connection, statement, params)


async def _all(connection: Connection, statement: LiteralString, params: Any) -> list[tuple[Any, ...]]:
    return await (await connection.execute(statement, params)).fetchall()
