"""Ages as people read them in tables: `26s`, `9m28s`, `3h5m`, `2d4h`, `400d`, `3y10d`."""

import re
from datetime import datetime, timedelta

from paddock.base.clock import parse_rfc3339

__all__ = ["INVALID", "UNKNOWN", "age", "human_duration"]

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY

_RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)")


def age(timestamp: object, now: datetime) -> str:
    """How long ago a timestamp was: `<unknown>` if there is none, `<invalid>` if it cannot be read or lies ahead."""
    if timestamp is None or timestamp == "":
        return UNKNOWN
    if not isinstance(timestamp, str) or _RFC3339.fullmatch(timestamp) is None:
        return INVALID
    try:
        return human_duration(now - parse_rfc3339(timestamp))
    except ValueError:
        return INVALID


def human_duration(length: timedelta) -> str:
    """Two or three significant figures. A second into the future counts as now, for clocks are never quite equal."""
    seconds = int(length.total_seconds())
    if seconds < -1:
        return INVALID
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _pair(seconds // _MINUTE, "m", seconds % _MINUTE, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _pair(seconds // _HOUR, "h", seconds % _HOUR // _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _pair(seconds // _DAY, "d", seconds % _DAY // _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _pair(seconds // _YEAR, "y", seconds % _YEAR // _DAY, "d")
    return f"{seconds // _YEAR}y"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
