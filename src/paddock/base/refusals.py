"""What a database refused of late. Reads go on while writes are refused, and then nothing else says that anything is wrong."""

from dataclasses import dataclass, replace
from datetime import datetime

from paddock.base.clock import Clock

__all__ = ["Refusal", "Refusals"]

_REMEMBERED = 30.0
"""Seconds. Whoever writes, and be it a heartbeat, tries again sooner than that while it is refused."""


@dataclass(frozen=True, slots=True)
class Refusal:
    since: datetime
    count: int
    why: str


class Refusals:
    """A refusal is remembered until nothing was refused for half a minute; that the database is away, until it answers.

    One write that succeeds takes no refusal back: on a full disk a row is changed where there is room in its page, and
    none is added.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: Refusal | None = None
        self._last = 0.0
        self._away = False

    def refused(self, why: str, *, away: bool = False) -> None:
        """`away`: nobody answered, so that the next answer of any kind ends it."""
        now = self._clock.now()
        known = self.standing()
        self._known = Refusal(now, 1, why) if known is None else replace(known, count=known.count + 1, why=why)
        self._last, self._away = self._clock.monotonic(), away

    def answered(self) -> None:
        if self._away:
            self._known, self._away = None, False

    def standing(self) -> Refusal | None:
        """What holds at this moment."""
        if self._known is not None and not self._away and self._clock.monotonic() - self._last > _REMEMBERED:
            self._known = None
        return self._known
