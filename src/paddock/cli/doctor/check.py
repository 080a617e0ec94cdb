"""A line of `paddock doctor`: what was looked at, how it is, and how to mend it."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["Check", "bad", "good", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """`unknown` is what could not be looked at from here: no problem, and no reassurance. `fix` is never empty for a problem."""

    about: str
    state: Literal["ok", "problem", "unknown"]
    found: str
    fix: str = ""


def good(about: str, found: str) -> Check:
    return Check(about, "ok", found)


def bad(about: str, found: str, fix: str) -> Check:
    return Check(about, "problem", found, fix)


def unknown(about: str, found: str, fix: str = "") -> Check:
    return Check(about, "unknown", found, fix)
