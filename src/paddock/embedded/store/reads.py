"""The read side of a store: everything but how a change becomes durable."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from paddock.embedded.store.interface import Change, Key, Record, StoreError, StorePage, Watch
from paddock.embedded.store.state import HISTORY_LIMIT, Name, StoreState
from paddock.embedded.store.watches import QUEUE_LIMIT, QueuedWatch, Watchers

__all__ = ["ReadableStore"]


class ReadableStore:
    """Answers get, list, watch and compact from memory; a subclass makes changes and shows them with `_show`."""

    def __init__(
        self, revision: int = 0, *, history_limit: int = HISTORY_LIMIT, queue_limit: int = QUEUE_LIMIT
    ) -> None:
        self._state = StoreState(revision, history_limit=history_limit)
        self._watchers = Watchers()
        self._queue_limit = queue_limit
        self._broken: StoreError | None = None

    @property
    def revision(self) -> int:
        return self._state.revision

    async def get(self, key: Key) -> Record | None:
        self._check()
        return self._state.get(key)

    async def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        limit: int = 0,
        after: Name | None = None,
        revision: int | None = None,
    ) -> StorePage:
        self._check()
        return self._state.page(resource, namespace, limit, after, revision)

    @asynccontextmanager
    async def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        after: int,
        wanted: Callable[[Key], bool] | None = None,
    ) -> AsyncIterator[Watch]:
        self._check()
        watch = QueuedWatch(namespace, wanted, lambda: self._state.revision, self._queue_limit)
        # Replaying and joining are one step of the event loop: no change falls between them.
        watch.replay(self._state.since(after, resource))
        self._watchers.add(resource, watch)
        try:
            yield watch
        finally:
            self._watchers.remove(resource, watch)
            watch.end()

    async def compact(self, revision: int) -> None:
        self._check()
        self._state.forget(revision)

    def _check(self) -> None:
        if self._broken is not None:
            raise self._broken.with_traceback(None)

    def _show(self, change: Change) -> None:
        """Make a durable change visible to reads and watches, in one step."""
        self._state.apply(change)
        self._watchers.publish(change)
