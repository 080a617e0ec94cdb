"""What a write does, as a pure function: an operation, the record it meets and the next revision give one change."""

from dataclasses import dataclass
from typing import Any

import msgspec

from paddock.embedded.store.interface import (
    Change,
    ExistsError,
    Key,
    MissingError,
    Record,
    RevisionMismatchError,
)

__all__ = ["Create", "Delete", "Operation", "Update", "check_key", "effect"]

_LONGEST_KEY = 2000
"""Bytes of a whole key; a Postgres index entry ends at 2,700, and Kubernetes' own names at a quarter of this."""

_encoder = msgspec.json.Encoder()
_shallow = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Create:
    """Store a new record."""

    key: Key
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Update:
    """Replace the record that is at revision `expected`."""

    key: Key
    value: dict[str, Any]
    expected: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the record that is at revision `expected`."""

    key: Key
    expected: int


Operation = Create | Update | Delete


def effect(operation: Operation, current: Record | None, revision: int) -> Change:
    """The change that the operation makes at `revision` to the `current` record under its key, or the reason why not."""
    key = operation.key
    if isinstance(operation, Create):
        if current is not None:
            raise ExistsError(f"{_shown(key)} exists already, at revision {current.revision}")
        return Change("ADDED", revision, Record(key, revision, _encoded(operation.value, revision)), None)
    if current is None:
        raise MissingError(f"{_shown(key)} does not exist")
    if current.revision != operation.expected:
        raise RevisionMismatchError(
            f"{_shown(key)} is at revision {current.revision}, not at {operation.expected}: read it again"
        )
    if isinstance(operation, Update):
        return Change("MODIFIED", revision, Record(key, revision, _encoded(operation.value, revision)), current)
    return Change("DELETED", revision, Record(key, revision, _restamped(current.value, revision)), current)


def check_key(key: Key) -> None:
    """Refuse what one store could keep and the other could not; ValueError names the part."""
    for part, text in zip(Key._fields, key, strict=True):
        if "\0" in text:
            raise ValueError(f"the {part} of a key must not contain a NUL character: {text!r}")
    try:
        length = sum(len(text.encode()) for text in key)
    except UnicodeEncodeError as error:
        raise ValueError(f"a key must be valid Unicode text: {tuple(key)!r}") from error
    if length > _LONGEST_KEY:
        raise ValueError(f"a key must not be longer than {_LONGEST_KEY} bytes, and this one has {length}")


def _shown(key: Key) -> str:
    return f"{key.resource} {key.namespace}/{key.name}" if key.namespace else f"{key.resource} {key.name}"


def _encoded(value: dict[str, Any], revision: int) -> bytes:
    metadata = {**(value.get("metadata") or {}), "resourceVersion": str(revision)}
    return _encoder.encode({**value, "metadata": metadata})


def _restamped(value: bytes, revision: int) -> bytes:
    """The same object under another revision; everything but two levels of keys passes through undecoded."""
    outer: dict[str, Any] = dict(_shallow.decode(value))
    metadata: dict[str, Any] = dict(_shallow.decode(outer["metadata"]))
    metadata["resourceVersion"] = str(revision)
    outer["metadata"] = metadata
    return _encoder.encode(outer)
