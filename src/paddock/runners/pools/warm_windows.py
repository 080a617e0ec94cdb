"""Which of a pool's warm windows are open, what they keep warm, and what is wrong with them. Pure.

A window only ever adds: the floor of a pool is the highest of its own and of the windows that are open, and it never has more
Pods than `maxReplicas`. A window that cannot be read is left out and named; the others, and the pool, go on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final

from paddock.base.cron import Cron, CronError, TimeZoneError, parse, time_zone
from paddock.base.explanation import utc
from paddock.kube.objects import Condition
from paddock.runners.api import Autoscaling, WarmWindow

__all__ = ["WARM_WINDOWS", "Opening", "Schedule", "schedule", "scheduled"]

WARM_WINDOWS: Final = "WarmWindows"
"""The condition that says which windows are open, when the next one opens, and which cannot be read."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A window that is open, or the next that will be. `until` is None where it does not end for years."""

    name: str
    window: WarmWindow
    since: datetime
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """What the windows come to at one moment."""

    open: tuple[Opening, ...] = ()
    next: Opening | None = None
    problems: tuple[str, ...] = ()

    @property
    def floor(self) -> int:
        """The most that an open window keeps warm beyond the load."""
        return max((each.window.min_warm_pool_floor for each in self.open), default=0)

    @property
    def min_replicas(self) -> int:
        """The most Pods that an open window asks for, whatever the load is."""
        return max((each.window.min_replicas for each in self.open), default=0)

    @property
    def names(self) -> str:
        return ", ".join(each.name for each in self.open)


@dataclass(frozen=True, slots=True)
class _Read:
    """A window whose texts were understood."""

    name: str
    window: WarmWindow
    start: Cron
    end: Cron | None
    zone: tzinfo


def schedule(autoscaling: Autoscaling, now: datetime) -> Schedule:
    """The windows of a pool at a moment."""
    read: list[_Read] = []
    problems: list[str] = []
    for index, window in enumerate(autoscaling.warm_windows):
        found = _read(window, f"spec.autoscaling.warmWindows[{index}]", window.name or f"window {index}")
        if isinstance(found, str):
            problems.append(found)
        else:
            read.append(found)
    opened = tuple(opening for each in read if (opening := _open(each, now)) is not None)
    ahead = [opening for each in read if (opening := _ahead(each, now)) is not None]
    return Schedule(opened, min(ahead, key=lambda opening: opening.since, default=None), tuple(problems))


def scheduled(autoscaling: Autoscaling, seen: Schedule) -> Condition | None:
    """What to say about the windows; None where there are none."""
    if not autoscaling.warm_windows:
        return None
    said = _sentence(seen.open, seen.next)
    if seen.problems:
        text = f"{'; '.join(seen.problems)}. Windows that can be read count: {said}"
        return Condition(type=WARM_WINDOWS, status="False", reason="WindowRefused", message=text)
    if not autoscaling.enabled:
        text = (
            "spec.autoscaling.warmWindows has no effect while spec.autoscaling.enabled is false: set it to true, or take "
            "the windows off"
        )
        return Condition(type=WARM_WINDOWS, status="False", reason="AutoscalingDisabled", message=text)
    return Condition(type=WARM_WINDOWS, status="True", reason="Open" if seen.open else "Closed", message=said)


def _sentence(opened: Sequence[Opening], ahead: Opening | None) -> str:
    parts: list[str] = []
    for each in opened:
        until = f" until {utc(each.until)}" if each.until is not None else ""
        parts.append(f"{each.name} is open{until} and keeps {_amount(each.window)}")
    if not parts:
        parts.append("no window is open")
    if ahead is not None:
        parts.append(f"{ahead.name} opens next, at {utc(ahead.since)}, with {_amount(ahead.window)}")
    return "; ".join(parts)


def _amount(window: WarmWindow) -> str:
    parts: list[str] = []
    if window.min_warm_pool_floor:
        parts.append(f"{window.min_warm_pool_floor} warm beyond the load")
    if window.min_replicas:
        parts.append(f"at least {window.min_replicas} Pods")
    return " and ".join(parts)


def _read(window: WarmWindow, where: str, name: str) -> _Read | str:
    """The window, or the sentence that names the field and the remedy."""
    try:
        start = parse(window.start)
    except CronError as error:
        return _refused(f"{where}.start", window.start, error)
    end = None
    if window.end:
        try:
            end = parse(window.end)
        except CronError as error:
            return _refused(f"{where}.end", window.end, error)
    try:
        zone = time_zone(window.time_zone)
    except TimeZoneError as error:
        return _refused(f"{where}.timeZone", window.time_zone, error)
    if (end is None) == (window.duration_minutes is None):
        return f"{where} needs one of end and durationMinutes, and has {'neither' if end is None else 'both'}"
    if end == start:
        return f"{where}.end is the same as start, so the window would never close: change one of them"
    if not window.min_warm_pool_floor and not window.min_replicas:
        return f"{where} keeps nothing warm: set minWarmPoolFloor or minReplicas"
    return _Read(name, window, start, end, zone)


def _refused(field: str, text: str, error: ValueError) -> str:
    return f"{field} is {text[:80]!r} and cannot be used: {error}"


def _open(each: _Read, now: datetime) -> Opening | None:
    """The window, if it is open: at the moment of its start it is, at the moment of its end it is not."""
    since = each.start.last(now, each.zone)
    if since is None:
        return None
    if each.end is not None:
        ended = each.end.last(now, each.zone)
        # Where one ends as another begins, it goes on.
        if ended is not None and ended > since:
            return None
    until = _until(each, since)
    return Opening(each.name, each.window, since, until) if until is None or until > now else None


def _ahead(each: _Read, now: datetime) -> Opening | None:
    since = each.start.next(now, each.zone)
    return Opening(each.name, each.window, since, _until(each, since)) if since is not None else None


def _until(each: _Read, since: datetime) -> datetime | None:
    """A duration is time that passes, whatever clocks are set to."""
    if each.end is not None:
        return each.end.next(since, each.zone)
    return since + timedelta(minutes=each.window.duration_minutes or 0)
