"""Claims a second out of the ledger, beside two known queues on the same Postgres in the same run: PgQueuer and procrastinate.

Twice each. First with the same work, jobs for 64 who wait: caps and a fair share for each of 16 accounts, which ours does in one
statement. They are asked for one account after the other; procrastinate gives one job at a time and knows no caps, so what runs
is counted before. Then as their own workers ask, without fairness (procrastinate without caps, and ours for one job at a time,
too): that is less work than ours, and no goal is set for it.
They are no part of this project; where they are not installed, the part says how to.
"""

import asyncio
import importlib.util
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from itertools import cycle
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
    for name, module, way, queue, fair in (
        ("PgQueuer", "pgqueuer", _BATCHED, _pgqueuer, True),
        ("PgQueuer", "pgqueuer", _BATCHED, _pgqueuer, False),
        ("procrastinate", "procrastinate", _BATCHED, _procrastinate, True),
        ("procrastinate", "procrastinate", _SINGLE, _procrastinate, False),
    ):
        what = f"{way.what}, beside {name}" + ("" if fair else " as it comes")
        if importlib.util.find_spec(module) is None:
            yield Row("dispatch", what, "-", "", f"{_GOAL}; {_INSTALL} {module}")
            continue
        mine, theirs = asyncio.run(_measure(way, partial(queue, fair=fair), seconds, rounds))
        ratio = median(one / other for one, other in zip(mine, theirs, strict=True))
        work = f"{_GOAL}, the same work" if fair else "no goal: theirs does less"
        note = f"{work}: {ratio:.2f}× {name} ({amount(median(theirs))}/s); {rounds} rounds in turns"
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


async def _pgqueuer(dsn: str, *, fair: bool) -> Claim:
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

    async def claim_fairly() -> int:
        """A batch as ours is: its part for each account."""
        won = 0
        for name, limit in limits.items():
            won += len(await queries.dequeue(_BATCH // _ACCOUNTS, {name: limit}, worker, None, timedelta(minutes=5)))
        return won

    return claim_fairly if fair else claim


async def _procrastinate(dsn: str, *, fair: bool) -> Claim:
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
            " SELECT 'org' || (1 + n %% %s), 'build', '{}' FROM generate_series(1, %s) n",
            [_ACCOUNTS, _JOBS // 2],
        )
    worker = await app.job_manager.register_worker()

    async def claim() -> int:
        return int(await app.job_manager.fetch_job(None, worker) is not None)

    turns = cycle([f"org{1 + number}" for number in range(_ACCOUNTS)])

    async def claim_fairly() -> int:
        name = next(turns)
        running = await app.connector.execute_query_one_async(
            "SELECT count(*) AS count FROM procrastinate_jobs WHERE status = 'doing' AND queue_name = %(name)s",
            name=name,
        )
        assert running["count"] < _PLENTY
        return int(await app.job_manager.fetch_job([name], worker) is not None)

    return claim_fairly if fair else claim
