"""The answer to "why?": one sentence, what each ledger says, what happens next, and what a person may do.

Made by pure functions of either subsystem; the command line and the page only print it, so that both say the same.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

__all__ = ["Evidence", "Explanation", "ago", "listed", "span", "utc"]

_MOST_LISTED = 5
_WIDEST = 60


class Evidence(Struct, frozen=True):
    """What one ledger says: the cloud, the cluster, the database, GitHub, or the host itself."""

    ledger: str
    fact: str


class Explanation(Struct, frozen=True, kw_only=True):
    about: str
    """Kind and name, as a person would type them: `host 1f3c`, `job 8614896`."""
    sentence: str
    """What, why and since when, with the numbers."""
    evidence: tuple[Evidence, ...] = ()
    next: str = ""
    """What happens by itself, and when. Empty: nothing; a person has to act."""
    commands: tuple[str, ...] = ()
    """What a person may type, the mildest first."""
    runbook: str = ""
    """The page in docs/runbooks, without its folder; empty where there is none."""
    healthy: bool = True


def span(length: timedelta | float) -> str:
    """A length of time, also in seconds, in the words that people use: `42 s`, `3 min`, `2 h 05 min`, `12 d`.

    Every sentence takes its lengths from here; the page's script has the same words for what moves on by itself.
    """
    seconds = max(0, int(length.total_seconds() if isinstance(length, timedelta) else length))
    if seconds < 120:
        return f"{seconds} s"
    minutes = seconds // 60
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02} min"
    return f"{hours // 24} d"


def utc(moment: datetime) -> str:
    """`2026-11-20 00:13 UTC`: a moment in a sentence that is kept, such as a condition's, where a length would grow old."""
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def ago(moment: datetime | None, now: datetime) -> str:
    """`for 3 min`, or nothing where the moment is not known."""
    return "" if moment is None else f"for {span(now - moment)}"


def listed(words: Sequence[str]) -> str:
    """The first few, each cut to what a person reads, and how many more there are: whoever wrote them decides no length here."""
    shown = [word if len(word) <= _WIDEST else f"{word[: _WIDEST - 1]}…" for word in words[:_MOST_LISTED]]
    left = len(words) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")
