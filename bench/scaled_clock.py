"""A clock on which a minute takes a second or two, so that a grace of minutes can be waited for."""

import asyncio
import time
from datetime import UTC, datetime, timedelta

__all__ = ["ScaledClock"]


class ScaledClock:
    """Runs `speed` times as fast as the machine's. Whatever real work takes looks `speed` times as slow on it."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self._began = time.monotonic()
        self._start = datetime.now(UTC)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return self.speed * (time.monotonic() - self._began)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / self.speed)
