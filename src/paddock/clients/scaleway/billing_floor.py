"""Until when a server cannot be deleted, as a 412 tells it in prose."""

import re
from datetime import UTC, datetime

from paddock.clients.scaleway.errors import PreconditionFailed

__all__ = ["floor_of"]

_MOMENT = re.compile(r"before (\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2}:\d{2})")


def floor_of(refusal: PreconditionFailed) -> datetime | None:
    """The date in `cannot be deleted before 2026-06-12 07:06:59`, which is in UTC; None where there is none."""
    for text in (refusal.help_message, refusal.message):
        match = _MOMENT.search(text)
        if match is None:
            continue
        try:
            return datetime.fromisoformat(f"{match[1]}T{match[2]}").replace(tzinfo=UTC)
        except ValueError:
            continue
    return None
