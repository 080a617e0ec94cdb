"""The mark of a Mac on which jobs fail at once: an annotation of its Node, which the operator writes and everybody reads. Pure.

A mark holds for the boot in which it was set: whoever reads it needs no clock, and a Mac that was rebooted is free of it before the
operator has taken it off.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

__all__ = ["JOBS_FAIL", "JobsFail", "jobs_fail", "mark_of"]

JOBS_FAIL: Final = "tuist.dev/jobs-fail-at-once"


class JobsFail(Struct, frozen=True, rename="camel"):
    """Since when a Mac is marked, in which boot, until when at most, and on what evidence."""

    boot_id: str
    at: datetime
    until: datetime
    sentence: str

    def annotation(self) -> str:
        return msgspec.json.encode(self).decode()


def mark_of(annotations: Mapping[str, str]) -> JobsFail | None:
    """The mark on a Node, of whichever boot; None where there is none, or one that nobody can read."""
    try:
        found = msgspec.json.decode(annotations.get(JOBS_FAIL, ""), type=JobsFail)
    except msgspec.DecodeError:
        return None
    return found if found.at.tzinfo is not None and found.until.tzinfo is not None else None


def jobs_fail(annotations: Mapping[str, str], node_info: Mapping[str, Any]) -> JobsFail | None:
    """The mark that holds now: that of the boot which the Node reports."""
    mark = mark_of(annotations)
    return mark if mark is not None and mark.boot_id == node_info.get("bootID", "") else None
