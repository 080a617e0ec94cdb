"""A fleet brought up as fast as it goes, and what a fleet costs when nothing happens to it."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import psutil

from paddock.hosts.api import MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.objects import ObjectMeta

from .rig import Rig, fill, rig
from .table import Row, amount

__all__ = ["at_rest", "brought_up"]

_LONGEST = 120.0
_EVERY = 5.0
_HOW = "real time; API, cloud and controllers in one process, in memory"


def brought_up(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_bring_up(50 if quick else 200))


def at_rest(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_rest(100 if quick else 1_000, 6.0 if quick else 20.0))


async def _bring_up(count: int) -> list[Row]:
    async with rig(count, inventory_interval=_EVERY, sweep_interval=_EVERY) as application, _managed(application):
        hosts, machines = application.operator.hosts.reader, application.operator.machines.reader
        await _until(lambda: len(hosts.list()) == count, "every host is known")
        before, revision, began = len(application.cloud.audit), application.store.revision, time.perf_counter()
        await _order(application, count)
        await _until(lambda: sum(bool(m.status.server_id) for m in machines.list()) == count, "all are claimed")
        claimed = time.perf_counter() - began
        await _until(lambda: sum(m.status.ready for m in machines.list()) == count, "all are ready")
        ready = time.perf_counter() - began
        calls = Counter(entry.operation for entry in application.cloud.audit[before:])
        writes = (application.store.revision - revision) / count
    asked = sum(number for name, number in calls.items() if not name.startswith("list")) / count
    note = f"with a bootstrap that takes no time; {writes:.0f} writes and {asked:.0f} cloud calls each"
    free = "without the request budget, which at 10 calls/s allows about 2/s"
    return [
        Row("hosts", "machines claimed", amount(count / claimed), "/s", f"{count:,} machines, {free}; {_HOW}"),
        Row("hosts", "machines ready", amount(count / ready), "/s", note),
    ]


async def _rest(count: int, watched: float) -> list[Row]:
    process = psutil.Process()
    empty = process.memory_info().rss
    async with rig(count, inventory_interval=_EVERY, sweep_interval=_EVERY) as application:
        await fill(application)
        async with _managed(application):
            machines = application.operator.machines.reader
            await _until(lambda: sum(m.status.ready for m in machines.list()) == count, "all are ready")
            await _quiet(application)
            revision, looks, cpu = application.store.revision, _looks(application), process.cpu_times()
            await asyncio.sleep(watched)
            used = process.cpu_times()
            busy = (used.user + used.system - cpu.user - cpu.system) / watched
            writes, looked = application.store.revision - revision, _looks(application) - looks
            held = process.memory_info().rss - empty
            states = Counter(host.status.state for host in application.store.present(ScalewayAppleSiliconHost))
    assert states == {"owned": count}, states
    over = f"over {watched:.0f} s with {looked} pages of lists asked of the cloud"
    return [
        Row(
            "hosts",
            f"idle CPU, {count:,} machines",
            amount(100 * busy),
            "% of a core",
            f"{over}; inventory and sweep every {_EVERY:.0f} s, 6 and 180 times as often as in production; {_HOW}",
        ),
        Row("hosts", f"memory, {count:,} machines", amount(held / 1e6), "MB", f"beyond the imports; {_HOW}"),
        Row("hosts", "Kubernetes writes when idle", str(writes), "writes", f"must be 0; {over}"),
    ]


@asynccontextmanager
async def _managed(application: Rig) -> AsyncIterator[None]:
    running = asyncio.create_task(application.manager.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _quiet(application: Rig) -> None:
    """Wait until everything that follows from the start is written: nothing changed over one whole cycle."""
    deadline = time.perf_counter() + _LONGEST
    while time.perf_counter() < deadline:
        before = application.store.revision
        await asyncio.sleep(_EVERY + 1.0)
        if application.store.revision == before:
            return


async def _order(application: Rig, count: int) -> None:
    async def worker(numbers: Iterator[int]) -> None:
        for number in numbers:
            meta = ObjectMeta(name=f"m-{number:05}", namespace="default")
            await application.client.create(ScalewayAppleSiliconMachine(metadata=meta, spec=MachineSpec(type="M4-M")))

    numbers = iter(range(count))
    await asyncio.gather(*(worker(numbers) for _ in range(8)))


def _looks(application: Rig) -> int:
    return sum(entry.operation == "list" for entry in application.cloud.audit)


async def _until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.perf_counter() + _LONGEST
    while not reached():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {_LONGEST:.0f} s: {what}")
        await asyncio.sleep(0.1)
