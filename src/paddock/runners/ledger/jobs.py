"""What GitHub says about jobs, in any order, repeated, late or not at all.

Every event about a job first waits for the job's own lock, holding nothing else; so of two that arrive together
one is written completely before the other is looked at. A row of `completions` is final: nothing queues the job again.
"""

import asyncio
from datetime import datetime

from paddock.base.clock import Clock
from paddock.runners.ledger.database import Connection, Database, fetch_all, fetch_one
from paddock.runners.ledger.enqueue import MOVED, WHY, Announcement, EnqueueBatcher, learn_repositories, resay
from paddock.runners.ledger.errors import InvalidEntryError
from paddock.runners.ledger.job_metrics import JobMetrics
from paddock.runners.ledger.job_statements import (
    CLAIMS_CONCERNED,
    COMPLETE,
    COMPLETION,
    DISPLACE,
    END_CLAIMS,
    EXECUTES,
    FINISH,
    HELD,
    INSERT,
    JOB,
    JOBS_CONCERNED,
    LOCK,
    MINTED_FOR,
    QUEUED,
    REQUEUE,
    RUNNING,
    RUNS,
    SESSION_EXECUTES,
)
from paddock.runners.ledger.notifications import Notifications
from paddock.runners.ledger.rerouting import UNSURE_TURN, count_unsure
from paddock.runners.ledger.rows import (
    FINISHED,
    Announced,
    Completion,
    Ended,
    Execution,
    HeldPod,
    Job,
    Moved,
    NewJob,
)
from paddock.runners.ledger.scale_sets import may_act_on

__all__ = ["Jobs"]

_MOST_QUEUED = 10_000


class Jobs:
    def __init__(self, database: Database, clock: Clock, notifications: Notifications) -> None:
        self._database = database
        self._clock = clock
        self._notifications = notifications
        self._enqueue_batcher = EnqueueBatcher(database, clock)
        self._unsure_turn = asyncio.Lock()
        self.metrics: JobMetrics | None = None
        """Told of each change that this process wrote, once; a process that exports metrics sets it."""

    async def enqueue(self, job: NewJob, *, by: str = "webhook", status: Announced = "queued", why: str = "") -> Moved:
        """`queued` or `waiting`: the job waits from now on, unless it is known already or has finished.

        A job that GitHub holds back is known as `waiting` and handed to nobody; the `queued` that follows the approval
        releases it, and its wait counts from then. A `waiting` about a job that is queued here holds it, too: whichever
        of the two was said last, GitHub is asked within the minute (`healing`).
        """
        _check(job)
        said = Announcement(job, by, status, why or WHY[status])
        moved = await self._enqueue_batcher.add(said) or await self._enqueue_in_turn(said)
        if moved is Moved.QUEUED:
            if self.metrics is not None:
                self.metrics.enqueued(job.pool)
            await self._notifications.hint(job.pool)
        return moved

    async def enqueue_unsure(self, job: NewJob, *, why: str, most: int, most_of_account: int) -> Moved | None:
        """Keep as `unserved` what may be meant for runners of others, while fewer than so many such jobs are kept, of all and
        of its account. None: there are as many. Counted and added in one turn, so that many at once keep to it, too.
        """
        _check(job)
        said = Announcement(job, "webhook", "unserved", why)
        # Of this process one at a time: the others would wait with a connection each in hand.
        async with self._unsure_turn, self._database.transaction() as connection:
            await connection.execute(LOCK, [job.job_id])
            await connection.execute(UNSURE_TURN)
            if await fetch_one(connection, Job, JOB, [job.job_id]) is None:
                kept = await count_unsure(connection, job.account_id)
                if kept.of_all >= most or kept.of_account >= most_of_account:
                    return None
            return await self._say(connection, said)

    async def started(self, job: NewJob, *, runner_name: str, started_at: datetime, by: str = "webhook") -> Execution:
        """`in_progress`: this runner executes this job, whichever it was minted for.

        A claim that was made for another job is bound to this one, and that other job waits again; a claim that was made
        for this job, by another runner, keeps its Pod and has no job. All of it or nothing.

        A runner acts on rows of its own source alone. GitHub gives a scale set's runner no job but one that its queue announced,
        under a number of ours: bound to a row that a webhook announced, its claim would lose the job that it really runs.
        """
        _check(job)
        now = self._clock.now()
        words = {"now": now, "by": by, "why": f"GitHub gave it to runner {runner_name}"}
        requeued: str | None = None
        async with self._database.transaction() as connection:
            await connection.execute(LOCK, [job.job_id])
            if await _of_other_source(connection, job.job_id, job.account_id, runner_name):
                return Execution.OTHER_SOURCE
            key = {"job_id": job.job_id, "account_id": job.account_id, "runner_name": runner_name}
            await connection.execute(SESSION_EXECUTES, {**key, "started_at": started_at, "ended_at": None})
            if await fetch_one(connection, Completion, COMPLETION, [job.job_id]) is not None:
                return Execution.FINISHED
            claims = await fetch_all(connection, HeldPod, CLAIMS_CONCERNED, key)
            mine = next((c for c in claims if (c.account_id, c.runner_name) == (job.account_id, runner_name)), None)
            concerned = [job.job_id, *([mine.job_id] if mine is not None and mine.job_id is not None else [])]
            rows = await (await connection.execute(JOBS_CONCERNED, [concerned])).fetchall()
            if (job.job_id, 0) in rows:
                await learn_repositories(connection, [job])
            for claim in claims:
                if mine is None or claim.generation != mine.generation:
                    await connection.execute(DISPLACE, [now, claim.generation])
            if mine is not None and mine.job_id is not None and mine.job_id != job.job_id:
                displaced = {**words, "job_id": mine.job_id, "generation": mine.generation}
                displaced["why"] = f"its runner was given job {job.job_id} instead"
                back = await (await connection.execute(REQUEUE, displaced)).fetchone()
                requeued = None if back is None else back[0]
            # Before the claim is bound: it counts for the repository that the job's row names.
            await self._insert(
                connection, job, "running", by=by, why=words["why"], started_at=started_at, runner_name=runner_name
            )
            if mine is not None:
                await connection.execute(
                    EXECUTES, {"job_id": job.job_id, "generation": mine.generation, "started_at": started_at}
                )
            binding = {
                **words,
                **key,
                "generation": None if mine is None else mine.generation,
                "pod_uid": None if mine is None else mine.pod_uid,
                "pod_name": None if mine is None else mine.pod_name,
                "started_at": started_at,
            }
            runs = await (await connection.execute(RUNS, binding)).fetchone()
        first = mine is not None and (mine.executing_since is None or mine.job_id != job.job_id)
        if runs is not None and first and self.metrics is not None:
            self.metrics.started(runs[0], (started_at - runs[1]).total_seconds())
        if requeued is not None:
            await self._notifications.hint(requeued)
        if mine is None:
            return Execution.UNKNOWN_RUNNER
        return Execution.MATCHED if mine.job_id == job.job_id else Execution.MISMATCH

    async def completed(
        self,
        job_id: int,
        *,
        account_id: int,
        conclusion: str,
        completed_at: datetime,
        runner_name: str | None = None,
        started_at: datetime | None = None,
        job: NewJob | None = None,
        by: str = "webhook",
        why: str = "",
    ) -> Moved:
        """`completed`: the job is over for good, and the claim of the runner that executed it ends with it.

        The claim is found by the runner's name within the account, never by the job: GitHub may have given the job to
        another runner than ours was minted for. If that claim was made for a job that did not run, that job waits again,
        because a runner executes only once. Give `job` where the pool is known, so that a job heard of only now gets its
        row; without it the completion alone is kept, which is enough to keep the job from being queued later.

        What a runner of the other source is said to have finished is over here as `elsewhere`, and no claim ends with it.
        """
        now = self._clock.now()
        # GitHub says null where nothing ran, for example for a job that was cancelled while it waited.
        runner_name = runner_name or None
        words = {"now": now, "by": by, "why": why or f"GitHub: {conclusion}"}
        ended: list[Ended] = []
        async with self._database.transaction() as connection:
            await connection.execute(LOCK, [job_id])
            if runner_name is not None and await _of_other_source(connection, job_id, account_id, runner_name):
                words["why"] = f"runner {runner_name} has it, under the number of another source"
                runner_name, conclusion = None, "elsewhere"
            end = {
                **words,
                "job_id": job_id,
                "account_id": account_id,
                "conclusion": conclusion,
                "runner_name": runner_name,
                "started_at": started_at,
                "completed_at": completed_at,
                "ended_at": completed_at,
                "status": "cancelled" if conclusion == "cancelled" else "completed",
            }
            first = (await connection.execute(COMPLETE, end)).rowcount == 1
            if runner_name is not None:
                await connection.execute(SESSION_EXECUTES, end)
                claims = await fetch_all(connection, HeldPod, CLAIMS_CONCERNED, end)
                mine = [c for c in claims if (c.account_id, c.runner_name) == (account_id, runner_name)]
                for claim in claims:
                    if claim not in mine and claim.state == "running":
                        await connection.execute(DISPLACE, [now, claim.generation])
            else:
                mine = []
            concerned = [job_id, *(claim.job_id for claim in mine if claim.job_id is not None)]
            await connection.execute(JOBS_CONCERNED, [concerned])
            row = await (await connection.execute(FINISH, end)).fetchone()
            if job is not None:
                await self._insert(
                    connection,
                    job,
                    end["status"],
                    by=by,
                    why=words["why"],
                    conclusion=conclusion,
                    started_at=started_at,
                    completed_at=completed_at,
                    runner_name=runner_name,
                )
            if mine:
                params = {**words, "generations": [claim.generation for claim in mine]}
                params["why"] = f"its runner finished job {job_id}"
                ended = await fetch_all(connection, Ended, END_CLAIMS, params)
        if first and self.metrics is not None and (row is not None or job is not None):
            pool, began = row if row is not None else (job.pool if job is not None else "", started_at)
            # A job that no runner took up did not run, although it may have been handed over.
            ran = (completed_at - began).total_seconds() if began is not None and runner_name is not None else None
            self.metrics.completed(pool, conclusion, ran)
        # Capacity of the account came free, and a job may wait again.
        await self._notifications.hint(*(claim.pool for claim in ended))
        return Moved.COMPLETED if first else Moved.FINISHED

    async def settle(
        self,
        job_id: int,
        *,
        conclusion: str,
        by: str,
        why: str,
        completed_at: datetime | None = None,
        runner_name: str | None = None,
    ) -> Moved:
        """End a job on proof from GitHub itself that it is over, although its `completed` never came.

        The claim of the runner that GitHub names ends too. Where it names none, the claim that was made for the job stays:
        its runner took no job, so it may be online still, and `healing` unregisters it before the slot is free.
        """
        known = await self.get(job_id)
        if known is None:
            raise InvalidEntryError(f"job {job_id} is not in the ledger: there is nothing to settle")
        return await self.completed(
            job_id,
            account_id=known.account_id,
            conclusion=conclusion,
            completed_at=completed_at or self._clock.now(),
            runner_name=runner_name,
            by=by,
            why=why,
        )

    async def get(self, job_id: int) -> Job | None:
        return await self._database.row(Job, JOB, [job_id])

    async def completion(self, job_id: int) -> Completion | None:
        """How a job ended, if it did."""
        return await self._database.row(Completion, COMPLETION, [job_id])

    async def queued(self, *, before: datetime, after: datetime, limit: int = 1000) -> list[Job]:
        """Jobs that have waited since a moment between `after` and `before`, each account's oldest first, `limit` of each."""
        params = {"before": before, "after": after, "limit": limit, "most": _MOST_QUEUED}
        return await self._database.rows(Job, QUEUED, params)

    async def held(self, limit: int = 1000) -> list[Job]:
        """Jobs that GitHub holds back for an approval, those that were held last first, `limit` of each account."""
        return await self._database.rows(Job, HELD, {"limit": limit, "most": _MOST_QUEUED})

    async def running(self, *, started_before: datetime, limit: int = 10_000) -> list[Job]:
        """Jobs that run since before that, oldest first."""
        return await self._database.rows(Job, RUNNING, [started_before, limit])

    async def _enqueue_in_turn(self, said: Announcement) -> Moved:
        async with self._database.transaction() as connection:
            await connection.execute(LOCK, [said.job.job_id])
            return await self._say(connection, said)

    async def _say(self, connection: Connection, said: Announcement) -> Moved:
        """What was announced, under the job's own lock."""
        job = said.job
        if await self._insert(connection, job, said.status, by=said.by, why=said.why):
            return MOVED[said.status]
        await learn_repositories(connection, [job])
        if job.job_id in await resay(connection, [said], self._clock.now()):
            return MOVED[said.status]
        known = await fetch_one(connection, Job, JOB, [job.job_id])
        return Moved.KNOWN if known is not None and known.status not in FINISHED else Moved.FINISHED

    async def _insert(
        self,
        connection: Connection,
        job: NewJob,
        status: str,
        *,
        by: str,
        why: str,
        conclusion: str | None = None,
        started_at: datetime | None = None,
        completed_at: datetime | None = None,
        runner_name: str | None = None,
    ) -> bool:
        values = {name: getattr(job, name) for name in NewJob.__struct_fields__} | {"labels": list(job.labels)}
        values |= {"status": status, "conclusion": conclusion, "started_at": started_at, "completed_at": completed_at}
        values |= {"runner_name": runner_name, "now": self._clock.now(), "by": by, "why": why}
        return (await connection.execute(INSERT, values)).rowcount == 1


async def _of_other_source(connection: Connection, job_id: int, account_id: int, runner_name: str) -> bool:
    """Whether this runner of ours was minted for a job of the other source: a scale set's queue, or webhooks."""
    minted = await (await connection.execute(MINTED_FOR, [account_id, runner_name])).fetchone()
    return minted is not None and not may_act_on(minted[0], job_id)


def _check(job: NewJob) -> None:
    for name in ("job_id", "account_id", "vcpus", "memory_mb"):
        if getattr(job, name) <= 0:
            raise InvalidEntryError(f"{name} of a job is {getattr(job, name)}: it must be a positive number")
    for name in ("pool", "repository"):
        if not getattr(job, name):
            raise InvalidEntryError(f"{name} of job {job.job_id} is empty: say which one")
    if job.enqueued_at.tzinfo is None:
        raise InvalidEntryError(f"enqueued_at of job {job.job_id} has no time zone: give it in UTC")
