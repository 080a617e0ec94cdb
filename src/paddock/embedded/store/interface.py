"""The store's contract: names, values, errors and the Protocol."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

__all__ = [
    "Change",
    "ChangeKind",
    "CompactedError",
    "ExistsError",
    "FutureRevisionError",
    "Key",
    "MissingError",
    "Record",
    "RevisionMismatchError",
    "Store",
    "StoreError",
    "StoreOwnedElsewhereError",
    "StorePage",
    "StoreUnavailableError",
    "Watch",
]


class Key(NamedTuple):
    """Where an object lives. `resource` is `plural.group` (`pods`, `runnerpools.tuist.dev`): versions share a key."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Record:
    """One object as stored: its complete JSON, `metadata.resourceVersion` included."""

    key: Key
    revision: int
    value: bytes


ChangeKind = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Change:
    """One step of the store. `record` of a DELETED carries the last object under the new, higher revision."""

    kind: ChangeKind
    revision: int
    record: Record
    previous: Record | None


@dataclass(frozen=True, slots=True)
class StorePage:
    """Part of a list, ordered by (namespace, name). `remaining` counts what follows the last record."""

    records: tuple[Record, ...]
    revision: int
    remaining: int


class StoreError(Exception):
    """The root of what a store raises."""


class MissingError(StoreError):
    """There is no record under that key."""


class ExistsError(StoreError):
    """A record exists under that key already."""


class RevisionMismatchError(StoreError):
    """The record is not at the revision that the caller read: read again and decide again."""


class CompactedError(StoreError):
    """The history asked for is no longer kept: list again."""


class FutureRevisionError(StoreError):
    """The revision asked for has not happened yet."""


class StoreUnavailableError(StoreError):
    """The database does not answer. Whether the write happened is not known to the caller."""


class StoreOwnedElsewhereError(StoreError):
    """Another process owns this store: stop that process, or give this one its own database or schema."""


class Watch(Protocol):
    """The changes of one watch, for one consumer.

    Cancelling a pending `anext` loses nothing. The iteration ends when the store is closed.
    """

    @property
    def revision(self) -> int:
        """Up to here the consumer has been given everything that it asked for; fit for a bookmark."""
        ...

    def __aiter__(self) -> AsyncIterator[Change]: ...

    def __anext__(self) -> Awaitable[Change]: ...


class Store(Protocol):
    """A revisioned key-value store with watch.

    Values are handed over as dicts; the store sets `metadata.resourceVersion` to the new revision (as a decimal string)
    and encodes. A caller never changes a dict after handing it over.
    """

    @property
    def revision(self) -> int:
        """The newest revision that is visible."""
        ...

    async def get(self, key: Key) -> Record | None:
        """The newest record under the key."""
        ...

    async def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        limit: int = 0,
        after: tuple[str, str] | None = None,
        revision: int | None = None,
    ) -> StorePage:
        """Records of a resource, in one namespace or in all, after (namespace, name), at a revision (None: newest)."""
        ...

    async def create(self, key: Key, value: dict[str, Any]) -> Record:
        """Store a new record; ExistsError if there is one."""
        ...

    async def update(self, key: Key, value: dict[str, Any], expected: int) -> Record:
        """Replace the record if it is still at revision `expected`; else RevisionMismatchError or MissingError."""
        ...

    async def delete(self, key: Key, expected: int) -> Record:
        """Remove the record if it is still at revision `expected`; gives the last record under the new revision."""
        ...

    def watch(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        after: int,
        wanted: Callable[[Key], bool] | None = None,
    ) -> AbstractAsyncContextManager[Watch]:
        """Every change after revision `after`, in order; CompactedError (on entering or later) when history is gone.

        `wanted` narrows by key before anything is queued; it must be quick and must not raise. A consumer that falls too far behind gets CompactedError
        rather than a gap.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget history up to and including `revision`; records themselves stay."""
        ...
