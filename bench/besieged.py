"""Dispatch beside thousands of slow and junk connections: what becomes of those who mean well, of memory, of the API server."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import psutil

from .dispatch_door import Asker, DispatchDoor, dispatch_service
from .table import Row, amount

__all__ = ["besieged"]

_ROOT = Path(__file__).resolve().parent.parent
_PODS = 50
_EVERY = 0.1
"""Seconds between two requests of a Pod: all of them are 500 a second."""


def besieged(quick: bool) -> Iterator[Row]:
    hostile, seconds = (1_000, 8.0) if quick else (10_000, 30.0)
    with dispatch_service(_PODS) as door:
        process = psutil.Process(door.pid)
        calm = asyncio.run(_normal_load(door, seconds))
        before = process.memory_info().rss / 1e6
        with _besiegers(door.port, hostile):
            reviews = asyncio.run(_reviews(door))
            under_siege = asyncio.run(_normal_load(door, seconds))
            asked = asyncio.run(_reviews(door)) - reviews
            memory = process.memory_info().rss / 1e6
    what = f"beside {hostile:,} slow and junk connections: "
    ratio = _p99(under_siege) / _p99(calm)
    note = f"{amount(1000 * _p99(calm))} ms without them, so {amount(ratio)} times; the goal is 2; {len(under_siege):,} requests"
    yield Row("dispatch", what + "p99 of a Pod's request", amount(1000 * _p99(under_siege)), "ms", note)
    yield Row("dispatch", what + "memory", amount(memory), "MB", f"{before:.0f} MB before them")
    limit = "strangers' tokens may cost 20 a second, and a burst of 100"
    yield Row("dispatch", what + "TokenReviews", amount(asked / seconds), "/s", limit)


@contextmanager
def _besiegers(port: int, count: int) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.besiegers", str(port), str(count)],
        cwd=_ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "there"
        yield
    finally:
        process.kill()
        process.communicate()


async def _reviews(door: DispatchDoor) -> int:
    return (await door.state())["token_reviews"]


async def _normal_load(door: DispatchDoor, seconds: float) -> list[float]:
    """How long each request took of Pods that ask for a job and get none, and ask again."""
    askers = await Asker.open_many(door, _PODS)
    ends = perf_counter() + seconds
    found: list[float] = []

    async def pod(asker: Asker, token: str) -> None:
        headers = f"authorization: Bearer {token}\r\nprefer: wait=0\r\n"
        while (began := perf_counter()) < ends:
            code, _ = await asker.ask("POST", "/api/internal/runners/dispatch", headers, b"{}")
            assert code == 204, code
            found.append(perf_counter() - began)
            await asyncio.sleep(_EVERY)

    await asyncio.gather(*(pod(asker, token) for asker, token in zip(askers, door.tokens, strict=True)))
    for asker in askers:
        asker.close()
    return found


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]
