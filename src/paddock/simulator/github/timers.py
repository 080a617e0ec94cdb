"""What will happen by itself, in the order of its moments."""

import heapq
import itertools
from collections.abc import Callable, Iterator
from datetime import datetime

__all__ = ["Timers"]


_COMPACT_ABOVE = 1000


class Timers:
    """Moments with something to do at each. Nothing is ever taken back: what is done then must look whether it still
    applies. What says how to tell that it no longer `applies` is dropped before its moment, once there are many: a time-out
    of a day must not hold a job that ended after a minute.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Callable[[datetime], None], Callable[[], bool] | None]] = []
        self._order = itertools.count()
        self._compact_at = _COMPACT_ABOVE

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, moment: datetime, act: Callable[[datetime], None], applies: Callable[[], bool] | None = None) -> None:
        heapq.heappush(self._heap, (moment, next(self._order), act, applies))
        if len(self._heap) > self._compact_at:
            self._heap = [entry for entry in self._heap if entry[3] is None or entry[3]()]
            heapq.heapify(self._heap)
            self._compact_at = 2 * len(self._heap) + _COMPACT_ABOVE

    def next_moment(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None

    def due(self, now: datetime) -> Iterator[tuple[datetime, Callable[[datetime], None]]]:
        """What has fallen due, oldest first, including what is added meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            moment, _, act, _ = heapq.heappop(self._heap)
            yield moment, act
