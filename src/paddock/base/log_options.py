"""What `kubectl logs` may ask for, read from the request: the API and the node agent answer the same questions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

__all__ = ["LogOptions", "log_options"]


@dataclass(frozen=True, slots=True)
class LogOptions:
    """`since` is a moment, whichever way it was asked for."""

    follow: bool = False
    timestamps: bool = False
    previous: bool = False
    since: datetime | None = None
    tail_lines: int | None = None
    limit_bytes: int | None = None


def log_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """The options of a request; ValueError names the one that cannot be, and what to give instead."""
    if "sinceSeconds" in query and "sinceTime" in query:
        raise ValueError("sinceSeconds and sinceTime cannot both be given")
    since = None
    if (seconds := _number(query, "sinceSeconds", 1)) is not None:
        since = now - timedelta(seconds=min(seconds, 10**9))
    if "sinceTime" in query:
        since = _moment(query["sinceTime"])
    return LogOptions(
        follow=_flag(query, "follow"),
        timestamps=_flag(query, "timestamps"),
        previous=_flag(query, "previous"),
        since=since,
        tail_lines=_number(query, "tailLines", 0),
        limit_bytes=_number(query, "limitBytes", 1),
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    """`?follow=` counts as set, as it does for a real server."""
    return query.get(name, "false").lower() in ("true", "1", "")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"sinceTime {text[:40]!r} is no time such as 2026-01-01T00:00:00Z") from None
    if moment.tzinfo is None:
        raise ValueError("sinceTime has no time zone: write 2026-01-01T00:00:00Z")
    return moment


def _number(query: Mapping[str, str], name: str, least: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 15 and int(text) >= least):
        raise ValueError(f"{name} is {text[:40]!r}: give a whole number from {least} on")
    return int(text)
