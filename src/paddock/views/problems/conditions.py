"""Since when something is not ready, and what it says about it."""

from collections.abc import Sequence
from datetime import datetime

from paddock.kube.conditions import get_condition
from paddock.kube.objects import Condition

__all__ = ["message_of", "ready_since"]


def ready_since(conditions: Sequence[Condition]) -> datetime | None:
    ready = get_condition(conditions, "Ready")
    return ready.last_transition_time if ready is not None else None


def message_of(conditions: Sequence[Condition], kind: str = "Ready") -> str:
    found = get_condition(conditions, kind)
    return (found.message or found.reason) if found is not None else ""
