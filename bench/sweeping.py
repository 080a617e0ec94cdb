"""One sweep of 10,000 hosts against 10,000 Machines, through the real client, API and cloud client, in one process."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import psutil

from .rig import fill, rig
from .table import Row, amount

__all__ = ["sweeping"]


def sweeping(quick: bool) -> Iterator[Row]:
    yield from asyncio.run(_measure(1_000 if quick else 10_000))


async def _measure(count: int) -> list[Row]:
    async with rig(count, inventory_interval=3600.0) as application:
        await fill(application)
        process = psutil.Process()
        before, rss = len(application.cloud.audit), process.memory_info().rss
        began = time.perf_counter()
        await application.operator.sweep.cycle()
        seconds = time.perf_counter() - began
        grown = process.memory_info().rss - rss
        calls = Counter(entry.operation for entry in application.cloud.audit[before:])
        verdicts = Counter(finding.verdict.state.value for finding in application.operator.sweep.findings)
    assert verdicts == {"owned": count}, verdicts
    kinds = ", ".join(f"{number} {name}" for name, number in sorted(calls.items()))
    what = f"sweep of {count:,} × {count:,}"
    return [
        Row("hosts", what, amount(seconds), "s", "real time; reads every Machine and Host fresh, in one process"),
        Row("hosts", f"{what}: memory", amount(grown / 1e6), "MB", "growth of the process, API answers included"),
        Row("hosts", f"{what}: cloud calls", str(sum(calls.values())), "calls", f"{kinds}; pages of 100"),
    ]
