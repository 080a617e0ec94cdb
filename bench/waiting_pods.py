"""What it costs to hold ten thousand waiting Pods in one process while there is nothing to do for them."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import psutil
import psycopg

from paddock.clients.dispatch import LONGEST_HOLD

from .dispatch_door import Asker, DispatchDoor, dispatch_service, seconds_of
from .table import Row, amount

__all__ = ["waiting_pods"]

_XACTS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
_SETTLE = 3.0


@dataclass(frozen=True, slots=True)
class _Found:
    memory_before: float
    memory: float
    cpu: float
    database_cpu: float
    queries: float
    reviews: float
    entering: float


def waiting_pods(quick: bool) -> Iterator[Row]:
    # One hold: within it every Pod asks once more.
    pods, seconds = (1_000, LONGEST_HOLD + 1) if quick else (10_000, 2 * LONGEST_HOLD)
    with dispatch_service(pods) as door:
        found = asyncio.run(_measure(door, seconds))
    what = f"{pods:,} waiting Pods: "
    each = 1000 * (found.memory - found.memory_before) / pods
    before = f"{found.memory_before:.0f} MB before, with the cluster and its {pods:,} Pods in the same process"
    yield Row(
        "dispatch",
        what + "memory",
        amount(found.memory),
        "MB",
        f"goal ≤300 above what was there: {found.memory - found.memory_before:.0f}, {each:.1f} kB a Pod; {before}",
    )
    rate = f"{pods / LONGEST_HOLD:.0f} requests/s, each verified"
    asking = f"over {seconds:.0f} s, in which each asks anew every {LONGEST_HOLD:.0f} s ({rate})"
    also = f"Postgres {100 * found.database_cpu:.1f} %; healing and the cluster's own work included"
    yield Row("dispatch", what + "CPU while idle", amount(100 * found.cpu), "% of a core", f"goal ≤6; {asking}; {also}")
    yield Row("dispatch", what + "queries while idle", amount(found.queries), "/s", "transactions, all of the process")
    yield Row(
        "dispatch", what + "TokenReviews while idle", amount(found.reviews), "/s", "tokens are verified with the keys"
    )
    yield Row(
        "dispatch", what + "time to enter", amount(found.entering), "s", "one connection each over loopback sockets"
    )


async def _measure(door: DispatchDoor, seconds: float) -> _Found:
    process = psutil.Process(door.pid)
    postgres = [child for child in process.children(recursive=True) if child.name() == "postgres"]
    async with await psycopg.AsyncConnection.connect(door.dsn, autocommit=True) as connection:
        before = process.memory_info().rss / 1e6
        began = perf_counter()
        askers = await Asker.open_many(door, len(door.tokens))
        waiting = [asyncio.create_task(asker.wait_for_job(t)) for asker, t in zip(askers, door.tokens, strict=True)]
        await door.all_wait(len(waiting))
        entering = perf_counter() - began
        await asyncio.sleep(_SETTLE)
        began, cpu, database_cpu = perf_counter(), seconds_of(process), sum(map(seconds_of, postgres))
        queries, reviews = await _transactions(connection), (await door.state())["token_reviews"]
        await asyncio.sleep(seconds)
        passed = perf_counter() - began
        cpu, database_cpu = seconds_of(process) - cpu, sum(map(seconds_of, postgres)) - database_cpu
        state = await door.state()
        # Our own look is one transaction.
        queries, reviews = await _transactions(connection) - queries - 1, state["token_reviews"] - reviews
        memory = process.memory_info().rss / 1e6
        ended = [task for task in waiting if task.done()]
        assert not ended, f"{len(ended)} Pods were sent away: {ended[0].result()}"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for asker in askers:
            asker.close()
    return _Found(before, memory, cpu / passed, database_cpu / passed, queries / passed, reviews / passed, entering)


async def _transactions(connection: psycopg.AsyncConnection[tuple[int]]) -> int:
    row = await (await connection.execute(_XACTS)).fetchone()
    assert row is not None
    return row[0]
