"""A clock that moves only when told to, and whose sleeps take no time at all but count."""

import asyncio
from datetime import UTC, datetime, timedelta


class SteppedClock:
    """`sleep` moves the time forward at once and remembers how long each wait was."""

    def __init__(self, start: datetime = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)) -> None:
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
        self.slept.append(seconds)
        self._elapsed += max(0.0, seconds)
        await asyncio.sleep(0)
