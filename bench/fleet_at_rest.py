"""A fleet brought up as fast as it goes, and what it costs when nothing happens to it."""

import asyncio
import time
from collections.abc import Callable, Iterator

import psutil

from paddock.hosts.api import MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.objects import ObjectMeta

from .rig import Rig, rig
from .table import Row, amount

__all__ = ["fleet_at_rest"]

_LONGEST = 150.0
_HOW = "real time; API, cloud and controllers in one process, in memory"


def fleet_at_rest(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_measure(100 if quick else 1_000, 6.0 if quick else 20.0))


async def _measure(count: int, watched: float) -> list[Row]:
    process = psutil.Process()
    empty = process.memory_info().rss
    async with rig(count, inventory_interval=5.0, sweep_interval=5.0) as house:
        running = asyncio.create_task(house.manager.run())
        try:
            hosts = house.operator.hosts.reader
            await _until(lambda: len(hosts.list()) == count, "every host is known")
            began = time.perf_counter()
            await _order(house, count)
            machines = house.operator.machines.reader
            await _until(lambda: sum(bool(m.status.server_id) for m in machines.list()) == count, "all are claimed")
            claimed = time.perf_counter() - began
            await _until(lambda: sum(m.status.ready for m in machines.list()) == count, "all are ready")
            ready = time.perf_counter() - began
            await _until(lambda: _settled(house, count), "every Host says owned")
            await asyncio.sleep(6.0)  # one more inventory, so that everything that follows from the last one is written
            revision, looks, cpu = house.store.revision, _looks(house), process.cpu_times()
            await asyncio.sleep(watched)
            used = process.cpu_times()
            busy = (used.user + used.system - cpu.user - cpu.system) / watched
            writes, looked = house.store.revision - revision, _looks(house) - looks
            held = process.memory_info().rss - empty
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    over = f"over {watched:.0f} s with {looked} list pages asked of the cloud"
    return [
        Row("hosts", "machines claimed", amount(count / claimed), "/s", f"{count:,} machines; {_HOW}"),
        Row("hosts", "machines ready", amount(count / ready), "/s", "with a bootstrap that takes no time"),
        Row("hosts", f"idle CPU, {count:,} machines", amount(100 * busy), "% of a core", f"{over}; every 5 s; {_HOW}"),
        Row("hosts", f"memory, {count:,} machines", amount(held / 1e6), "MB", f"beyond the imports; {_HOW}"),
        Row("hosts", "Kubernetes writes when idle", str(writes), "writes", f"must be 0; {over}"),
    ]


async def _order(house: Rig, count: int) -> None:
    async def worker(numbers: Iterator[int]) -> None:
        for number in numbers:
            meta = ObjectMeta(name=f"m-{number:05}", namespace="default")
            await house.client.create(ScalewayAppleSiliconMachine(metadata=meta, spec=MachineSpec(type="M4-M")))

    numbers = iter(range(count))
    await asyncio.gather(*(worker(numbers) for _ in range(8)))


def _settled(house: Rig, count: int) -> bool:
    return sum(host.status.state == "owned" for host in house.store.present(ScalewayAppleSiliconHost)) == count


def _looks(house: Rig) -> int:
    return sum(entry.operation == "list" for entry in house.cloud.audit)


async def _until(reached: Callable[[], bool], what: str) -> None:
    deadline = time.perf_counter() + _LONGEST
    while not reached():
        if time.perf_counter() > deadline:
            raise TimeoutError(f"not within {_LONGEST:.0f} s: {what}")
        await asyncio.sleep(0.2)
