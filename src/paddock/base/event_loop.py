"""An event loop that measures how long it was away from its sockets: nothing is answered meanwhile.

A turn of the loop begins when it has heard of what is ready, and ends when it listens again. So every turn is measured, each
once, at the cost of two looks at the clock; a task that sleeps and sees how late it wakes would miss what lies between.
"""

import asyncio
import selectors
import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Coroutine, Iterable
from itertools import accumulate
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["MeasuredEventLoop", "Turns", "report_turns", "run_measured"]

T = TypeVar("T")

_BOUNDS: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_WINDOW: Final = 60.0
_SWITCH: Final = 0.001


class Turns(Collector):
    """How long the turns of one loop took. Written by the loop alone; a scrape reads plain numbers."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.process = ""
        self._now = now
        self._counts = [0] * (len(_BOUNDS) + 1)
        self._sum = 0.0
        self._longest = self._before = 0.0
        self._began = now()

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(_BOUNDS, seconds)] += 1
        self._sum += seconds
        self._roll()
        self._longest = max(self._longest, seconds)

    def longest(self) -> float:
        """The longest turn of the last minute or two."""
        self._roll()
        return max(self._longest, self._before)

    def _roll(self) -> None:
        now = self._now()
        if now - self._began >= _WINDOW:
            self._before = self._longest if now - self._began < 2 * _WINDOW else 0.0
            self._longest, self._began = 0.0, now

    def collect(self) -> Iterable[Metric]:
        bounds = [*(str(bound) for bound in _BOUNDS), "+Inf"]
        turns = HistogramMetricFamily(
            "paddock_event_loop_lag_seconds",
            "How long the process was away from its sockets: one turn of its event loop, in which nothing is answered.",
            labels=["process"],
        )
        counts = (float(count) for count in accumulate(self._counts))
        turns.add_metric([self.process], list(zip(bounds, counts, strict=True)), self._sum)
        yield turns
        longest = GaugeMetricFamily(
            "paddock_event_loop_longest_lag_seconds",
            "The longest turn of the event loop in the last minute or two.",
            labels=["process"],
        )
        longest.add_metric([self.process], self.longest())
        yield longest


class _Timed(selectors.DefaultSelector):
    def __init__(self, turns: Turns) -> None:
        super().__init__()
        self._turns = turns
        self._woke: float | None = None

    def select(self, timeout: float | None = None) -> Any:
        if self._woke is not None:
            self._turns.add(time.perf_counter() - self._woke)
        try:
            return super().select(timeout)
        finally:
            self._woke = time.perf_counter()


class MeasuredEventLoop(asyncio.SelectorEventLoop):
    """The ordinary loop, with a stopwatch on its selector."""

    def __init__(self) -> None:
        self.turns = Turns()
        super().__init__(_Timed(self.turns))


def run_measured(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on a loop that is measured, and that waits a millisecond at most for a thread that computes.

    The interpreter's own five would be waited anew after every call of the loop to its sockets, while a page is drawn.
    """
    sys.setswitchinterval(_SWITCH)
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        return runner.run(main)


def report_turns(registry: CollectorRegistry, process: str) -> None:
    """Put the numbers of the running loop among the process's metrics; one that is not measured has none."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, MeasuredEventLoop):
        loop.turns.process = process
        registry.register(loop.turns)
