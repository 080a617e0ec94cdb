"""Claiming a job for a waiting Pod, confirming the claim after the mint, and giving it back.

One statement does all of admission (`migrations/0003_admission.sql`): it ranks, takes Pod and job, passes the account's
turnstile, counts, and moves the job. A crash of either side leaves all of it or nothing.
"""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, LiteralString, NamedTuple

from psycopg.rows import dict_row

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.runners.ledger.database import Database, Params, columns, fetch_all
from paddock.runners.ledger.errors import InvalidEntryError, JobGoneError, StaleClaimError
from paddock.runners.ledger.group_commit import GroupCommit
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.rows import Claim, Ended, HeldPod, Outcome, Pod, Tenant

__all__ = ["LARGEST_BATCH", "Claims", "Scope"]

LARGEST_BATCH = 256
"""Waiting Pods in one statement; every job taken costs a lock until the statement ends."""

Scope = Literal["job", "repository", "account"]
"""Whom a failed mint speaks for: this job, every job of the repository, or every job of the account."""

_MINT_BACKOFF = Backoff(base=5.0, cap=900.0, factor=2.0, jitter=0.25)

CLAIM_JOBS = """
-- claim_jobs: the pool's next jobs to these waiting Pods, and of each account what a mint must know
SELECT answer.*, (SELECT installation_id FROM accounts WHERE accounts.account_id = answer.account_id), coalesce((
    SELECT bool_and(line.allowed) AND bool_or(line.repository_id = 0) FROM allow_list line WHERE line.account_id = answer.account_id
), false) AS wholly_allowed
FROM claim_jobs(%(pool)s, %(uids)s, %(names)s, %(dispatcher)s, %(by)s, %(now)s) answer
"""
CLAIMS_TO_COMMIT = """
-- claims_to_commit: all of them before any job, in the order of locks
SELECT FROM claims WHERE pod_uid = ANY (%(uids)s) ORDER BY pod_uid FOR UPDATE
"""
JOBS_TO_COMMIT = """
-- jobs_to_commit: in the order of locks
SELECT FROM jobs WHERE job_id IN (SELECT job_id FROM claims WHERE pod_uid = ANY (%(uids)s)) ORDER BY job_id FOR UPDATE
"""
COMMIT = """
-- commit_claims: each for itself, one account's setbacks after the other's
SELECT said.uid, commit_claim_at(said.uid, said.generation, said.runner_name, said.place, said.by,
                                 'runner ' || said.runner_name || ' was minted', %(now)s)
FROM (
    SELECT said.* FROM unnest(%(uids)s::text[], %(generations)s::bigint[], %(runner_names)s::text[], %(places)s::text[],
                              %(by)s::text[]) AS said (uid, generation, runner_name, place, by)
    LEFT JOIN claims c ON c.pod_uid = said.uid LEFT JOIN jobs j ON j.job_id = c.job_id
    ORDER BY c.account_id, j.repository
) said
"""
RELEASE = """
-- release
SELECT * FROM end_claims(
    (SELECT array_agg(generation) FROM claims WHERE generation = %(generation)s AND pod_uid = %(uid)s),
    'live', %(not_before)s, %(failed)s, %(by)s, %(why)s, %(now)s)
"""
SETBACK = """
-- setback: leave the account or the repository alone for a while
INSERT INTO setbacks (account_id, repository, failures, not_before, why)
VALUES (%(account_id)s, %(repository)s, 1, %(first)s, %(why)s)
ON CONFLICT (account_id, repository) DO UPDATE
    SET failures = setbacks.failures + 1, why = excluded.why,
        not_before = greatest(setbacks.not_before, %(now)s + least(
            %(cap)s, %(base)s * power(2.0, least(setbacks.failures, 30))) * interval '1 second')
"""
ALL = f"""
-- live_claims: every Pod that is held for a job
SELECT {columns(HeldPod)}
FROM claims WHERE state <> 'fenced' ORDER BY claimed_at, pod_uid
"""
OF_POD = f"""
-- claim_of_pod
SELECT {columns(HeldPod)}
FROM claims WHERE pod_uid = %s AND state <> 'fenced'
"""


AT_WORK = """
-- pods_at_work: which of these hold a claim, or were handed a runner and have not ended, and for whom
SELECT asked.uid, a.login FROM unnest(%s::text[]) AS asked (uid)
JOIN LATERAL (
    SELECT c.account_id FROM claims c WHERE c.pod_uid = asked.uid AND c.state <> 'fenced'
    UNION SELECT s.account_id FROM sessions s WHERE s.pod_uid = asked.uid AND s.ended_at IS NULL LIMIT 1
) held ON true
JOIN accounts a USING (account_id)
"""
TENANTS = """
-- tenants_of_pods: whose these are, by their claim or by the one session that a Pod has for good, ended or not
SELECT asked.uid, a.account_id, a.login, held.handed FROM unnest(%s::text[]) AS asked (uid)
JOIN LATERAL (
    SELECT s.account_id, true AS handed FROM sessions s WHERE s.pod_uid = asked.uid
    UNION ALL SELECT c.account_id, c.state = 'running' FROM claims c WHERE c.pod_uid = asked.uid AND c.state <> 'fenced'
    ORDER BY handed DESC LIMIT 1
) held ON true
JOIN accounts a USING (account_id)
"""
ALONE = """
-- alone: whether no other account holds a Pod, or was ever handed one
SELECT NOT EXISTS (SELECT FROM claims c WHERE c.state <> 'fenced' AND c.account_id <> %(account_id)s)
   AND NOT EXISTS (SELECT FROM accounts a WHERE a.account_id <> %(account_id)s
                   AND EXISTS (SELECT FROM sessions s WHERE s.account_id = a.account_id))
"""
NOTE_MAC = """
-- note_mac_of_claim: on whose behalf it was made, before anybody counts what that Mac has
UPDATE claims SET mac_uid = %(mac)s WHERE pod_uid = %(uid)s AND generation = %(generation)s AND state = 'claimed'
"""
WORK_OF_MAC = """
-- work_of_mac: the Pods for which it holds a claim or has an open session, and how many jobs it took lately
SELECT ARRAY(SELECT pod_uid FROM claims WHERE mac_uid = %(mac)s AND state <> 'fenced'
             UNION SELECT pod_uid FROM sessions WHERE mac_uid = %(mac)s AND ended_at IS NULL),
       (SELECT count(*) FROM sessions WHERE mac_uid = %(mac)s AND started_at > %(since)s)
"""


class _Minted(NamedTuple):
    pod_uid: str
    generation: int
    runner_name: str
    place: str | None
    by: str


class Claims:
    def __init__(self, database: Database, clock: Clock, rng: random.Random, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._rng = rng
        self._notifications = notifications
        self._confirming = GroupCommit(self._confirm_many, most=LARGEST_BATCH, key=lambda minted: minted.pod_uid)

    async def claim(self, pool: str, pod: Pod, *, by: str = "dispatch", dispatcher: int | None = None) -> Claim:
        """The pool's next job for one waiting Pod, or why there is none."""
        return (await self.claim_many(pool, [pod], by=by, dispatcher=dispatcher))[0]

    async def claim_many(
        self, pool: str, pods: Sequence[Pod], *, by: str = "dispatch", dispatcher: int | None = None
    ) -> list[Claim]:
        """The pool's next jobs for waiting Pods, in one statement: one answer a Pod, in the order of `pods`.

        Jobs go out fairest first (`docs/design/ledger.md`). An answer ACCOUNT_BUSY or LOST_RACE means that rivals were
        quicker and that it is worth asking again at once.
        """
        if not pods:
            return []
        if len(pods) > LARGEST_BATCH:
            raise InvalidEntryError(f"{len(pods)} Pods in one batch: give at most {LARGEST_BATCH} at once")
        if not pool:
            raise InvalidEntryError("pool is empty: say for which pool the Pods wait")
        for pod in pods:
            _check_pod(pod)
        if len({pod.uid for pod in pods}) != len(pods):
            raise InvalidEntryError("a Pod appears twice in one batch: give each uid once")
        answers = await self._ask(
            CLAIM_JOBS,
            {
                "pool": pool,
                "uids": [pod.uid for pod in pods],
                "names": [pod.name for pod in pods],
                "dispatcher": dispatcher,
                "by": by,
                "now": self._clock.now(),
            },
        )
        of_pod = {answer.pod_uid: answer for answer in answers}
        return [of_pod[pod.uid] for pod in pods]

    async def commit(
        self, claim: Claim | HeldPod, runner_name: str, *, place: str | None = None, by: str = "dispatch"
    ) -> None:
        """The runner is minted: claim and job become running, and the session opens, in one transaction.

        `place` is where GitHub registered it; its list alone will say whether the runner is there.

        After this, and only after this, answer the Pod. StaleClaimError or JobGoneError means that the runner must not be
        handed out, and nothing was changed. Repeating it after a lost answer is safe.
        """
        if not runner_name:
            raise InvalidEntryError("runner_name is empty: give the name that the runner was minted with")
        answer = await self._confirming.ask(_Minted(claim.pod_uid, claim.generation, runner_name, place, by))
        if answer == "stale":
            raise StaleClaimError(f"claim {claim.generation} of Pod {claim.pod_name} is not current any more")
        if answer == "job_gone":
            raise JobGoneError(f"job {claim.job_id} finished or runs elsewhere: release claim {claim.generation}")

    async def release(self, claim: Claim | HeldPod, *, by: str, why: str, not_before: datetime | None = None) -> Ended:
        """Give a claim back: the row goes and its job waits again in its old place, in one transaction.

        StaleClaimError if it was released before, which a caller that only cleans up may ignore.
        """
        return await self._release(claim, by=by, why=why, not_before=not_before, failed=False)

    async def mint_failed(
        self,
        claim: Claim,
        *,
        by: str,
        why: str,
        scope: Scope = "job",
        retry_after: float | None = None,
    ) -> Ended:
        """Give a claim back because minting failed, and leave whom it speaks for alone for a while.

        The pause doubles with every failure in a row, up to a quarter of an hour, and is at least `retry_after` seconds.
        A mint that succeeds ends the pause of its repository and account.
        """
        now = self._clock.now()
        wait = timedelta(seconds=_MINT_BACKOFF.delay(claim.mint_failures + 1, self._rng, retry_after))
        first = now + timedelta(seconds=_MINT_BACKOFF.delay(1, self._rng, retry_after))
        setback = {
            "account_id": claim.account_id,
            "repository": claim.repository if scope == "repository" else "",
            "first": first,
            "why": why,
            "now": now,
            "base": max(_MINT_BACKOFF.base, retry_after or 0.0),
            "cap": max(_MINT_BACKOFF.cap, retry_after or 0.0),
        }
        return await self._release(
            claim,
            by=by,
            why=why,
            not_before=now + wait,
            failed=True,
            setback=None if scope == "job" else setback,
        )

    async def of_pod(self, pod_uid: str) -> HeldPod | None:
        """The Pod's live claim, if it has one."""
        return await self._database.row(HeldPod, OF_POD, [pod_uid])

    async def at_work(self, pod_uids: Sequence[str]) -> dict[str, str]:
        """Which of these Pods hold a claim or have an open session: uid → the account's login."""
        async with self._database.connection() as connection:
            return dict(await (await connection.execute(AT_WORK, [list(pod_uids)])).fetchall())

    async def tenants(self, pod_uids: Sequence[str]) -> dict[str, Tenant]:
        """Whose these Pods are: claimed for now, or handed a runner at any time. A Pod serves one account in its life."""
        if not pod_uids:
            return {}
        async with self._database.connection() as connection:
            found = await (await connection.execute(TENANTS, [list(pod_uids)])).fetchall()
        return {uid: Tenant(account_id, login, handed) for uid, account_id, login, handed in found}

    async def work_of_mac(self, claim: Claim, mac_uid: str, lately: timedelta) -> tuple[frozenset[str], int]:
        """Other Pods than the claim's that this Mac was given a job for, as far as is known, and how many it took lately.

        The claim is noted as this Mac's first, in a transaction of its own: of two that are counted at once, the later one finds
        the other.
        """
        asked = {"mac": mac_uid, "uid": claim.pod_uid, "generation": claim.generation}
        async with self._database.connection() as connection:
            await connection.execute(NOTE_MAC, asked)
            row = await (
                await connection.execute(WORK_OF_MAC, asked | {"since": self._clock.now() - lately})
            ).fetchone()
        assert row is not None
        return frozenset(row[0]) - {claim.pod_uid}, int(row[1])

    async def alone(self, account_id: int) -> bool:
        """Whether this account is the only one that has or ever had a Pod here."""
        async with self._database.connection() as connection:
            row = await (await connection.execute(ALONE, {"account_id": account_id})).fetchone()
        return row is not None and bool(row[0])

    async def all(self) -> list[HeldPod]:
        """Every live claim, oldest first."""
        return await self._database.rows(HeldPod, ALL)

    async def _ask(self, statement: LiteralString, params: Params) -> list[Claim]:
        async with self._database.connection() as connection, connection.cursor(row_factory=dict_row) as cursor:
            await cursor.execute(statement, params)
            return [_answer(row) for row in await cursor.fetchall()]

    async def _confirm_many(self, minted: Sequence[_Minted]) -> list[str]:
        uids, generations, runner_names, places, by = (list(column) for column in zip(*minted, strict=True))
        params = {
            "uids": uids,
            "generations": generations,
            "runner_names": runner_names,
            "places": places,
            "by": by,
            "now": self._clock.now(),
        }
        if len(minted) == 1:
            async with self._database.connection() as connection:
                answers = await (await connection.execute(COMMIT, params)).fetchall()
        else:
            async with self._database.transaction() as connection:
                await connection.execute(CLAIMS_TO_COMMIT, params)
                await connection.execute(JOBS_TO_COMMIT, params)
                answers = await (await connection.execute(COMMIT, params)).fetchall()
        of_pod = dict(answers)
        return [of_pod[uid] for uid in uids]

    async def _release(
        self,
        claim: Claim | HeldPod,
        *,
        by: str,
        why: str,
        not_before: datetime | None,
        failed: bool,
        setback: dict[str, Any] | None = None,
    ) -> Ended:
        params = {
            "uid": claim.pod_uid,
            "generation": claim.generation,
            "not_before": not_before,
            "failed": failed,
            "by": by,
            "why": why,
            "now": self._clock.now(),
        }
        async with self._database.transaction() as connection:
            ended = await fetch_all(connection, Ended, RELEASE, params)
            if not ended:
                raise StaleClaimError(f"claim {claim.generation} of Pod {claim.pod_name} is not current any more")
            if setback is not None:
                await connection.execute(SETBACK, setback)
        await self._notifications.hint(ended[0].pool)
        return ended[0]


def _answer(row: dict[str, Any]) -> Claim:
    outcome = Outcome(row.pop("outcome"))
    if outcome is Outcome.CLAIMED:
        return Claim(outcome=outcome, **row)
    return Claim(outcome=outcome, pod_uid=row["pod_uid"], pod_name=row["pod_name"])


def _check_pod(pod: Pod) -> None:
    if not pod.uid or not pod.name:
        raise InvalidEntryError(f"Pod {pod.name!r} with uid {pod.uid!r}: neither may be empty")
