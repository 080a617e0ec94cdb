"""What was read fresh and what from a cache, told apart by type.

A function that destroys something asks for a `FreshReader`; handing it a cache does not type-check, because the two share
no base, and at run time it fails, because one is awaited and the other is not. Neither has a public protocol to imitate:
a fresh read is one that this package made.
"""

from typing import Generic, TypeVar, final

from paddock.kube.client import Client
from paddock.kube.decoding import Listing
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import KubeObject
from paddock.kube.store import Store

__all__ = ["CachedReader", "FreshReader"]

T = TypeVar("T", bound=KubeObject)


@final
class FreshReader:
    """Uncached, linearizable reads: what it answers was true on the server after the call began.

    Take the `uid` and `resource_version` of what you read along as preconditions of what you then do.
    """

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(
        self,
        kind: type[T],
        name: str,
        namespace: str | None = None,
        *,
        timeout: float | None = None,
    ) -> T | None:
        """The object, or None when the server says that there is none. Every other failure raises: not knowing is not
        the same as not there.
        """
        try:
            return await self._client.get(kind, name, namespace, timeout=timeout)
        except NotFoundError:
            return None

    async def list(
        self,
        kind: type[T],
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        timeout: float | None = None,
    ) -> Listing[T]:
        """A complete list, or an error; never a part."""
        return await self._client.list(
            kind, namespace, label_selector=label_selector, field_selector=field_selector, timeout=timeout
        )


@final
class CachedReader(Generic[T]):
    """An informer's cache: instant, and possibly seconds old. Good for deciding *whether to look*, never for proof."""

    __slots__ = ("_store",)

    def __init__(self, store: Store[T]) -> None:
        self._store = store

    def __len__(self) -> int:
        return len(self._store)

    def get(self, name: str, namespace: str = "") -> T | None:
        return self._store.get((namespace, name))

    def list(self, namespace: str | None = None) -> list[T]:
        """All objects, or those of one namespace."""
        return [obj for obj in self._store if namespace is None or obj.metadata.namespace == namespace]

    def by_index(self, index: str, value: str) -> "list[T]":
        """The objects that the informer's indexer of that name filed under the value; KeyError without such an indexer."""
        return self._store.by_index(index, value)
