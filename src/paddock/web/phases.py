"""The stretches of a job's life: waiting, being handed over, running. Pure."""

from dataclasses import dataclass
from datetime import datetime

from paddock.runners.http.readonly import JobPage

__all__ = ["Phase", "phases_of"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a job's life."""

    name: str
    began: datetime
    ended: datetime


def phases_of(page: JobPage, now: datetime) -> list[Phase]:
    """The whole wait, honestly: from the moment that it was queued."""
    job = page.job
    if job is None:
        return []
    end = page.completion.completed_at if page.completion is not None else now
    session = next((one for one in page.sessions if one.job_started_at is not None), None)
    started = session.job_started_at if session is not None else None
    marks = [
        ("queued", job.enqueued_at),
        ("claimed", job.claimed_at),
        ("handed over", job.started_at),
        ("running", started),
    ]
    known = [(name, at) for name, at in marks if at is not None]
    phases: list[Phase] = []
    for index, (name, at) in enumerate(known):
        # GitHub counts in whole seconds, so that its moments may lie a little before ours.
        began = max([at, *(phase.ended for phase in phases)])
        until = known[index + 1][1] if index + 1 < len(known) else end
        phases.append(Phase(name, began, max(began, until)))
    return phases
