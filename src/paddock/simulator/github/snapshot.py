"""A saved GitHub for a clock that starts anew, and for a world whose runner processes are gone."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from paddock.simulator.github.state import GitHubState

__all__ = ["rebased"]


def rebased(state: GitHubState, span: timedelta) -> GitHubState:
    """The same GitHub with all its moments moved."""
    plain = msgspec.to_builtins(state, builtin_types=(datetime, bytes))
    return msgspec.convert(_moved(plain, span), GitHubState)


def _moved(value: Any, span: timedelta) -> Any:
    if isinstance(value, datetime):
        return value + span
    if isinstance(value, dict):
        return {key: _moved(entry, span) for key, entry in value.items()}
    if isinstance(value, list):
        return [_moved(entry, span) for entry in value]
    return value
