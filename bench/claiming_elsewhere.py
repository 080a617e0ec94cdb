"""Claims a second out of the ledger, beside two known queues on the same Postgres in the same run: PgQueuer and procrastinate.

Each is asked as its own worker asks: PgQueuer for a batch, with a limit for each of 16 entrypoints as our accounts have limits;
procrastinate for one job at a time, which is all that it offers. Neither shares out fairly, ours does: whoever is faster does less.
They are no part of this project; where they are not installed, the part says how to.
"""

import asyncio
import importlib.util
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from statistics import median
from time import perf_counter
from typing import Any

import psycopg

from .claiming_jobs import Way, fill, ledger_at, ours
from .scratch_postgres import scratch_postgres
from .table import Row, amount

__all__ = ["claiming_elsewhere"]

_ACCOUNTS, _BATCH, _PLENTY, _JOBS = 16, 64, 2_000_000, 20_000
_GOAL = "goal ≥2×"
_INSTALL = "install it beside Paddock to compare: .tools/bin/uv pip install --python .venv/bin/python"
_BATCHED = Way(f"claims, {_BATCH} in one batch", _ACCOUNTS, _BATCH, 1, 1)
_SINGLE = Way("claims, single, one after the other", _ACCOUNTS, 1, 1, 1)

Claim = Callable[[], Awaitable[int]]
"""Claims once; gives how many jobs that were."""


def claiming_elsewhere(quick: bool) -> Iterator[Row]:
    seconds, rounds = (1.0, 1) if quick else (2.0, 3)
    for name, module, way, queue in (
        ("PgQueuer", "pgqueuer", _BATCHED, _pgqueuer),
        ("procrastinate", "procrastinate", _SINGLE, _procrastinate),
    ):
        what = f"{way.what}, beside {name}"
        if importlib.util.find_spec(module) is None:
            yield Row("dispatch", what, "-", "", f"{_GOAL}; {_INSTALL} {module}")
            continue
        mine, theirs = asyncio.run(_measure(way, queue, seconds, rounds))
        ratio = median(one / other for one, other in zip(mine, theirs, strict=True))
        note = f"{_GOAL}: {ratio:.2f}× {name} ({amount(median(theirs))}/s); caps on, ours fair as well; in turns, {rounds} rounds"
        yield Row("dispatch", what, amount(median(mine)), "/s", note)


async def _measure(
    way: Way, queue: Callable[[str], Awaitable[Claim]], seconds: float, rounds: int
) -> tuple[list[float], list[float]]:
    mine: list[float] = []
    theirs: list[float] = []
    async with scratch_postgres() as server, ledger_at(server.dsn) as (ledger, connection):
        for turn in range(rounds):
            await fill(connection, way)
            mine.append(await ours(ledger, way, seconds, f"{turn}"))
            claim = await queue(server.dsn)
            await connection.execute("VACUUM ANALYZE")
            theirs.append(await _rate(claim, seconds))
    return mine, theirs


async def _rate(claim: Claim, seconds: float) -> float:
    won, began = 0, perf_counter()
    while perf_counter() < began + seconds:
        won += await claim()
    return won / (perf_counter() - began)


async def _pgqueuer(dsn: str) -> Claim:
    from pgqueuer.db import PsycopgDriver  # pyright: ignore[reportMissingImports]
    from pgqueuer.queries import (  # pyright: ignore[reportMissingImports]
        EntrypointExecutionParameter,
        Queries,
    )

    queries: Any = Queries(PsycopgDriver(await psycopg.AsyncConnection.connect(dsn, autocommit=True)))
    if not await queries.has_table("pgqueuer"):
        await queries.install()
    names = [f"org{1 + number % _ACCOUNTS}" for number in range(_JOBS)]
    await queries.clear_queue()
    await queries.enqueue(names, [None] * _JOBS, [0] * _JOBS)
    limits = {name: EntrypointExecutionParameter(_PLENTY) for name in set(names)}
    worker = uuid.uuid4()

    async def claim() -> int:
        return len(await queries.dequeue(_BATCH, limits, worker, None, timedelta(minutes=5)))

    return claim


async def _procrastinate(dsn: str) -> Claim:
    from procrastinate import App, PsycopgConnector  # pyright: ignore[reportMissingImports]

    app: Any = App(connector=PsycopgConnector(conninfo=dsn))
    await app.open_async()
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        there = await (await connection.execute("SELECT to_regclass('procrastinate_jobs')")).fetchone()
        if there is None or there[0] is None:
            await app.schema_manager.apply_schema_async()
        await connection.execute("DELETE FROM procrastinate_jobs")
        await connection.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args)"
            " SELECT 'macs', 'org' || (1 + n %% %s), '{}' FROM generate_series(1, %s) n",
            [_ACCOUNTS, _JOBS // 2],
        )
    worker = await app.job_manager.register_worker()

    async def claim() -> int:
        return int(await app.job_manager.fetch_job(["macs"], worker) is not None)

    return claim
