"""Time, as the rest of the program may know it.

Nothing outside this package asks the operating system for the time: a program whose time is injected can be run, seeded,
on a virtual-time event loop, where twelve hours pass in a few milliseconds and every run with one seed is the same run.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "LoopClock", "SystemClock", "parse_rfc3339", "rfc3339", "rfc3339_micro"]


class Clock(Protocol):
    """Wall time for what people read, monotonic time for what the program decides by."""

    def now(self) -> datetime:
        """The wall time, in UTC. It may jump; never subtract two of these to measure a lease."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start that never run backwards."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for that many seconds of this clock; zero or less only yields to other tasks."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class LoopClock:
    """The time of the running event loop, counted from a fixed wall-clock start.

    On the simulator's virtual-time loop this is the virtual time, so one class serves every simulated process.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def rfc3339(moment: datetime) -> str:
    """`2026-06-12T07:06:59Z`: whole seconds, as Kubernetes writes `metav1.Time`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: datetime) -> str:
    """`2026-06-12T07:06:59.000001Z`: microseconds, as Kubernetes writes `metav1.MicroTime` in Leases."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> datetime:
    """The moment a timestamp of Kubernetes or of the cloud names; raises ValueError on anything else."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"timestamp {text!r} has no time zone")
    return moment.astimezone(UTC)
