"""The trace of a run: what happened, in order, as text that is the same byte for byte for the same seed."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple

from paddock.base.clock import rfc3339_micro
from paddock.simulator.process_life import current_life

__all__ = ["Entry", "Trace"]

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@+*%~")


class Entry(NamedTuple):
    """One thing that happened: the virtual time, who did it (`world` outside every process), what, and the particulars."""

    time: float
    process: str
    event: str
    fields: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        particulars = "".join(f" {name}={value}" for name, value in self.fields)
        return f"{self.time:14.6f} {self.process} {self.event}{particulars}"


class Trace:
    """An append-only record. Values are rendered when they are recorded, so later changes to them do not show."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []

    def record(self, event: str, /, *, by: str | None = None, **fields: Any) -> None:
        """Append one entry at the loop's present time, in the name of the process whose code is running, or of `by`.

        Raises TypeError on a value whose text could differ between two runs with one seed.
        """
        life = current_life()
        who = by if by is not None else life.name if life is not None else "world"
        rendered = tuple((name, _rendered(name, value)) for name, value in fields.items())
        self._entries.append(Entry(asyncio.get_running_loop().time(), who, event, rendered))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def of(self, event: str, *, by: str | None = None) -> list[Entry]:
        """The entries of one event, of one process if `by` names it."""
        return [entry for entry in self._entries if entry.event == event and (by is None or entry.process == by)]

    def text(self) -> str:
        """The whole trace, one line an entry."""
        return "".join(f"{entry}\n" for entry in self._entries)


def _rendered(name: str, value: Any) -> str:
    text = _stable(name, value)
    return text if text and _PLAIN.issuperset(text) else json.dumps(text)


def _stable(name: str, value: Any) -> str:
    match value:
        case Enum():
            return str(value.value)
        case str():
            return value
        case None | bool() | int() | float():
            return repr(value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case datetime():
            return rfc3339_micro(value)
        case list() | tuple():
            return f"[{','.join(_stable(name, item) for item in value)}]"
        case set() | frozenset():
            return f"{{{','.join(sorted(_stable(name, item) for item in value))}}}"
        case Mapping():
            inner = sorted((_stable(name, key), _stable(name, item)) for key, item in value.items())
            return f"{{{','.join(f'{key}:{item}' for key, item in inner)}}}"
        case _:
            kind = type(value).__qualname__
            raise TypeError(
                f"trace field {name!r} is a {kind}; its text may differ between runs, record a string or number"
            )
