"""A saved cloud whose clock starts anew: every moment moves by the same span."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from paddock.simulator.cloud.state import CloudState

__all__ = ["rebased"]


def rebased(state: CloudState, span: timedelta) -> CloudState:
    """The same cloud with all its moments moved."""
    return msgspec.convert(_moved(msgspec.to_builtins(state, builtin_types=(datetime, bytes)), span), CloudState)


def _moved(value: Any, span: timedelta) -> Any:
    if isinstance(value, datetime):
        return value + span
    if isinstance(value, dict):
        return {key: _moved(entry, span) for key, entry in value.items()}
    if isinstance(value, list):
        return [_moved(entry, span) for entry in value]
    return value
