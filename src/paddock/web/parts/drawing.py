"""Small drawings that need no script: bars, and times that people can read."""

from collections.abc import Sequence
from datetime import datetime

import htpy as h
from htpy import Node

from paddock.base.clock import rfc3339
from paddock.base.explanation import span

__all__ = ["bar", "clock_time", "empty", "lasting", "many", "seconds", "since", "split_bar"]


def bar(share: float, label: str, kind: str = "") -> Node:
    """A bar that is full at 1. Attributes of SVG are no inline style, so a strict policy lets them be."""
    width = f"{max(0.0, min(1.0, share)) * 100:.1f}%"
    return h.svg(".bar", role="img", aria_label=label, data_kind=kind or None)[
        h.rect(".bar-ground", width="100%", height="100%", rx="3"),
        h.rect(".bar-fill", width=width, height="100%", rx="3"),
    ]


def split_bar(shares: Sequence[tuple[str, float]], label: str) -> Node:
    """One bar of several parts, which need not add up to anything in particular."""
    total = sum(share for _, share in shares) or 1.0
    parts, at = [], 0.0
    for name, share in shares:
        if share > 0:
            width = share / total * 100
            parts.append(
                h.rect(".slice", data_kind=name, x=f"{at:.2f}%", width=f"{max(0.4, width - 0.3):.2f}%", height="100%")
            )
            at += width
    return h.svg(".bar.wide", role="img", aria_label=label)[h.rect(".bar-ground", width="100%", height="100%"), parts]


def since(moment: datetime | None, now: datetime) -> str:
    """`14 min`, in the words of the command line; nothing where it is not known."""
    return span(now - moment) if moment is not None else ""


def lasting(moment: datetime | None, now: datetime) -> Node:
    """The same, with the moment behind it; in a browser with script it moves on by itself, second by second."""
    if moment is None:
        return None
    text = rfc3339(moment)
    return h.time(".since", datetime=text, title=f"since {text}")[span(now - moment)]


def many(count: int, one: str) -> str:
    """`1 Mac`, `2 Macs`."""
    return f"{count} {one}{'' if count == 1 else 's'}"


def seconds(value: float | None) -> str:
    """A measured duration: below ten seconds its fractions count, above it is a length of time as any other."""
    if value is None:
        return "\u2013"
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 10:
        return f"{value:.1f} s"
    return span(value)


def clock_time(moment: datetime | None) -> Node:
    """The time of day, with the whole moment in UTC behind it. The page's script makes it that of the reader's own clock."""
    if moment is None:
        return h.span[""]
    text = rfc3339(moment)
    return h.time(".clock", datetime=text, title=f"{text[:10]} {text[11:19]} UTC")[f"{text[11:19]} UTC"]


def empty(*words: Node) -> Node:
    return h.p(".quiet")[words]
