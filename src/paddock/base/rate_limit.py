"""How often something may happen: a bucket that fills at a steady rate and holds a burst."""

from collections.abc import Hashable

from paddock.base.clock import Clock

__all__ = ["RateLimit", "RateLimits"]

_SWEPT_EVERY = 1.0


class RateLimit:
    """At most `burst` at once and `rate` a second over time. Nothing waits: what is too much is told so."""

    def __init__(self, rate: float, burst: float, clock: Clock) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError("a rate is above zero, and a burst is at least one")
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left, self._at = burst, clock.monotonic()

    def take(self) -> bool:
        now = self._clock.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    @property
    def full(self) -> bool:
        """Whether nobody took anything for so long that it makes no difference to forget this one."""
        return self._left + (self._clock.monotonic() - self._at) * self._rate >= self._burst


class RateLimits:
    """One limit for each holder of a key, for at most `most` holders at a time: beyond that, those who rest are forgotten, and
    if none rests, nobody new gets anything.
    """

    def __init__(self, rate: float, burst: float, clock: Clock, *, most: int = 20_000) -> None:
        self._rate, self._burst, self._clock, self._most = rate, burst, clock, most
        self._limits: dict[Hashable, RateLimit] = {}
        self._swept_at = float("-inf")

    def take(self, holder: Hashable) -> bool:
        limit = self._limits.get(holder)
        if limit is None:
            if len(self._limits) >= self._most and self._clock.monotonic() - self._swept_at >= _SWEPT_EVERY:
                # Seldom: it costs milliseconds, and whoever has many addresses would decide how often.
                self._swept_at = self._clock.monotonic()
                self._limits = {key: kept for key, kept in self._limits.items() if not kept.full}
            if len(self._limits) >= self._most:
                return False
            limit = self._limits[holder] = RateLimit(self._rate, self._burst, self._clock)
        return limit.take()
