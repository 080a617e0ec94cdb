"""Something that is wrong, as the page and `paddock status` tell it."""

from dataclasses import dataclass
from datetime import datetime

__all__ = ["Problem"]


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
    symptoms: "tuple[Problem, ...]" = ()
    """What would not be wrong without this, worst first."""
