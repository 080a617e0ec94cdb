"""This process in the ledger: its number, and the beat that says it lives. Who stops beating loses its claims."""

import asyncio
import random
from typing import Final

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.ledger import Ledger, LedgerUnavailableError

__all__ = ["Heartbeat"]

_BACKOFF: Final = Backoff(base=0.5, cap=5.0)

log = get_logger("dispatch")


class Heartbeat:
    """Registers once the ledger can be reached, beats from then on, and registers anew if it was forgotten."""

    def __init__(self, ledger: Ledger, name: str, clock: Clock, rng: random.Random, *, every: float) -> None:
        self._ledger = ledger
        self._name = name
        self._clock = clock
        self._rng = rng
        self._every = every
        self._number: int | None = None
        self._numbers: set[int] = set()
        self._beaten_at = float("-inf")
        self._fresh = asyncio.Event()

    def mine(self, dispatcher: int | None) -> bool:
        """Whether a claim's dispatcher is this process."""
        return dispatcher in self._numbers

    async def current(self) -> int:
        """The number to claim with. Waits while the ledger takes us for silent: such a claim could be freed at once."""
        while self._number is None or self._clock.monotonic() - self._beaten_at > 3 * self._every:
            self._fresh.clear()
            await self._fresh.wait()
        return self._number

    async def run(self) -> None:
        failures = 0
        while True:
            try:
                await self.beat()
                failures = 0
                wait = self._every
            except LedgerUnavailableError as error:
                failures += 1
                wait = _BACKOFF.delay(failures, self._rng)
                log.warning("the ledger does not hear that this process lives", failures=failures, error=str(error))
            await self._clock.sleep(wait)

    async def beat(self) -> None:
        """Say that we live, or register where we are not known."""
        now = self._clock.monotonic()
        if self._number is None or not await self._ledger.dispatchers.beat(self._number):
            self._number = await self._ledger.dispatchers.register(self._name)
            self._numbers.add(self._number)
        self._beaten_at = now
        self._fresh.set()
