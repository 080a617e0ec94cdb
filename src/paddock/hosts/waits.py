"""How much of a wait is left that began at a moment which is written down. Pure.

Wall time may be set back: then what was written lies in the future, by hours if the clock was wrong by hours. No wait is longer than
its period for that, so that whoever waits looks again.
"""

from datetime import datetime, timedelta
from typing import Final

__all__ = ["pause_left", "settling_left"]

_NONE: Final = timedelta(0)


def pause_left(since: datetime, period: timedelta, now: datetime) -> timedelta:
    """Of a pause that only keeps the pace: more than a period ahead, its beginning is of a clock that was set back since, and it is over.

    What follows writes its own moment down, by the clock as it is now. Two operators whose clocks differ by less wait as ever.
    """
    left = since + period - now
    return _NONE if left > 2 * period else max(_NONE, min(left, period))


def settling_left(since: datetime, period: timedelta, now: datetime) -> timedelta:
    """Of a wait that something may still arrive in: nobody can tell that it is over before the clock says so."""
    return max(_NONE, min(since + period - now, period))
