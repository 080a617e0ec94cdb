"""An event loop that measures how long it was away from its sockets: nothing is answered meanwhile.

A turn of the loop begins when it has heard of what is ready, and ends when it listens again. So every turn is measured, each
once, at the cost of two looks at the clock; a task that sleeps and sees how late it wakes would miss what lies between.
"""

import asyncio
import gc
import selectors
import sys
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

__all__ = ["MeasuredEventLoop", "Turns", "report_turns", "run_measured"]

T = TypeVar("T")

_WINDOW: Final = 60.0
_SWITCH: Final = 0.001
_COLLECTED_AFTER: Final = (10_000, 10, 10)
"""Objects more than before, and so many collections of the younger ones; Python's own are 700, 10 and 10."""


class Turns(Collector):
    """How long the turns of one loop took. Written by the loop alone; a scrape reads plain numbers."""

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self.process = ""
        self._now = now
        self._longest = self._before = 0.0
        self._began = now()

    def add(self, seconds: float) -> None:
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
        longest = GaugeMetricFamily(
            "paddock_event_loop_longest_lag_seconds",
            "How long the process was away from its sockets at most, in one turn of its event loop, in the last minute or two.",
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
    A search for cycles stops the loop, too: it leaves out what was there at the start, and comes when so much more lives that
    ten thousand held requests, of which some end and some begin at any time, do not cause it several times a second.
    """
    sys.setswitchinterval(_SWITCH)
    gc.freeze()
    gc.set_threshold(*_COLLECTED_AFTER)
    with asyncio.Runner(loop_factory=MeasuredEventLoop) as runner:
        return runner.run(main)


def report_turns(registry: CollectorRegistry, process: str) -> None:
    """Put the numbers of the running loop among the process's metrics; one that is not measured has none."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, MeasuredEventLoop):
        loop.turns.process = process
        registry.register(loop.turns)
