"""Where the embedded API keeps its objects: a revisioned key-value store with watch, the way etcd is one.

The guarantees that the API above relies on, and that both implementations are held to by one conformance suite:

- every write gets the next revision of one counter for all keys; a revision is never used twice, restarts included;
- a write is acknowledged only when it would survive `kill -9`, and is visible to reads and watches only then;
- a watch from revision N delivers every change after N, in order, each exactly once, or fails with `CompactedError`;
- a list at revision N shows the state as of N, or fails with `CompactedError`.

One process owns a store at a time; the Postgres one holds a lock that says so.
"""

from paddock.embedded.store.interface import (
    Change,
    ChangeKind,
    CompactedError,
    ExistsError,
    FutureRevisionError,
    Key,
    MissingError,
    Record,
    RevisionMismatchError,
    Store,
    StoreError,
    StoreOwnedElsewhereError,
    StorePage,
    StoreUnavailableError,
    Watch,
)

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
