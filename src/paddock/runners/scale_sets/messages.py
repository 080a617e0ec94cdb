"""What a message of a scale set's queue says. Pure: bytes in, entries out; what cannot be read is told apart, entry by entry."""

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from paddock.runners.ledger.assignments import Assignment

__all__ = ["Entry", "UnreadableEntry", "assignment_of", "conclusion_of", "kind_of", "moment", "read_entries"]

_OLDEST: Final = datetime(2015, 1, 1, tzinfo=UTC)
_LONGEST: Final = 300
_KINDS: Final = frozenset({"JobAvailable", "JobAssigned", "JobStarted", "JobCompleted"})
_CONCLUSIONS: Final = {"succeeded": "success", "failed": "failure", "canceled": "cancelled", "abandoned": "failure"}


class Entry(Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of a message. GitHub has left out nearly every field at some time, so that each may be missing."""

    message_type: str
    runner_request_id: int = 0
    job_id: str | None = None
    owner_name: str | None = None
    repository_name: str | None = None
    job_workflow_ref: str | None = None
    job_display_name: str | None = None
    workflow_run_id: int | None = None
    queue_time: str | None = None
    scale_set_assign_time: str | None = None
    runner_assign_time: str | None = None
    finish_time: str | None = None
    runner_id: int | None = None
    runner_name: str | None = None
    result: str | None = None

    @property
    def repository(self) -> str:
        """owner/name; empty where GitHub did not say."""
        owner, name = storable(self.owner_name), storable(self.repository_name)
        return f"{owner}/{name}" if owner and name else ""

    @property
    def workflow(self) -> str:
        """The workflow's file, without its folder and ending."""
        path = storable(self.job_workflow_ref).partition("@")[0]
        return path.rpartition("/")[2].rpartition(".")[0] or path.rpartition("/")[2]


class UnreadableEntry(Struct, frozen=True):
    """An entry, or a whole body, that is not what GitHub sends."""

    body: str
    why: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.body.encode()).hexdigest()


def read_entries(body: bytes) -> list[Entry | UnreadableEntry]:
    """Every entry of a message's body, in order. One that is unreadable does not hide the others."""
    try:
        raws = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [UnreadableEntry(body.decode("utf-8", "replace"), f"the message is no list of entries: {error}")]
    entries: list[Entry | UnreadableEntry] = []
    for raw in raws:
        try:
            entries.append(msgspec.json.decode(raw, type=Entry))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            entries.append(UnreadableEntry(bytes(raw).decode("utf-8", "replace"), str(error)))
    return entries


def assignment_of(entry: Entry, now: datetime) -> Assignment | None:
    """What identifies the entry's assignment; None where the moment of assignment was not told."""
    assigned_at = moment(entry.scale_set_assign_time)
    if assigned_at is None:
        return None
    run, guid = entry.workflow_run_id or 0, storable(entry.job_id)
    key = f"{run}/{guid}/{assigned_at.isoformat()}"
    if not run and not guid:
        # For some weeks GitHub sent neither: then the request and the job's name are all there is.
        key = f"request/{entry.runner_request_id}/{storable(entry.job_display_name)}/{assigned_at.isoformat()}"
    return Assignment(key=key, job_guid=guid, workflow_run_id=run, assigned_at=min(assigned_at, now))


def conclusion_of(result: str | None) -> str:
    """The words of the queue in the words of the REST API, which the ledger uses."""
    said = storable(result).lower()
    return _CONCLUSIONS.get(said, said or "unknown")


def moment(text: str | None) -> datetime | None:
    """A time as GitHub writes it, or None for none, for the year 1 and for what is no time."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(_shortened(text))
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return found.astimezone(UTC) if _OLDEST < found < datetime.max.replace(tzinfo=UTC) - timedelta(days=1) else None


def storable(text: str | None) -> str:
    """Text that the database takes, of a length that people read."""
    return (text or "").replace("\x00", "")[:_LONGEST]


def _shortened(text: str) -> str:
    """.NET writes seven digits of a second; only six are read here."""
    head, dot, tail = text.partition(".")
    if not dot:
        return text
    digits = len(tail) - len(tail.lstrip("0123456789"))
    return f"{head}.{tail[: min(digits, 6)]}{tail[digits:]}"


def kind_of(entry: Entry) -> str:
    """The kind for counters, which must not have as many labels as GitHub has ideas."""
    return entry.message_type if entry.message_type in _KINDS else "other"
