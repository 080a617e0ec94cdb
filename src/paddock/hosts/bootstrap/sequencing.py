"""When each host's bootstrap may start: some at a time, and never all at once after a restart.

A restarted operator finds every unfinished Machine in its first second. Each start is therefore put off by its own
random share of `spread`, and at most `parallel` hosts are worked on together; those that wait hold no connection.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from paddock.base.clock import Clock

__all__ = ["Sequencing", "start_delay"]


def start_delay(uptime: float, spread: float, rng: random.Random) -> float:
    """Seconds to put off a start: a share of what is left of the first `spread` seconds of this process.

    Later starts are not put off at all: Machines then come one by one by themselves.
    """
    return rng.uniform(0.0, max(0.0, spread - uptime))


class Sequencing:
    """One for a process. Hosts are let in in the order in which they asked; the same host is never let in twice."""

    def __init__(self, clock: Clock, rng: random.Random, *, parallel: int = 16, spread: float = 20.0) -> None:
        if parallel < 1:
            raise ValueError("parallel must be at least 1: nothing would ever be bootstrapped")
        self._clock = clock
        self._rng = rng
        self._spread = spread
        self._slots = asyncio.Semaphore(parallel)
        self._hosts: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}
        self._started = clock.monotonic()
        self.running = 0

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """The block runs when it is this host's turn. Two runs on one host never overlap, even by mistake."""
        await self._clock.sleep(start_delay(self._clock.monotonic() - self._started, self._spread, self._rng))
        lock = self._hosts.setdefault(host, asyncio.Lock())
        self._waiting[host] = self._waiting.get(host, 0) + 1
        try:
            # The host's own lock first: a second run of one host must not hold a slot while it waits for the first.
            async with lock, self._slots:
                self.running += 1
                try:
                    yield
                finally:
                    self.running -= 1
        finally:
            self._waiting[host] -= 1
            if not self._waiting[host]:
                del self._waiting[host], self._hosts[host]
