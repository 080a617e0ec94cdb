"""One thing that is wrong, as `status` and the page tell it."""

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Problem", "Ties"]


@dataclass(frozen=True, slots=True)
class Ties:
    """What decides whether one problem may be the cause of another. An empty name fits every other."""

    fleet: str = ""
    node: str = ""
    """The Mac that it is about, or on."""
    lacks_host: bool = False
    """It is a machine that waits for a host."""
    was_in_service: bool = False
    """It is a machine whose Mac ran and does not now: whether the cloud answers has no part in that."""
    by_itself: bool = False
    """Nothing else explains it, such as what a person wrote into a pool."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong. `doing` is what happens by itself; `commands` is what a person may type, mildest first."""

    impact: int
    about: str
    """Kind and name, or how many of a kind."""
    sentence: str
    since: datetime | None = None
    doing: str = ""
    commands: tuple[str, ...] = ()
    runbook: str = ""
    ties: Ties = Ties()
    symptoms: "tuple[Problem, ...]" = ()
    """What would not be wrong without this, worst first."""
