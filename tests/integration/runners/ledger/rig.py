"""What the ledger's tests are written with: a clock that stands until told, jobs and Pods by number, a look behind the API."""

import asyncio
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
from doubles.clocks import NOON, StandingClock
from integration.kept_connections import KeptConnections
from integration.schemas import empty
from psycopg import sql

from paddock.runners.ledger import Claim, Ledger, NewJob, Outcome, Platform, Pod

START = NOON
POOL = "mac-m4"
ACME, BOLT, CRUX = 1, 2, 3


def pod(number: int | str) -> Pod:
    return Pod(f"uid-{number}", f"runner-{number}")


def job(
    job_id: int,
    account: int = ACME,
    *,
    pool: str = POOL,
    platform: Platform = "macos",
    vcpus: int = 6,
    memory_mb: int = 14_336,
    age: float = 0.0,
    repository: str = "",
    repository_id: int = 0,
) -> NewJob:
    """A job of one Mac's size; `age` is how many seconds before the start it was announced."""
    return NewJob(
        job_id=job_id,
        account_id=account,
        pool=pool,
        platform=platform,
        vcpus=vcpus,
        memory_mb=memory_mb,
        repository=repository or f"org{account}/app",
        repository_id=repository_id,
        enqueued_at=START - timedelta(seconds=age) + timedelta(microseconds=job_id),
        label="paddock-macos",
        workflow_name="build",
    )


async def attempt(ledger: Ledger, job_id: int, pod: Pod, *, dispatcher: int | None = None) -> Claim:
    """This very job for this Pod, by the ledger's own admission without its ranking: a test chooses who races for what."""
    given = [job_id, pod.uid, pod.name, dispatcher, "dispatch", ledger.claims._clock.now()]
    return (await ledger.claims._ask("SELECT * FROM attempt_job(%s, %s, %s, %s, %s, %s)", given))[0]


class Bench:
    """One ledger on a schema of its own."""

    def __init__(self, ledger: Ledger, clock: StandingClock, kept: KeptConnections, schema: str) -> None:
        self.ledger = ledger
        self.clock = clock
        self.kept = kept
        self.dsn = kept.dsn
        self.schema = schema
        self._asking: psycopg.AsyncConnection[Any] | None = None
        self._turn = asyncio.Lock()

    async def accounts(self, *numbers: int, vcpus: int = 12, memory_mb: int = 28_672) -> None:
        for number in numbers:
            await self.ledger.accounts.enrol(number, f"org{number}", installation_id=1000 + number)
            await self.ledger.allow_list.allow(number, f"org{number}", by="test", why="as the test needs it")
            for platform in ("macos", "linux"):
                await self.ledger.limits.set(
                    number, platform, vcpus=vcpus, memory_mb=memory_mb, by="test", why="as the test needs it"
                )

    async def queue(self, *jobs: NewJob) -> None:
        for one in jobs:
            await self.ledger.jobs.enqueue(one)

    async def claim(self, number: int | str, pool: str = POOL) -> Claim:
        return await self.ledger.claims.claim(pool, pod(number))

    async def claimed(self, number: int | str, pool: str = POOL) -> Claim:
        claim = await self.claim(number, pool)
        assert claim.outcome is Outcome.CLAIMED, claim.outcome
        return claim

    async def running(self, number: int | str, pool: str = POOL) -> Claim:
        """A claim that was minted, with its session: the runner is named after the Pod."""
        claim = await self.claimed(number, pool)
        await self.ledger.claims.commit(claim, f"runner-{number}-mint")
        return claim

    async def started(self, one: NewJob, number: int | str):
        return await self.ledger.jobs.started(one, runner_name=f"runner-{number}-mint", started_at=self.clock.now())

    async def completed(self, one: NewJob, number: int | str | None = None, conclusion: str = "success"):
        return await self.ledger.jobs.completed(
            one.job_id,
            account_id=one.account_id,
            conclusion=conclusion,
            completed_at=self.clock.now(),
            runner_name=None if number is None else f"runner-{number}-mint",
            job=one,
        )

    async def status(self, job_id: int) -> str:
        found = await self.ledger.jobs.get(job_id)
        return "none" if found is None else found.status

    async def connect(self) -> psycopg.AsyncConnection[Any]:
        connection = await psycopg.AsyncConnection.connect(self.dsn, autocommit=True)
        await connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self.schema)))
        return connection

    async def ask(self, statement: LiteralString, params: Any = ()) -> list[tuple[Any, ...]]:
        """By one connection of the test's own: opening one for each question costs more than the question."""
        if self._asking is None or self._asking.broken:
            self._asking = await self.kept.take(self.schema)
        async with self._turn:
            cursor = await self._asking.execute(statement, params)
            return await cursor.fetchall() if cursor.description else []

    async def aclose(self) -> None:
        if self._asking is not None:
            await self.kept.give_back(self._asking, self.schema)

    async def blank(self) -> None:
        """The ledger as on its first day: the same tables serve many lives, because making them takes longest."""
        await empty(self.dsn, self.schema)
        self.clock.moment = START

    async def problems(self) -> list[str]:
        """What in the tables contradicts docs/design/ledger.md; an empty list after anything whatsoever."""
        return [f"{what}: {row}" for what, statement in _CONTRADICTIONS for row in await self.ask(statement)]


_CONTRADICTIONS: tuple[tuple[str, LiteralString], ...] = (
    (
        "a queued job has a claim",
        "SELECT j.job_id FROM jobs j JOIN claims c USING (job_id) WHERE j.status = 'queued'",
    ),
    (
        "a claimed job has no claim of its generation",
        (
            "SELECT j.job_id FROM jobs j LEFT JOIN claims c USING (job_id, generation)"
            " WHERE j.status = 'claimed' AND c.pod_uid IS NULL"
        ),
    ),
    (
        "a claim's job is bound to another claim",
        (
            "SELECT c.pod_uid, j.generation, c.generation FROM claims c JOIN jobs j USING (job_id)"
            " WHERE j.generation IS DISTINCT FROM c.generation AND j.status NOT IN ('completed', 'cancelled')"
        ),
    ),
    (
        "more is held than the limit allows",
        (
            "SELECT l.account_id, l.platform, sum(c.vcpus), l.vcpus FROM limits l JOIN claims c USING (limit_id)"
            " GROUP BY l.limit_id, l.account_id, l.platform, l.vcpus, l.memory_mb"
            " HAVING sum(c.vcpus) > l.vcpus OR sum(c.memory_mb) > l.memory_mb"
        ),
    ),
    (
        "a job that finished is not finished",
        (
            "SELECT j.job_id, j.status FROM jobs j JOIN completions USING (job_id)"
            " WHERE j.status NOT IN ('completed', 'cancelled')"
        ),
    ),
    (
        "a job's row and the last line about it differ",
        (
            "SELECT j.job_id, j.status, t.became FROM jobs j JOIN LATERAL (SELECT became FROM transitions t"
            " WHERE t.job_id = j.job_id AND t.subject = 'job' ORDER BY transition_id DESC LIMIT 1) t ON true"
            " WHERE t.became <> j.status"
        ),
    ),
    (
        "a line of a job does not continue the one before",
        (
            "SELECT job_id, was, before FROM (SELECT job_id, was, lag(became, 1, '') OVER"
            " (PARTITION BY job_id ORDER BY transition_id) AS before FROM transitions WHERE subject = 'job') t"
            " WHERE was <> before"
        ),
    ),
)
