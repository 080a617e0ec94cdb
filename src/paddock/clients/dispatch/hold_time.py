"""How long dispatch is asked to hold a request: longer each time that worked, shorter where something cut it off.

Ten thousand Pods that ask every 25 s are 400 requests a second for nothing. But what stands between a Mac and dispatch may end
a request that is silent: some load balancers after 30 s, most after 60. So it is tried, and what was cut off is not tried again
for an hour.
"""

from typing import Final

from paddock.base.clock import Clock

__all__ = ["LONGEST_HOLD", "HoldTime"]

_STEP: Final = 25.0
"""Below what any usual load balancer allows: a request that failed within it was not cut off for its length."""
LONGEST_HOLD: Final = 75.0
"""A VM whose dispatch has not answered for two minutes counts as cut off. A request of this length that got no answer, and the one
after it, which is not held, fit into them.
"""
_REMEMBERED: Final = 3600.0


class HoldTime:
    """Shared by all who ask through the same network."""

    def __init__(self, clock: Clock, longest: float = LONGEST_HOLD) -> None:
        self._clock = clock
        self._longest = longest
        self._bound = longest
        self._bound_since = float("-inf")
        self._seconds = min(_STEP, longest)

    @property
    def seconds(self) -> float:
        return self._seconds

    def answered(self, asked: float) -> None:
        """A request that asked for so long was answered in good order."""
        self._forget_in_time()
        if asked >= self._seconds:
            self._seconds = min(self._seconds + _STEP, self._bound)

    def failed(self, asked: float, after: float) -> None:
        """One got no answer of dispatch. If that was after a step and more, its length may have been the reason."""
        if asked > _STEP and after > _STEP:
            self._forget_in_time()
            # Of two that were cut off the shorter one counts, whichever is heard of last.
            self._bound, self._bound_since = min(self._bound, asked - _STEP), self._clock.monotonic()
            self._seconds = min(self._seconds, self._bound)

    def _forget_in_time(self) -> None:
        if self._clock.monotonic() - self._bound_since >= _REMEMBERED:
            self._bound = self._longest
