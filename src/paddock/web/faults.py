"""Breaking things on purpose, in a simulation, to watch them heal."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

__all__ = ["Breakage", "FaultPanel", "Struck"]


@dataclass(frozen=True, slots=True)
class Breakage:
    """Something that can be broken: what happens, what should then be seen, and how long healing takes."""

    name: str
    title: str
    breaks: str
    expect: str
    heals: str


@dataclass(frozen=True, slots=True)
class Struck:
    """What was broken, when, and where to look."""

    at: datetime
    title: str
    sentence: str
    href: str = "/"


class FaultPanel(Protocol):
    """What can be broken in this world. Nothing behind it is real."""

    def breakages(self) -> tuple[Breakage, ...]:
        """Everything on offer, in the order in which a newcomer should try it."""
        ...

    def struck(self) -> tuple[Struck, ...]:
        """What was broken so far, newest first."""
        ...

    async def strike(self, name: str) -> Struck | None:
        """Break it now. None where there is nothing to break it on yet; KeyError for a name that is not on offer."""
        ...
