"""A saved service for a clock that starts anew: every moment moves by the same span."""

from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

__all__ = ["rebased"]

S = TypeVar("S", bound=msgspec.Struct)


def rebased(state: S, span: timedelta) -> S:
    """The same state with all its moments moved."""
    return msgspec.convert(_moved(msgspec.to_builtins(state, builtin_types=(datetime, bytes)), span), type(state))


def _moved(value: Any, span: timedelta) -> Any:
    if isinstance(value, datetime):
        return value + span
    if isinstance(value, dict):
        return {key: _moved(entry, span) for key, entry in value.items()}
    if isinstance(value, list):
        return [_moved(entry, span) for entry in value]
    return value
