"""Times of a cron expression in a time zone, before and after a moment. Pure.

Five fields as in crontab(5): minute, hour, day of the month, month, day of the week; `*`, lists, ranges, steps and English names.
Where both days are restricted, either one suffices, as cron has it. Two days a year are special where clocks are changed:
a time that the clock jumps over counts as the moment of the jump, and a time that comes twice counts once, the first time.
So the order of times on the clock is the order of moments, and no day loses or doubles one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

__all__ = ["Cron", "CronError", "TimeZoneError", "parse", "time_zone"]

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_PART: Final = re.compile(r"(?P<from>\*|[a-z0-9]+)(?:-(?P<to>[a-z0-9]+))?(?:/(?P<step>[0-9]{1,2}))?", re.ASCII)
_LONGEST_TEXT: Final = 200
_DAYS_SEARCHED: Final = 366 * 8 + 1
"""29 February comes at least once in eight years, also where a century leaves one out."""
_MINUTE: Final = timedelta(minutes=1)


class CronError(ValueError):
    """The text is no cron expression, or names a date that never comes; the message says what is wrong with it."""


class TimeZoneError(ValueError):
    """No time zone has that name."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. `times` are minutes of the day in order; days are judged by `on`."""

    times: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    """Both days are restricted: either of them suffices."""

    def last(self, now: datetime, zone: tzinfo) -> datetime | None:
        """The latest moment at or before `now`; None where there was none for eight years."""
        today = now.astimezone(zone).date()
        for back in range(_DAYS_SEARCHED):
            for moment in self._of_day(today - timedelta(days=back), zone, reverse=True):
                if moment <= now:
                    return moment
        return None

    def next(self, now: datetime, zone: tzinfo) -> datetime | None:
        """The earliest moment after `now`; None where there is none for eight years."""
        today = now.astimezone(zone).date()
        for ahead in range(_DAYS_SEARCHED):
            for moment in self._of_day(today + timedelta(days=ahead), zone, reverse=False):
                if moment > now:
                    return moment
        return None

    def on(self, day: date) -> bool:
        """Whether the expression means this day at all."""
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either else by_date and by_weekday

    def _of_day(self, day: date, zone: tzinfo, *, reverse: bool) -> Iterator[datetime]:
        if not self.on(day):
            return
        for minute in reversed(self.times) if reverse else self.times:
            yield _moment(datetime(day.year, day.month, day.day, minute // 60, minute % 60, tzinfo=zone))


@lru_cache(maxsize=256)
def parse(text: str) -> Cron:
    """The expression, or a `CronError` that says which field is wrong."""
    words = text.lower().split() if len(text) <= _LONGEST_TEXT else []
    if len(words) != len(_FIELDS):
        raise CronError("a cron expression has five fields: minute, hour, day of the month, month, day of the week")
    minutes, hours, days, months, weekdays = (_field(word, *field) for word, field in zip(words, _FIELDS, strict=True))
    cron = Cron(
        times=tuple(hour * 60 + minute for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        either=not words[2].startswith("*") and not words[4].startswith("*"),
    )
    if cron.next(datetime(2000, 1, 1, tzinfo=UTC), UTC) is None:
        raise CronError("its day never comes")
    return cron


def time_zone(name: str) -> tzinfo:
    """The zone of that name in the IANA list, such as Europe/Berlin; `TimeZoneError` where there is none."""
    if name in ("", "UTC"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # unknown; a path; a folder of the database, such as Europe
        raise TimeZoneError("no time zone of the IANA list has that name; one is Europe/Berlin") from error


def _field(word: str, called: str, least: int, most: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for part in word.split(","):
        found = _PART.fullmatch(part)
        if found is None:
            raise CronError(f"its {called} cannot be read: {part or 'nothing'}")
        step = int(found["step"] or 1)
        if step == 0:
            raise CronError(f"its {called} has a step of 0")
        if found["from"] == "*":
            if found["to"] is not None:
                raise CronError(f"its {called} cannot be read: {part}")
            first, last = least, most
        else:
            first = _value(found["from"], called, least, most, names)
            last = first if found["step"] is None else most
            if found["to"] is not None:
                last = _value(found["to"], called, least, most, names)
            if last < first:
                raise CronError(f"its {called} runs backwards: {part}")
        values.update(range(first, last + 1, step))
    return frozenset(values)


def _value(word: str, called: str, least: int, most: int, names: tuple[str, ...]) -> int:
    if word in names:
        return names.index(word) + least
    if not word.isdecimal() or len(word) > 2 or not least <= int(word) <= most:
        raise CronError(f"its {called} must be {least} to {most}, and is {word}")
    return int(word)


def _moment(wall: datetime) -> datetime:
    """When a clock of its zone first shows this time; where it jumps over it, the moment of the jump."""
    while True:
        moment = wall.astimezone(UTC)
        if moment.astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None):
            return moment
        wall += _MINUTE
