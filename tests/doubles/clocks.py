"""Clocks that a test moves: each keeps the contract of `paddock.base.clock.Clock`."""

import asyncio
from datetime import UTC, datetime, timedelta

from paddock.base.clock import Clock, LoopClock, SystemClock

WITHIN = 60.0
"""How long a test waits for what really happens, in seconds: only a fault takes so long, a busy machine does not."""
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class SteppedClock:
    """Moves only when told to. `sleep` moves the time forward at once and remembers how long each wait was."""

    def __init__(self, start: datetime = NOON) -> None:
        self._start = start
        self._elapsed = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    def step(self, seconds: float) -> None:
        self._elapsed += seconds

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            self._elapsed += seconds
        await asyncio.sleep(0)


class EndlessSleepClock(SteppedClock):
    """No sleep on it ever ends."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class StandingClock:
    """Wall time stands still until `advance`; waiting is real, for tests with a real database."""

    def __init__(self, start: datetime = NOON) -> None:
        self.moment = start

    def now(self) -> datetime:
        return self.moment

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class ShiftedClock:
    """Another clock, the system's unless told, whose wall time is `ahead`; with `both` its monotonic time is, too."""

    def __init__(self, inner: Clock | None = None, *, ahead: timedelta = timedelta(0), both: bool = False) -> None:
        self._inner = inner or SystemClock()
        self.ahead = ahead
        self._both = both

    def now(self) -> datetime:
        return self._inner.now() + self.ahead

    def monotonic(self) -> float:
        return self._inner.monotonic() + (self.ahead.total_seconds() if self._both else 0.0)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class EarlyClock(LoopClock):
    """Its timers ring a hair early, as the operating system's may; `rings` counts them."""

    rings = 0

    async def sleep(self, seconds: float) -> None:
        self.rings += 1
        await asyncio.sleep(max(0.0, seconds - 1e-9))
