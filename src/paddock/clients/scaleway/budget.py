"""How many requests this process may send: a token bucket with a short queue, shared by everyone in the process."""

from paddock.base.clock import Clock
from paddock.clients.scaleway.errors import RateLimited

__all__ = ["RequestBudget"]


class RequestBudget:
    """At most `burst` requests at once and `rate` a second in the long run; a fleet can never hammer the cloud.

    `take()` returns when the caller may send, in the order of asking. With more than `queue` callers waiting it raises
    RateLimited at once: a controller that is told to come back later is better off than one that waits for minutes.
    `hold(seconds)` makes everyone wait, for example because the cloud answered 429 with a Retry-After.
    """

    def __init__(self, clock: Clock, *, rate: float, burst: int, queue: int) -> None:
        if rate <= 0 or burst < 1 or queue < 0:
            raise ValueError(
                "a request budget needs a rate above zero, a burst of at least 1 and a queue of at least 0"
            )
        self._clock = clock
        self._interval = 1.0 / rate
        self._tolerance = (burst - 1) * self._interval
        self._queue = queue
        self._waiting = 0
        self._held_until = 0.0
        # The moment at which the bucket would be full again. It only moves forward by one interval per request, so
        # each caller gets a moment of its own and the order of asking is the order of sending.
        self._full_at = 0.0

    @property
    def waiting(self) -> int:
        return self._waiting

    def hold(self, seconds: float) -> None:
        """Send nothing for that long. A shorter hold never ends a longer one."""
        self._held_until = max(self._held_until, self._clock.monotonic() + seconds)

    async def take(self) -> None:
        now = self._clock.monotonic()
        full_at = max(self._full_at, now)
        wait = max(full_at - self._tolerance, self._held_until) - now
        if wait > 0 and self._waiting >= self._queue:
            raise RateLimited(
                f"{self._waiting} requests already wait for the request budget", retry_after=wait, local=True
            )
        self._full_at = full_at + self._interval
        if wait <= 0:
            return
        self._waiting += 1
        try:
            # A cancelled waiter keeps its turn: giving it back would reorder the others, and one unsent request is
            # on the safe side of the budget.
            await self._clock.sleep(wait)
            while (rest := self._held_until - self._clock.monotonic()) > 0:
                await self._clock.sleep(rest)
        finally:
            self._waiting -= 1
