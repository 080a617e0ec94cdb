"""Keys that wait for a worker: each at most once in the queue, each with at most one worker.

`Schedule` is the rule, without time or waiting of its own; `WorkQueue` lets workers wait for it.
"""

import asyncio
import contextlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.kube.metrics import KubeMetrics

__all__ = ["QueueClosedError", "Schedule", "WorkQueue"]

K = TypeVar("K", bound=Hashable)
_ROUNDING = 1e-6


class QueueClosedError(Exception):
    """The queue was shut down: the worker ends."""


@dataclass(slots=True)
class Schedule(Generic[K]):
    """Which key is next.

    A key is *ready* (waits, once), *processing* (a worker has it), *dirty* (added while processing: ready again when
    done) and, beside any of these, *delayed* (will be added at a moment; of two moments the earlier one counts). A key
    that *rests* was done a moment ago: what wants it meanwhile has to wait, and all of that becomes one turn.
    """

    ready: deque[K] = field(default_factory=deque)
    since: dict[K, float] = field(default_factory=dict)
    processing: set[K] = field(default_factory=set)
    dirty: dict[K, float] = field(default_factory=dict)
    delayed: dict[K, float] = field(default_factory=dict)
    resting: dict[K, float] = field(default_factory=dict)
    """Until when."""
    _heap: list[tuple[float, int, K]] = field(default_factory=list)
    _order: int = 0

    def add(self, key: K, now: float) -> bool:
        """Want the key processed; False when that is the case already, or has to wait."""
        if key in self.since or key in self.dirty:
            return False
        if key in self.resting:
            if (until := self.resting[key]) > now:
                self.add_at(key, until)
                return False
            del self.resting[key]
        if key in self.processing:
            self.dirty[key] = now
        else:
            self.ready.append(key)
            self.since[key] = now
        return True

    def add_at(self, key: K, moment: float) -> None:
        """Add the key at a moment, unless it is to be added sooner anyway."""
        if key in self.delayed and self.delayed[key] <= moment:
            return
        self.delayed[key] = moment
        self._order += 1
        heapq.heappush(self._heap, (moment, self._order, key))

    def promote(self, now: float) -> int:
        """Add the delayed keys whose moment has come; how many that made wanted."""
        added = 0
        while (moment := self.next_moment()) is not None and moment <= now:
            _, _, key = heapq.heappop(self._heap)
            del self.delayed[key]
            added += self.add(key, moment)
        return added

    def next_moment(self) -> float | None:
        """When the next delayed key is due."""
        while self._heap and self.delayed.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)  # replaced by an earlier moment, which has been served or is above it
        return self._heap[0][0] if self._heap else None

    def take(self) -> tuple[K, float] | None:
        """The next ready key and since when it was; it is processing until `done`."""
        if not self.ready:
            return None
        key = self.ready.popleft()
        self.processing.add(key)
        return key, self.since.pop(key)

    def done(self, key: K, rest_until: float | None = None) -> bool:
        """The worker is finished; True when the key is ready again, because it was added meanwhile."""
        self.processing.discard(key)
        if rest_until is not None:
            self.resting[key] = rest_until
        if (since := self.dirty.pop(key, None)) is None:
            return False
        if rest_until is not None:
            self.add_at(key, rest_until)
            return False
        self.ready.append(key)
        self.since[key] = since
        return True


class WorkQueue(Generic[K]):
    """A queue for many workers of one loop.

    A worker calls `get`, works, and calls `done` whatever happened; then `forget` after a success, or
    `add_rate_limited` after a failure. After `shut_down` nothing is accepted and nothing handed out: what was waiting
    is dropped, since whoever starts next lists everything anew.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock,
        rng: random.Random,
        backoff: Backoff | None = None,
        rest: Callable[[K], float] | None = None,
        metrics: KubeMetrics | None = None,
    ) -> None:
        """`rest`: for how many seconds a key is left alone after a worker was done with it."""
        self.name = name
        self._rest = rest
        self._clock = clock
        self._rng = rng
        self._backoff = backoff or Backoff(base=0.1, cap=120.0)
        self._schedule: Schedule[K] = Schedule()
        self._failures: dict[K, int] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: tuple[float, asyncio.Task[None]] | None = None
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()
        counted = metrics or KubeMetrics()
        self._depth = counted.queue_depth.labels(name)
        self._adds = counted.queue_adds.labels(name)
        self._retries = counted.queue_retries.labels(name)
        self._latency = counted.queue_latency.labels(name)
        self._depth.set(0)

    def __len__(self) -> int:
        """How many keys wait for a worker."""
        return len(self._schedule.ready)

    def failures(self, key: K) -> int:
        """Failures in a row."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """Process the key as soon as a worker is free and its rest is over; if one has it now, once more afterwards."""
        if self._closed:
            return
        if self._schedule.add(key, self._clock.monotonic()):
            self._added(1)
        else:
            self._arm()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key in that many seconds, unless it is to be added sooner anyway."""
        if seconds <= 0:
            self.add(key)
        elif not self._closed:
            self._schedule.add_at(key, self._clock.monotonic() + seconds)
            self._arm()

    def add_rate_limited(self, key: K, retry_after: float | None = None) -> float:
        """Add the key after its backoff, which grows with every failure in a row; returns the seconds."""
        self._failures[key] = self.failures(key) + 1
        wait = self._backoff.delay(self._failures[key], self._rng, retry_after)
        self._retries.inc()
        self.add_after(key, wait)
        return wait

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure is the first."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, which no other worker has until `done`; QueueClosedError after `shut_down`."""
        while not self._closed:
            self._promote()
            if (taken := self._schedule.take()) is not None:
                key, since = taken
                self._idle.clear()
                self._depth.set(len(self))
                self._latency.observe(max(0.0, self._clock.monotonic() - since))
                return key
            await self._wait()
        raise QueueClosedError(self.name)

    def done(self, key: K) -> None:
        """The worker is finished with the key."""
        rest = self._rest(key) if self._rest is not None and not self._closed else 0.0
        if self._schedule.done(key, self._clock.monotonic() + rest if rest > 0 else None):
            self._added(1)
        self._arm()
        if not self._schedule.processing:
            self._idle.set()

    def shut_down(self) -> None:
        """Accept nothing more and send the workers home; `drained` waits for what they have in hand."""
        self._closed = True
        self._schedule = Schedule(processing=self._schedule.processing)
        self._failures.clear()
        self._depth.set(0)
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        """Wait until no key is being processed."""
        await self._idle.wait()

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        self._arm()
        try:
            await waiter
        except asyncio.CancelledError:
            # Woken and cancelled at once: the key that woke us is for another worker.
            if waiter.done() and not waiter.cancelled():
                self._wake(1)
            raise
        finally:
            with contextlib.suppress(ValueError):
                self._waiters.remove(waiter)

    def _promote(self) -> None:
        # A timer may ring a rounding error early; on virtual time, where nothing passes by itself, waiting for the rest
        # of a nanosecond would never end.
        if added := self._schedule.promote(self._clock.monotonic() + _ROUNDING):
            self._added(added)

    def _added(self, count: int) -> None:
        self._adds.inc(count)
        self._depth.set(len(self))
        self._wake(count)

    def _wake(self, count: int) -> None:
        while count > 0 and self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    def _arm(self) -> None:
        """Keep one timer for the earliest delayed key, while a worker waits for it; a busy one looks by itself."""
        moment = self._schedule.next_moment()
        if moment is None or not self._waiters or (self._timer is not None and self._timer[0] <= moment):
            return
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = (moment, asyncio.get_running_loop().create_task(self._ring(moment)))

    async def _ring(self, moment: float) -> None:
        await self._clock.sleep(moment - self._clock.monotonic())
        self._timer = None
        self._promote()
        self._arm()
