"""The Pods there are, as the workers on the job side need them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

__all__ = ["CountPods", "PodSnapshot"]


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    """The uids of ALL runner Pods of the cluster, from one complete list that was read now and not from a cache."""

    alive: frozenset[str] = field(default_factory=frozenset)
    ended: frozenset[str] = field(default_factory=frozenset)
    """Succeeded or Failed."""

    @property
    def empty(self) -> bool:
        """No Pod at all: more likely a wrong answer than an empty cluster, and never evidence."""
        return not self.alive and not self.ended


CountPods = Callable[[], Awaitable[PodSnapshot]]
"""Reads a snapshot of the Pods, or raises: a list that is not complete must not come back as one."""
