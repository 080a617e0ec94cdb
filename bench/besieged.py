"""Dispatch beside thousands of slow and junk connections: what becomes of those who mean well, of memory, of the API server.

Three processes on one machine: the service, those who mean well (this one), and the besiegers, who come after both at the
cores. All come from one address, as behind a load balancer, where addresses tell nobody apart.
"""

import asyncio
import hashlib
import hmac
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import psutil

from .dispatch_door import Asker, DispatchDoor, dispatch_service
from .runner_rig import WEBHOOK_SECRET
from .table import Row, amount

__all__ = ["besieged"]

_ROOT = Path(__file__).resolve().parent.parent
_PODS = 50
_EVERY = 0.1
"""Seconds between two requests of a Pod: all of them are 500 a second."""
_DELIVERIES_EVERY = 0.05
_PING = b'{"zen":"Keep it logically awesome."}'


@dataclass(frozen=True, slots=True)
class _Load:
    """Seconds that each request took: of Pods, on connections that they keep, and of GitHub, each on a connection of its own."""

    pods: list[float]
    deliveries: list[float]


@dataclass(frozen=True, slots=True)
class _Found:
    calm: list[_Load]
    siege: list[_Load]
    before: float
    memory: float
    reviews: float
    hostile: dict[str, float]


def besieged(quick: bool) -> Iterator[Row]:
    # Long enough that those who were kept waiting are sent away and come again: what is measured goes on for ever.
    hostile, seconds, windows, settling = (1_000, 8.0, 1, 5.0) if quick else (10_000, 20.0, 3, 45.0)
    with dispatch_service(_PODS) as door:
        found = _measured(door, hostile, seconds, windows, settling)
    what = f"beside {hostile:,} slow and junk connections: "
    did = ", ".join(f"{each:.0f} {name}" for name, each in found.hostile.items())
    yield _compared(
        what + "p99 of all who mean well",
        found,
        lambda load: load.pods + load.deliveries,
        f"nobody is served before anybody else; they got {did} a second in",
    )
    yield _compared(what + "p99 of a Pod's request", found, lambda load: load.pods, "on connections that they keep")
    yield _compared(what + "p99 of a delivery", found, lambda load: load.deliveries, "each on a connection of its own")
    yield Row("dispatch", what + "memory", amount(found.memory), "MB", f"{found.before:.0f} MB before them")
    limit = "strangers' tokens may cost 20 a second, and a burst of 100"
    yield Row("dispatch", what + "TokenReviews", amount(found.reviews), "/s", limit)


def _compared(what: str, found: _Found, of: Callable[[_Load], list[float]], note: str) -> Row:
    """The median window of each kind; before, within and after one siege, so that what else the machine does is in both."""
    calm, siege = ([1000 * _p99(of(each)) for each in windows] for windows in (found.calm, found.siege))
    ratio = median(siege) / median(calm)
    spans = f"windows {_span(calm)} without and {_span(siege)} with them"
    times = f"{amount(median(calm))} ms without them, so {amount(ratio)} times ({spans})"
    return Row("dispatch", what, amount(median(siege)), "ms", f"{times}; {note}")


def _span(values: list[float]) -> str:
    return f"{amount(min(values))} to {amount(max(values))}"


def _measured(door: DispatchDoor, hostile: int, seconds: float, windows: int, settling: float) -> _Found:
    def load() -> _Load:
        return asyncio.run(_normal_load(door, seconds))

    process = psutil.Process(door.pid)
    load()  # caches are warm
    calm, before = [load() for _ in range(windows // 2 + 1)], process.memory_info().rss / 1e6
    with _besiegers(door.port, hostile) as besiegers:
        time.sleep(settling)
        did, reviews, began = _told(besiegers), asyncio.run(_reviews(door)), perf_counter()
        siege = [load() for _ in range(windows)]
        asked, took = asyncio.run(_reviews(door)) - reviews, perf_counter() - began
        memory = process.memory_info().rss / 1e6
        did = {name: (count - did.get(name, 0)) / took for name, count in _told(besiegers).items()}
    calm += [load() for _ in range(windows // 2)]
    return _Found(calm, siege, before, memory, asked / took, did)


@contextmanager
def _besiegers(port: int, count: int) -> "Iterator[subprocess.Popen[str]]":
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
        yield process
    finally:
        process.kill()
        process.communicate()


def _told(besiegers: "subprocess.Popen[str]") -> dict[str, int]:
    assert besiegers.stdin is not None
    assert besiegers.stdout is not None
    besiegers.stdin.write("\n")
    besiegers.stdin.flush()
    return json.loads(besiegers.stdout.readline())


async def _reviews(door: DispatchDoor) -> int:
    return (await door.state())["token_reviews"]


async def _normal_load(door: DispatchDoor, seconds: float) -> _Load:
    """Pods that ask for a job and get none, and ask again; deliveries of GitHub that say hello."""
    askers = await Asker.open_many(door, _PODS)
    ends = perf_counter() + seconds
    found = _Load([], [])

    async def pod(asker: Asker, token: str) -> None:
        headers = f"authorization: Bearer {token}\r\nprefer: wait=0\r\n"
        while (began := perf_counter()) < ends:
            code, _ = await asker.ask("POST", "/api/internal/runners/dispatch", headers, b"{}")
            assert code == 204, code
            found.pods.append(perf_counter() - began)
            await asyncio.sleep(_EVERY)

    async def github() -> None:
        signature = hmac.new(WEBHOOK_SECRET.reveal().encode(), _PING, hashlib.sha256).hexdigest()
        headers = f"x-hub-signature-256: sha256={signature}\r\nx-github-event: ping\r\nx-github-delivery: bench\r\n"
        while (began := perf_counter()) < ends:
            asker = await Asker.open(door)
            code, _ = await asker.ask("POST", "/webhooks/github", headers, _PING)
            assert code == 200, code
            found.deliveries.append(perf_counter() - began)
            asker.close()
            await asyncio.sleep(_DELIVERIES_EVERY)

    await asyncio.gather(github(), *(pod(asker, token) for asker, token in zip(askers, door.tokens, strict=True)))
    for asker in askers:
        asker.close()
    return found


def _p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]
