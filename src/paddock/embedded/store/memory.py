"""A store that lives as long as the process: for the simulator, for tests, and as the model of the durable one."""

from typing import Any

from paddock.embedded.store.interface import Key, Record, StoreUnavailableError
from paddock.embedded.store.operations import Create, Delete, Operation, Update, check_key, effect
from paddock.embedded.store.reads import ReadableStore

__all__ = ["MemoryStore"]


class MemoryStore(ReadableStore):
    """`Store` without a disk: a write is durable for as long as there is anyone to ask.

    `revision` is the last revision taken to be used already; the first write gets the next one.
    """

    async def create(self, key: Key, value: dict[str, Any]) -> Record:
        return self._write(Create(key, value))

    async def update(self, key: Key, value: dict[str, Any], expected: int) -> Record:
        return self._write(Update(key, value, expected))

    async def delete(self, key: Key, expected: int) -> Record:
        return self._write(Delete(key, expected))

    async def close(self) -> None:
        """End every watch and refuse whatever comes later."""
        self._broken = StoreUnavailableError("the store is closed")
        self._watchers.end()

    def _write(self, operation: Operation) -> Record:
        self._check()
        check_key(operation.key)
        change = effect(operation, self._state.get(operation.key), self._state.revision + 1)
        self._show(change)
        return change.record
