"""Single values of a Mac, each made harmless: texts, numbers, moments, names. Pure, and none of them ever raises."""

import re
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Final, TypeVar

import msgspec

__all__ = ["address", "between", "decoded", "label", "line", "lines", "name", "number", "percent", "uid", "word"]

T = TypeVar("T")

_UID: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z-]{0,62}[0-9A-Za-z])?")
_WORD: Final = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?")
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_LABEL: Final = re.compile(r"[A-Za-z][A-Za-z0-9./-]{0,126}[A-Za-z0-9]")


def decoded(raw: bytes | msgspec.Raw, shape: type[T]) -> T | None:
    """The value, None where the bytes are no such value: too deep, of another shape, no JSON, or with numbers beyond all bounds."""
    try:
        return msgspec.json.decode(raw, type=shape)
    except (msgspec.MsgspecError, RecursionError, ValueError, OverflowError):
        return None


def line(text: str, most: int) -> str:
    """The text on one line, of at most `most` bytes. A terminal obeys none of its characters, and none turns its direction."""
    return _cut(text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text), most)


def lines(text: str, most: int) -> str:
    """As `line`, but newlines and tabs stay. The end is kept: it is the end of a log that says what went wrong."""
    if not text.isprintable():
        text = "".join(c if c in "\n\t" or c.isprintable() else " " for c in text)
    raw = text.encode()
    return text if len(raw) <= most else raw[len(raw) - most :].decode("utf-8", "ignore")


def _cut(text: str, most: int) -> str:
    raw = text.encode()
    return text if len(raw) <= most else raw[:most].decode("utf-8", "ignore")


def uid(text: str) -> str:
    """A uid as the API server makes them, or empty."""
    return text if _UID.fullmatch(text) else ""


def word(text: str) -> str:
    """A random word of an agent, or empty."""
    return text if _WORD.fullmatch(text) else ""


def name(text: str) -> str:
    """A name of an object or a host, or empty."""
    return text if _NAME.fullmatch(text) else ""


def label(text: str, otherwise: str) -> str:
    """A CamelCase word for programs, else the other one."""
    return text if _LABEL.fullmatch(text) else otherwise


def address(text: str) -> str:
    """An IP address without a zone, or empty."""
    try:
        return str(ip_address(text)) if "%" not in text else ""
    except ValueError:
        return ""


def number(value: int, most: int) -> int:
    return min(max(0, value), most)


def percent(value: float | None, most: float) -> float | None:
    """None for what is no number; infinity is the most."""
    return None if value is None or value != value else min(max(0.0, value), most)  # noqa: PLR0124 - NaN


def between(moment: datetime, earliest: datetime, latest: datetime) -> datetime:
    """The moment in UTC, moved between the two. One without a time zone counts as UTC."""
    try:
        there = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (OverflowError, ValueError):
        # Beyond what a calendar has, by its time zone: which end it is says the year.
        there = earliest if moment.year <= earliest.year else latest
    # Whole microseconds stay as they are; the order of the two bounds is the caller's, and the later one wins.
    return max(min(there, latest), min(earliest, latest))
