"""How long to wait before trying again: one rule for the whole program, and one reading of what a server asks for."""

import random
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["LONGEST_ADVICE", "Backoff", "http_date", "retry_after"]

LONGEST_ADVICE: Final = 3600.0
"""The longest window of anybody we ask is an hour; a header that asks for more is taken for that."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter, capped, that never undercuts what the other side asked for.

    `delay(n)` is the wait after the n-th failure in a row, counted from 1. Jitter only ever lengthens a wait, by at
    most `jitter` of it, so that many clients that failed together do not come back together.
    """

    base: float = 0.8
    cap: float = 30.0
    factor: float = 2.0
    jitter: float = 0.5

    def delay(self, failures: int, rng: random.Random, retry_after: float | None = None) -> float:
        """Seconds to wait; at least `retry_after` when the server named one."""
        steps = min(max(failures, 1) - 1, 62)  # past 2**62 only the cap matters, and floats would overflow
        plain = min(self.cap, self.base * self.factor**steps)
        wait = plain * (1.0 + self.jitter * rng.random())
        return max(wait, retry_after or 0.0)


def retry_after(header: str | None, now: datetime | None = None) -> float | None:
    """Seconds by a Retry-After header, a number or a date; None where it cannot be read, which without `now` a date cannot.

    Whoever answered chose it, so it is never over an hour.
    """
    text = (header or "").strip()
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        return min(float(text), LONGEST_ADVICE)
    moment = http_date(text)
    return None if moment is None or now is None else min(max(0.0, (moment - now).total_seconds()), LONGEST_ADVICE)


def http_date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
