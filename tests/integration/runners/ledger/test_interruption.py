"""The connection dies, or the caller does, at any point: all of it happened or none, and saying it again is right."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import psycopg
import pytest
from integration.runners.ledger.rig import ACME, POOL, Bench, job, pod

from paddock.runners.ledger import Claim, Ledger, LedgerUnavailableError, Outcome, make_pool
from paddock.runners.ledger.database import Connection, Database

Deed = Callable[[Ledger], Awaitable[object]]


async def _kill(bench: Bench, like: str) -> int:
    """End the backends that wait in a statement of this name."""
    killed = await bench.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'paddock-ledger' AND state = 'active' AND query LIKE %s",
        [f"%-- {like}%"],
    )
    return len(killed)


async def _kill_when_waiting(bench: Bench, like: str) -> None:
    async with asyncio.timeout(10):
        while not await _kill(bench, like):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _held(bench: Bench, job_id: int) -> AsyncIterator[None]:
    """Somebody holds the job's row, so that whoever wants it has to wait."""
    async with await bench.connect() as rival, rival.transaction():
        await rival.execute("SELECT FROM jobs WHERE job_id = %s FOR UPDATE", [job_id])
        yield


async def test_a_claim_killed_while_it_waits_leaves_nothing(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    async with _held(bench, 10):
        waiter = asyncio.create_task(bench.claim(1))
        await _kill_when_waiting(bench, "claim_jobs")
        with pytest.raises(LedgerUnavailableError):
            await waiter
    assert await bench.ledger.claims.all() == []
    assert (await bench.claimed(1)).job_id == 10


async def test_a_release_killed_after_it_took_the_claim_leaves_claim_and_job(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.running(1)
    async with _held(bench, 10):
        waiter = asyncio.create_task(bench.ledger.claims.release(claim, by="test", why="interrupted"))
        await _kill_when_waiting(bench, "release")
        with pytest.raises(LedgerUnavailableError):
            await waiter
    held = await bench.ledger.claims.of_pod("uid-1")
    assert held is not None
    assert (held.generation, await bench.status(10)) == (claim.generation, "running")
    assert (await bench.ledger.claims.release(claim, by="test", why="again")).requeued


async def test_a_confirmation_killed_midway_leaves_neither_a_running_claim_nor_a_session(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.claimed(1)
    async with _held(bench, 10):
        waiter = asyncio.create_task(bench.ledger.claims.commit(claim, "r-1"))
        await _kill_when_waiting(bench, "commit_claim")
        with pytest.raises(LedgerUnavailableError):
            await waiter
    held = await bench.ledger.claims.of_pod("uid-1")
    assert held is not None
    assert (held.state, await bench.status(10)) == ("claimed", "claimed")
    assert await bench.ledger.sessions.of_pod("uid-1") is None
    await bench.ledger.claims.commit(claim, "r-1")


async def test_a_caller_that_gives_up_waiting_leaves_nothing_and_the_pool_whole(bench: Bench):
    await bench.accounts(ACME, vcpus=600, memory_mb=5_000_000)
    await bench.queue(job(10))
    claim = await bench.running(1)
    async with _held(bench, 10):
        for _ in range(20):  # more often than the pool has connections
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await bench.completed(job(10), 1)
    assert await bench.ledger.jobs.completion(10) is None
    assert (await bench.ledger.claims.all())[0].generation == claim.generation
    await bench.completed(job(10), 1)
    assert await bench.ledger.claims.all() == []


class _Doomed(Database):
    """A database whose connection dies once, just before its n-th statement."""

    def __init__(self, pool: Any, bench: Bench, survives: int) -> None:
        super().__init__(pool, bench.clock)
        self._bench = bench
        self._left = survives
        self.struck = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with super().connection() as connection:
            ordinary, doom = connection.cursor_factory, self

            class Counting(psycopg.AsyncCursor[Any]):
                async def execute(self, *words: Any, **more: Any) -> Any:
                    if doom._left == 0:
                        doom.struck = True
                        await doom._bench.ask("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
                    doom._left -= 1
                    return await super().execute(*words, **more)

            connection.cursor_factory = Counting
            try:
                yield connection
            finally:
                connection.cursor_factory = ordinary


DEEDS: dict[str, Deed] = {
    "enqueue": lambda ledger: ledger.jobs.enqueue(job(30)),
    "claim": lambda ledger: ledger.claims.claim(POOL, pod(3)),
    "started": lambda ledger: ledger.jobs.started(job(21), runner_name="runner-1-mint", started_at=job(21).enqueued_at),
    "completed": lambda ledger: ledger.jobs.completed(
        21,
        account_id=ACME,
        conclusion="success",
        completed_at=job(21).enqueued_at,
        runner_name="runner-1-mint",
        job=job(21),
    ),
    "pod stopped": lambda ledger: ledger.recovery.pod_stopped(
        "uid-1", job(21).enqueued_at, by="controller", why="stopped"
    ),
    "settle": lambda ledger: ledger.jobs.settle(20, conclusion="success", by="orphans", why="GitHub says so"),
    "fence": lambda ledger: ledger.fences.raise_fence(pod(9), by="reaper", why="stamped"),
}


async def _world(bench: Bench) -> list[Any]:
    """Everything that matters, without what differs between two equal lives (generations, numbers of lines)."""
    return [
        await bench.ask("SELECT job_id, status, conclusion, pod_uid, runner_name FROM jobs ORDER BY 1"),
        await bench.ask("SELECT pod_uid, state, job_id, runner_name FROM claims ORDER BY 1"),
        await bench.ask("SELECT pod_uid, executed_job_id, ended_at FROM sessions ORDER BY 1"),
        await bench.ask("SELECT job_id, conclusion FROM completions ORDER BY 1"),
        await bench.ask("SELECT subject, job_id, pod_uid, was, became FROM transitions WHERE subject <> 'limit' ORDER BY transition_id"),
    ]  # fmt: skip


async def _scene(bench: Bench) -> Claim:
    """Runner 1 was minted for job 20; job 21 and 22 wait."""
    await bench.accounts(ACME, vcpus=600, memory_mb=5_000_000)
    await bench.queue(job(20, age=9), job(21, age=8), job(22, age=7))
    return await bench.running(1)


@pytest.mark.parametrize("deed", DEEDS)
async def test_dying_before_any_statement_of_a_deed_and_doing_it_again_is_doing_it_once(bench: Bench, deed: str):
    """The connection is killed before statement 0, 1, 2, … of the deed; then it is repeated on a healthy one."""
    await _scene(bench)
    await DEEDS[deed](bench.ledger)
    wanted = await _world(bench)
    before_statement, healthy = 0, bench.ledger
    while True:
        scene = Bench(healthy, bench.clock, bench.kept, bench.schema)
        async with make_pool(bench.dsn, schema=bench.schema, size=2) as pool, aclosing(scene):
            await scene.blank()
            await _scene(scene)
            doomed = _Doomed(pool, scene, before_statement)
            ledger = Ledger(pool, bench.clock, random.Random(7))
            for part in vars(ledger).values():
                part._database = doomed
            if deed == "pod stopped":
                ledger.recovery._sessions = ledger.sessions
            try:
                await DEEDS[deed](ledger)
            except LedgerUnavailableError:
                assert doomed.struck
                assert await scene.problems() == []
                again = await DEEDS[deed](healthy)
                if isinstance(again, Claim) and again.outcome is Outcome.POD_IN_USE:
                    assert await healthy.claims.of_pod(again.pod_uid) is not None
            assert await _world(scene) == wanted, before_statement
            assert await scene.problems() == []
        if not doomed.struck:
            break
        before_statement += 1
    assert before_statement >= 1


async def test_a_server_that_became_read_only_is_left_for_one_that_writes(bench: Bench):
    """A failover leaves the old server to readers, and whoever is connected to it: the way to the new one is a new connection."""
    await bench.accounts(ACME)
    await bench.queue(job(10))
    async with make_pool(bench.dsn, schema=bench.schema, size=1) as pool:
        ledger = Ledger(pool, bench.clock, random.Random(3))
        async with pool.connection() as connection:
            await connection.execute("SET default_transaction_read_only TO on")
        with pytest.raises(LedgerUnavailableError):
            await ledger.claims.claim(POOL, pod(1))
        assert (await ledger.claims.claim(POOL, pod(1))).job_id == 10
