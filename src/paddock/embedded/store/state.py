"""The records and the recent history of a store, in memory: what is now, and what was a while ago.

Nothing here waits: one call is one step, so whoever holds the event loop sees a consistent state.
"""

import heapq
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from paddock.embedded.store.interface import (
    Change,
    CompactedError,
    FutureRevisionError,
    Key,
    Record,
    StorePage,
)

__all__ = ["HISTORY_LIMIT", "Name", "Shelf", "StoreState", "undone"]

HISTORY_LIMIT = 10_000
HISTORY_BYTES = 16 * 1024 * 1024

Name = tuple[str, str]
"""(namespace, name): what orders the records of one resource."""


class Shelf:
    """The records of one resource, by name and in order."""

    __slots__ = ("_order", "_records")

    def __init__(self) -> None:
        self._order: list[Name] = []
        self._records: dict[Name, Record] = {}

    def get(self, name: Name) -> Record | None:
        return self._records.get(name)

    def put(self, name: Name, record: Record) -> None:
        if name not in self._records:
            insort(self._order, name)
        self._records[name] = record

    def remove(self, name: Name) -> None:
        del self._records[name]
        del self._order[bisect_left(self._order, name)]

    def fill(self, records: Iterable[Record]) -> None:
        """Take many records at once: one sort instead of an insertion each."""
        self._records.update(((record.key.namespace, record.key.name), record) for record in records)
        self._order = sorted(self._records)

    def page(
        self, namespace: str | None, limit: int, after: Name | None, past: dict[Name, Record | None]
    ) -> tuple[tuple[Record, ...], int]:
        """The first `limit` records of the range (0: all) and how many follow, as if `past` had not been changed since.

        `past` names records whose value differs from the present one: an older record, or None for "was not there".
        The cost is that of the page and of `past`, however many records there are.
        """
        order, records = self._order, self._records
        low, high = 0, len(order)
        if namespace is not None:
            # "\0" makes the very next text after the namespace, so this range holds it and nothing else.
            low, high = bisect_left(order, (namespace, "")), bisect_left(order, (namespace + "\0", ""))
        if after is not None:
            low = max(low, bisect_right(order, after))
        reach = max(0, high - low)
        size = limit or len(order) + len(past)
        present: Iterable[Record] = (records[order[at]] for at in range(low, high))
        if not past:
            page = tuple(islice(present, size))
            return page, reach - len(page)
        theirs = [
            (name, record)
            for name, record in past.items()
            if (namespace is None or name[0] == namespace) and (after is None or name > after)
        ]
        total = reach - sum(name in records for name, _ in theirs) + sum(record is not None for _, record in theirs)
        unchanged = (record for record in present if (record.key.namespace, record.key.name) not in past)
        restored = [record for _, record in sorted(theirs, key=lambda pair: pair[0]) if record is not None]
        merged = heapq.merge(unchanged, restored, key=lambda record: (record.key.namespace, record.key.name))
        page = tuple(islice(merged, size))
        return page, total - len(page)


def undone(newest_first: Iterable[Change], revision: int, resource: str) -> dict[Name, Record | None]:
    """What the records changed after `revision` were at that revision; None where there was none."""
    past: dict[Name, Record | None] = {}
    for change in newest_first:
        if change.revision <= revision:
            break
        key = change.record.key
        if key.resource == resource:
            past[key.namespace, key.name] = change.previous  # an older change overwrites: the oldest one is right
    return past


class StoreState:
    """Records at `revision`, and every change after `floor`.

    Revisions have no gaps: the history holds exactly the changes floor + 1 … revision.
    """

    def __init__(
        self, revision: int = 0, *, history_limit: int = HISTORY_LIMIT, history_bytes: int = HISTORY_BYTES
    ) -> None:
        """The history is bounded twice: by its changes, and by the bytes of their objects; the latest change is always kept."""
        self.revision = revision
        self._shelves: dict[str, Shelf] = {}
        self._history: deque[Change] = deque()
        self._history_limit = history_limit
        self._history_bytes = history_bytes
        self._bytes = 0

    @property
    def floor(self) -> int:
        """The oldest revision that can still be read or watched from."""
        return self.revision - len(self._history)

    def load(self, records: Iterable[Record], revision: int) -> None:
        """Take over records that were kept elsewhere; nothing before `revision` is known then."""
        by_resource: dict[str, list[Record]] = {}
        for record in records:
            by_resource.setdefault(record.key.resource, []).append(record)
        self._shelves.clear()
        for resource, theirs in by_resource.items():
            self._shelf(resource).fill(theirs)
        self._history.clear()
        self._bytes = 0
        self.revision = revision

    def get(self, key: Key) -> Record | None:
        shelf = self._shelves.get(key.resource)
        return None if shelf is None else shelf.get((key.namespace, key.name))

    def page(
        self, resource: str, namespace: str | None, limit: int, after: Name | None, revision: int | None
    ) -> StorePage:
        past: dict[Name, Record | None] = {}
        if revision is not None and revision != self.revision:
            self.check_reach(revision)
            past = undone(reversed(self._history), revision, resource)
        shelf = self._shelves.get(resource) or Shelf()
        records, remaining = shelf.page(namespace, limit, after, past)
        return StorePage(records, self.revision if revision is None else revision, remaining)

    def since(self, revision: int, resource: str) -> Iterator[Change]:
        """The changes of a resource after `revision`, oldest first."""
        self.check_reach(revision)
        newer: list[Change] = []
        for change in reversed(self._history):
            if change.revision <= revision:
                break
            if change.record.key.resource == resource:
                newer.append(change)
        return reversed(newer)

    def apply(self, change: Change) -> None:
        """Make a change visible; its revision is the next one."""
        assert change.revision == self.revision + 1
        key = change.record.key
        shelf = self._shelf(key.resource)
        if change.kind == "DELETED":
            shelf.remove((key.namespace, key.name))
        else:
            shelf.put((key.namespace, key.name), change.record)
        self.revision = change.revision
        self._history.append(change)
        self._bytes += len(change.record.value)
        while len(self._history) > 1 and (
            len(self._history) > self._history_limit or self._bytes > self._history_bytes
        ):
            self._drop_oldest()

    def forget(self, revision: int) -> None:
        """Drop the changes up to and including `revision`."""
        if revision > self.revision:
            raise FutureRevisionError(f"revision {revision} has not happened yet: the newest is {self.revision}")
        while self._history and self._history[0].revision <= revision:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        # The object before a change is mostly another change's: counting each change's own object counts each once.
        self._bytes -= len(self._history.popleft().record.value)

    def check_reach(self, revision: int) -> None:
        """Raise unless everything after `revision` is still known."""
        if revision > self.revision:
            raise FutureRevisionError(f"revision {revision} has not happened yet: the newest is {self.revision}")
        if revision < self.floor:
            raise CompactedError(
                f"history before revision {self.floor} is gone, and {revision} was asked for: list again"
            )

    def records(self) -> Iterator[Record]:
        """Every record, resource by resource."""
        return chain.from_iterable(shelf.page(None, 0, None, {})[0] for shelf in self._shelves.values())

    def _shelf(self, resource: str) -> Shelf:
        shelf = self._shelves.get(resource)
        if shelf is None:
            shelf = self._shelves[resource] = Shelf()
        return shelf
