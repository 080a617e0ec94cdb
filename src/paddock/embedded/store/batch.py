"""A group of writes that become durable together, decided before anything is sent: pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from paddock.embedded.store.interface import Change, Key, Record
from paddock.embedded.store.operations import Operation, effect

__all__ = ["Batch", "Outcome", "decide"]

Outcome = Record | Exception
"""What one caller is told once the batch is durable: its record, or why its operation was refused."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes base + 1 … last, in order, and one outcome for each operation.

    An outcome holds only once the batch is durable: a refusal may be due to a change of the same batch.
    """

    base: int
    changes: tuple[Change, ...]
    outcomes: tuple[Outcome, ...]

    @property
    def last(self) -> int:
        return self.base + len(self.changes)

    def net(self) -> tuple[tuple[Record, ...], tuple[Key, ...]]:
        """The records to write and the keys to remove, each key once: only the last change of a key matters."""
        final = {change.record.key: change for change in self.changes}
        kept = tuple(change.record for change in final.values() if change.kind != "DELETED")
        gone = tuple(key for key, change in final.items() if change.kind == "DELETED")
        return kept, gone


def decide(operations: Iterable[Operation], lookup: Callable[[Key], Record | None], base: int) -> Batch:
    """Let each operation meet the stored records as the ones before it leave them; a refused one uses no revision."""
    overlay: dict[Key, Record | None] = {}
    changes: list[Change] = []
    outcomes: list[Outcome] = []
    for operation in operations:
        key = operation.key
        current = overlay[key] if key in overlay else lookup(key)
        try:
            change = effect(operation, current, base + len(changes) + 1)
        except Exception as error:  # noqa: BLE001 - a value that JSON cannot express is its own caller's mistake alone
            outcomes.append(error)
            continue
        overlay[key] = None if change.kind == "DELETED" else change.record
        changes.append(change)
        outcomes.append(change.record)
    return Batch(base, tuple(changes), tuple(outcomes))
