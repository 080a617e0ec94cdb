"""Who watches what, and what each watcher has not taken yet."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Self

from paddock.embedded.store.interface import Change, CompactedError, Key, StoreError

__all__ = ["QUEUE_LIMIT", "QueuedWatch", "Watchers"]

QUEUE_LIMIT = 10_000


class QueuedWatch:
    """One consumer's changes. Changes from history wait beside the queue and do not count against its limit."""

    def __init__(
        self,
        namespace: str | None,
        wanted: Callable[[Key], bool] | None,
        newest: Callable[[], int],
        limit: int,
    ) -> None:
        self._namespace = namespace
        self._wanted = wanted
        self._newest = newest
        self._limit = limit
        self._history: deque[Change] = deque()
        self._queue: deque[Change] = deque()
        self._ready = asyncio.Event()
        self._failure: StoreError | None = None
        self._vouched = 0
        self._ended = False

    def replay(self, changes: Iterable[Change]) -> None:
        """Take what had happened before the watch began."""
        self._history.extend(change for change in changes if self._shows(change.record.key))

    def offer(self, change: Change) -> None:
        """Queue a change. A consumer too far behind loses its queue and is told so: a gap would be worse."""
        if self._failure is not None:
            return
        try:
            if not self._shows(change.record.key):
                return
        except Exception as error:  # noqa: BLE001 - a faulty filter is its own watch's trouble, never the publisher's
            failure = StoreError(f"the filter of the watch failed on {change.record.key}")
            failure.__cause__ = error
            self.fail(failure)
            return
        if len(self._queue) >= self._limit:
            self.fail(CompactedError(f"the watch fell more than {self._limit} changes behind: list again"))
            return
        self._queue.append(change)
        self._ready.set()

    def fail(self, failure: StoreError) -> None:
        """Give the consumer this error, and nothing after it."""
        self._vouched = self.revision
        self._failure = failure
        self._history.clear()
        self._queue.clear()
        self._ready.set()

    def end(self) -> None:
        """Let the consumer have what is queued, then end the iteration."""
        self._ended = True
        self._ready.set()

    @property
    def revision(self) -> int:
        # A change is offered in the same step in which it becomes visible, so an empty queue means: all delivered.
        if self._failure is not None:
            return self._vouched
        if self._history:
            return self._history[0].revision - 1
        return self._queue[0].revision - 1 if self._queue else self._newest()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        if self._history:
            return self._history.popleft()
        while not self._queue:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._ended:
                raise StopAsyncIteration
            self._ready.clear()
            await self._ready.wait()
        return self._queue.popleft()

    def _shows(self, key: Key) -> bool:
        if self._namespace is not None and key.namespace != self._namespace:
            return False
        return self._wanted is None or self._wanted(key)


class Watchers:
    """All open watches, by resource: a change that no client watches costs one look-up."""

    def __init__(self) -> None:
        self._by_resource: dict[str, dict[QueuedWatch, None]] = {}

    def add(self, resource: str, watch: QueuedWatch) -> None:
        self._by_resource.setdefault(resource, {})[watch] = None

    def remove(self, resource: str, watch: QueuedWatch) -> None:
        theirs = self._by_resource[resource]
        del theirs[watch]
        if not theirs:
            del self._by_resource[resource]

    def publish(self, change: Change) -> None:
        for watch in self._by_resource.get(change.record.key.resource, ()):
            watch.offer(change)

    def fail(self, failure: StoreError) -> None:
        for watch in self._all():
            watch.fail(failure)

    def end(self) -> None:
        for watch in self._all():
            watch.end()

    def _all(self) -> list[QueuedWatch]:
        return [watch for theirs in self._by_resource.values() for watch in theirs]
