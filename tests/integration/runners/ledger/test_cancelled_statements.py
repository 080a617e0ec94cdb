"""Whoever is cancelled in the middle of a statement leaves no trace: no connection in use, no turn taken, no line beside our log."""

import asyncio
import logging
import random

import pytest

from paddock.base.clock import SystemClock
from paddock.embedded.postgres import EmbeddedPostgres
from paddock.runners.ledger.advisory_locks import AdvisoryLocks
from paddock.runners.ledger.database import Database, make_pool


@pytest.mark.parametrize("gaps", [(0.1,), (0.1, 0.0), (0.1, 0.0005), (0.0005, 0.0005), (0.1, 0.0, 0.0)], ids=str)
async def test_a_statement_that_is_cancelled_in_flight_gives_its_connection_back_closed_or_whole(
    server: EmbeddedPostgres, caplog: pytest.LogCaptureFixture, gaps: tuple[float, ...]
) -> None:
    """The pool says only that it replaces the connection, which our log takes for debugging."""
    async with make_pool(server.dsn, schema="public", size=1) as pool:
        database = Database(pool, SystemClock())

        async def work() -> None:
            async with database.transaction() as connection:
                await connection.execute("SELECT pg_sleep(5)")

        await database.value("SELECT 1")
        with caplog.at_level(logging.WARNING):
            working = asyncio.create_task(work())
            for gap in gaps:
                await asyncio.sleep(gap)
                working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            async with asyncio.timeout(5):
                assert await database.value("SELECT 7") == 7
    assert [said for said in caplog.messages if not said.startswith("discarding closed connection")] == []


@pytest.mark.parametrize("seed", range(20))
async def test_a_turn_whose_taking_or_giving_back_is_cancelled_is_free_for_others(
    server: EmbeddedPostgres, seed: int
) -> None:
    rng = random.Random(seed)
    async with make_pool(server.dsn, schema="public", size=2) as pool, make_pool(server.dsn, schema="public") as others:
        mine = AdvisoryLocks(Database(pool, SystemClock()))

        async def take() -> None:
            while True:
                async with mine.taken("turn"):
                    pass

        await Database(pool, SystemClock()).value("SELECT 1")
        for _ in range(20):
            taking = asyncio.create_task(take())
            await asyncio.sleep(rng.uniform(0.0, 0.003))
            taking.cancel()
            await asyncio.sleep(0)
            taking.cancel()
            await asyncio.wait([taking])
            async with AdvisoryLocks(Database(others, SystemClock())).taken("turn") as free:
                assert free
