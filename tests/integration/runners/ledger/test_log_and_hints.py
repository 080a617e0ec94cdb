"""The log that is only added to, the tables' own last line of defence, and the hints that wake dispatchers."""

import asyncio
import random
from datetime import timedelta

import psycopg
import pytest
from integration.runners.ledger.rig import ACME, POOL, Bench, job
from psycopg import sql

from paddock.base.migrations import MigrationError
from paddock.runners.ledger import (
    EVERY_POOL,
    InvalidEntryError,
    Ledger,
    LedgerUnavailableError,
    Listener,
    StaleClaimError,
    make_pool,
    prepare,
)


async def test_every_move_leaves_one_line_that_says_who_when_why_and_under_which_claim(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.running(1)
    bench.clock.advance(9)
    await bench.completed(job(10), 1)
    lines = await bench.ledger.transitions.of_job(10)
    told = [(line.subject, line.was, line.became, line.by, line.generation) for line in lines]
    assert told == [
        ("job", "", "queued", "webhook", None),
        ("job", "queued", "claimed", "dispatch", claim.generation),
        ("job", "claimed", "running", "dispatch", claim.generation),
        ("session", "", "open", "dispatch", claim.generation),
        ("job", "running", "completed", "webhook", claim.generation),
        ("claim", "running", "released", "webhook", claim.generation),
    ]
    assert lines[-1].at == bench.clock.now()
    assert "finished job 10" in lines[-1].why
    assert [line.transition_id for line in await bench.ledger.transitions.of_pod("uid-1")] == [
        line.transition_id for line in lines[1:]
    ]


async def test_what_changes_nothing_leaves_no_line(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    claim = await bench.running(1)
    await bench.completed(job(10), 1)
    newest = (await bench.ledger.transitions.newest(1))[0].transition_id
    await bench.queue(job(10))
    await bench.completed(job(10), 1)
    await bench.started(job(10), 1)
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.commit(claim, "late")
    with pytest.raises(StaleClaimError):
        await bench.ledger.claims.release(claim, by="test", why="late")
    await bench.claim(2)
    assert await bench.ledger.transitions.newest(after=newest) == []


async def test_the_log_cannot_be_rewritten(bench: Bench):
    await bench.accounts(ACME)
    await bench.queue(job(10))
    for statement in ("UPDATE transitions SET why = ''", "DELETE FROM transitions", "TRUNCATE transitions"):
        with pytest.raises(psycopg.errors.RestrictViolation):
            await bench.ask(statement)
    bench.clock.advance(60)
    assert await bench.ledger.transitions.forget(bench.clock.now() - timedelta(days=1)) == 0
    assert await bench.ledger.transitions.forget(bench.clock.now()) > 0
    assert await bench.ledger.transitions.of_job(10) == []
    await bench.queue(job(11))
    with pytest.raises(psycopg.errors.RestrictViolation):
        await bench.ask("DELETE FROM transitions")


async def test_not_even_a_hand_in_the_database_resurrects_a_finished_job(bench: Bench):
    await bench.accounts(ACME)
    await bench.completed(job(10))
    with pytest.raises(psycopg.errors.RestrictViolation):
        await bench.ask("UPDATE jobs SET status = 'queued' WHERE job_id = 10")


async def test_the_tables_are_prepared_once_however_many_start_together(bench: Bench):
    fresh = f"{bench.schema}_fresh"
    ran = await asyncio.gather(*(prepare(bench.dsn, schema=fresh, clock=bench.clock) for _ in range(4)))
    first = max(ran)
    assert first == tuple(range(1, len(first) + 1))
    assert len(first) >= 3
    assert sorted(ran) == [(), (), (), first]
    with pytest.raises(InvalidEntryError, match="schema"):
        await prepare(bench.dsn, schema='x"; DROP', clock=bench.clock)
    await bench.ask("UPDATE schema_migrations SET checksum = 'edited' WHERE number = 2")
    with pytest.raises(MigrationError):
        await prepare(bench.dsn, schema=bench.schema, clock=bench.clock)


async def test_a_database_that_is_not_there_is_said_to_be_away(bench: Bench):
    with pytest.raises(LedgerUnavailableError):
        await prepare("host=/nonexistent", schema="x", clock=bench.clock)
    pool = make_pool("host=/nonexistent", schema="x", size=1, timeout=0.2)
    await pool.open()
    try:
        with pytest.raises(LedgerUnavailableError):
            await Ledger(pool, bench.clock).jobs.get(1)
    finally:
        await pool.close()


async def test_the_connection_that_was_given_back_last_is_taken_first(bench: Bench):
    """Its server process has its plans at hand; psycopg's own pool would take the other one."""
    async with make_pool(bench.dsn, schema=bench.schema, size=2) as pool:
        await pool.wait()
        async with pool.connection() as one, pool.connection() as other:
            both = {one.info.backend_pid, other.info.backend_pid}
        assert len(both) == 2
        taken: list[int] = []
        for _ in range(4):
            async with pool.connection() as connection:
                taken.append(connection.info.backend_pid)
    assert len(set(taken)) == 1


def _listener(bench: Bench, timeout: float = 20.0) -> Listener:
    return Listener(bench.dsn, schema=bench.schema, clock=bench.clock, rng=random.Random(1), timeout=timeout)


async def test_a_new_job_and_a_job_put_back_wake_the_listener_of_their_pool(bench: Bench):
    await bench.accounts(ACME)
    hints = _listener(bench).hints()
    async with asyncio.timeout(10):
        assert await anext(hints) == EVERY_POOL
        await bench.queue(job(10))
        assert await anext(hints) == {POOL}
        claim = await bench.claimed(1)
        await bench.ledger.claims.release(claim, by="test", why="back")
        assert await anext(hints) == {POOL}
        await bench.queue(job(10))  # a repeat is nothing new
        await bench.queue(job(11, pool="other"))
        assert await anext(hints) == {"other"}
    await hints.aclose()  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_hint_is_heard_at_once_in_its_own_process_and_by_the_others_through_the_database(bench: Bench):
    await bench.accounts(ACME)
    here: list[frozenset[str]] = []
    own, others = (
        _listener(bench, timeout=0.5).hints(bench.ledger.notifications.was_heard_here),
        _listener(bench).hints(),
    )
    async with asyncio.timeout(10):
        assert await anext(own) == await anext(others) == EVERY_POOL
        with bench.ledger.notifications.heard_here(here.append):
            await bench.queue(job(10))
            assert here == [{POOL}]
        assert await anext(others) == {POOL}
        assert await anext(own) == EVERY_POOL, "half a second without anything new"
        await bench.queue(job(11))
        assert here == [{POOL}], "nobody listens here any more"
        assert await anext(own) == {POOL}
        assert not bench.ledger.notifications._sent
    for hints in (own, others):
        await hints.aclose()  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_hint_is_the_name_of_its_pool_alone_as_every_release_understands_it(bench: Bench):
    listening = await bench.connect()
    await listening.execute(sql.SQL("LISTEN {}").format(sql.Identifier(f"paddock_{bench.schema}")))
    await bench.ledger.notifications.hint("mac-m4", "linux-x64")
    heard = [one.payload async for one in listening.notifies(timeout=5, stop_after=2)]
    await listening.close()
    assert sorted(heard) == ["linux-x64", "mac-m4"]


async def test_a_listener_whose_connection_is_killed_looks_everywhere_and_listens_again(bench: Bench):
    await bench.accounts(ACME)
    hints = _listener(bench).hints()
    async with asyncio.timeout(10):
        assert await anext(hints) == EVERY_POOL
        waiting = asyncio.ensure_future(anext(hints))
        await asyncio.sleep(0.05)
        await bench.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'paddock-ledger-listener'"
        )
        assert await waiting == EVERY_POOL
        assert await anext(hints) == EVERY_POOL  # connected again: what was hinted meanwhile is not missed
        await bench.queue(job(10))
        assert await anext(hints) == {POOL}
    await hints.aclose()  # pyright: ignore[reportAttributeAccessIssue]


async def test_without_hints_the_listener_looks_by_itself(bench: Bench):
    hints = _listener(bench, timeout=0.05).hints()
    async with asyncio.timeout(10):
        assert [await anext(hints) for _ in range(3)] == [EVERY_POOL] * 3
    await hints.aclose()  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_burst_of_jobs_shares_hints(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    await bench.accounts(ACME)
    sent = []
    send = bench.ledger.notifications._send

    async def counted(pools: list[str]) -> None:
        sent.append(pools)
        await asyncio.sleep(0.01)
        await send(pools)

    monkeypatch.setattr(bench.ledger.notifications, "_send", counted)
    await asyncio.gather(*(bench.ledger.jobs.enqueue(job(n)) for n in range(100, 150)))
    assert 1 <= len(sent) < 25
