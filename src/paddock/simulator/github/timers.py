"""What will happen by itself, in the order of its moments."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from datetime import datetime

__all__ = ["Timers"]


class Timers:
    """Moments with something to do at each. Nothing is ever taken back: what is done then must look whether it still
    applies.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Callable[[datetime], None]]] = []
        self._order = itertools.count()

    def at(self, moment: datetime, act: Callable[[datetime], None]) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), act))

    def next_moment(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now: datetime) -> Iterator[tuple[datetime, Callable[[datetime], None]]]:
        """What has fallen due, oldest first, including what is added meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            moment, _, act = heapq.heappop(self._heap)
            yield moment, act
