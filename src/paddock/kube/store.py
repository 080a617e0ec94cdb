"""The cache of one kind: objects by key, indices over them, and the difference a new list makes. No I/O."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from paddock.kube.objects import KubeObject, key_of

__all__ = ["CacheChange", "Indexer", "Key", "Store", "by_label"]

T = TypeVar("T", bound=KubeObject)
Key = tuple[str, str]
Indexer = Callable[[T], Iterable[str]]
"""From an object to the values under which it is found."""


@dataclass(frozen=True, slots=True)
class CacheChange(Generic[T]):
    """One step of the cache. `old` is missing for `added`, `new` for `deleted`; for `deleted`, `old` is the last state
    known, which after a gap may not be the very last one there was.
    """

    kind: Literal["added", "updated", "deleted"]
    old: T | None
    new: T | None

    @property
    def obj(self) -> T:
        """The newest state known."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None, "a change has at least one side"
        return obj


class Store(Generic[T]):
    """Frozen objects by (namespace, name). Every mutation returns the changes it made, in order.

    An object that comes back under its name with another uid is a deletion and an addition: the two were never the
    same thing.
    """

    def __init__(self, indexers: Mapping[str, Indexer[T]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._indexers = dict(indexers or {})
        self._indices: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._indexers}

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(list(self._objects.values()))

    def keys(self) -> list[Key]:
        return list(self._objects)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def by_index(self, index: str, value: str) -> list[T]:
        """The objects that the indexer of that name filed under the value."""
        return [self._objects[key] for key in self._indices[index].get(value, ())]

    def put(self, obj: T) -> list[CacheChange[T]]:
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            return [*self.remove(key), *self.put(obj)]
        if old is not None and _same_version(old, obj):
            return []
        if old is not None:
            self._unfile(key, old)
        self._objects[key] = obj
        self._file(key, obj)
        return [CacheChange("added" if old is None else "updated", old, obj)]

    def remove(self, key: Key, last: T | None = None) -> list[CacheChange[T]]:
        """Forget an object; `last` is its final state, if the server told it."""
        old = self._objects.pop(key, None)
        if old is None:
            return []
        self._unfile(key, old)
        return [CacheChange("deleted", last if last is not None else old, None)]

    def replace(self, objects: Mapping[Key, T], keep: Iterable[Key] = ()) -> list[CacheChange[T]]:
        """Become what a complete list says: whatever is not in it was deleted, except the keys to `keep`, which the
        list had but could not be read. Deletions come first, so that an index never holds two tenants of one place.
        """
        kept = set(keep)
        changes: list[CacheChange[T]] = []
        for key in [key for key in self._objects if key not in objects and key not in kept]:
            changes += self.remove(key)
        for obj in objects.values():
            changes += self.put(obj)
        return changes

    def _file(self, key: Key, obj: T) -> None:
        for name, indexer in self._indexers.items():
            for value in indexer(obj):
                self._indices[name].setdefault(value, {})[key] = None

    def _unfile(self, key: Key, obj: T) -> None:
        for name, indexer in self._indexers.items():
            index = self._indices[name]
            for value in indexer(obj):
                if (filed := index.get(value)) is not None:
                    filed.pop(key, None)
                    if not filed:
                        del index[value]


def _same_version(old: KubeObject, new: KubeObject) -> bool:
    # Equality is the only question that may be asked of a resourceVersion.
    return bool(new.metadata.resource_version) and old.metadata.resource_version == new.metadata.resource_version


def by_label(label: str) -> Callable[[KubeObject], Iterable[str]]:
    """Indexer: the value of one label, where the object has it."""

    def indexer(obj: KubeObject) -> Iterable[str]:
        value = obj.metadata.labels.get(label)
        return [] if value is None else [value]

    return indexer
