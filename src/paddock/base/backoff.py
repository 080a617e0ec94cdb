"""How long to wait before trying again: one rule for the whole program."""

import random
from dataclasses import dataclass

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter, capped, that never undercuts what the other side asked for.

    `delay(n)` is the wait after the n-th failure in a row, counted from 1. Jitter only ever lengthens a wait, by at
    most `jitter` of it, so that many clients that failed together do not come back together.
    """

    base: float = 0.8
    cap: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5

    def delay(self, failures: int, rng: random.Random, retry_after: float | None = None) -> float:
        """Seconds to wait; at least `retry_after` when the server named one."""
        steps = min(max(failures, 1) - 1, 62)  # past 2**62 only the cap matters, and floats would overflow
        plain = min(self.cap, self.base * self.factor**steps)
        wait = plain * (1.0 + self.jitter * rng.random())
        return max(wait, retry_after or 0.0)
