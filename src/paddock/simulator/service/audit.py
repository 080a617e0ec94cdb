"""The audit of a simulated service: what it was asked, and what really happened."""

from typing import TypeVar

__all__ = ["remember"]

E = TypeVar("E")
_KEPT = 20_000


def remember(audit: list[E], entry: E) -> None:
    """Append the entry. The latest 20,000 are kept, at least: a service that runs for weeks must not grow for weeks."""
    if len(audit) >= 2 * _KEPT:
        del audit[:_KEPT]
    audit.append(entry)
