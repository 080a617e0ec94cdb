"""The queue as it flows: queued → claimed → running → done, with the latest jobs and why the waiting ones wait."""

from collections.abc import Sequence
from datetime import datetime
from heapq import nlargest

import htpy as h
from htpy import Node
from markupsafe import Markup

from paddock.runners.ledger.views import FinishedJob, RunningJob, WaitingJob
from paddock.web.links import foreign, href, linked
from paddock.web.live import Part
from paddock.web.page_data import PageData
from paddock.web.parts.drawing import empty, lasting, since

__all__ = ["queue_parts"]

_SHOWN = 5
_DOTS = 48
_CONCLUSIONS = {"success": "✓", "failure": "✕", "cancelled": "\u2013", "skipped": "\u2013"}


def queue_parts(seen: PageData) -> dict[str, Part]:
    """The river and its four stages, each within it: a job that moves on sends the two stages it moves between."""
    ledger = seen.ledger
    if not seen.runners:
        none = "No GitHub App is configured, so there are no jobs: set PADDOCK_GITHUB_APP_ID and its key."
        return {"queue": Part.of(str(empty(none)))}
    if ledger is None:
        return {
            "queue": Part.of(str(empty("The ledger cannot be asked now; nothing is shown rather than something old.")))
        }
    summary, now = ledger.summary, seen.now
    waiting = (
        summary.dispatchable
        + summary.withheld
        + summary.resting
        + summary.held
        + summary.unserved
        + summary.unsure
        + summary.not_allowed
    )
    under = f"{summary.dispatchable} may run, {summary.withheld} over a limit"
    under = f"{under}, {summary.resting} resting" if summary.resting else under
    under = f"{under}, {summary.held} for an approval" if summary.held else under
    under = f"{under}, {summary.unserved} for a pool that offers their labels" if summary.unserved else under
    under = f"{under}, {summary.unsure} perhaps for other runners" if summary.unsure else under
    under = f"{under}, {summary.not_allowed} not allowed" if summary.not_allowed else under
    stages = {
        "queued": _stage("queued", waiting, under, _waiting(ledger.queue, now)),
        "claimed": _stage("claimed", summary.claimed, "a runner is being registered", []),
        "running": _stage("running", summary.running, "on a Mac now", _running(ledger.running, now)),
        "done": _stage("done", summary.completed_last_hour, "in the last hour", _done(ledger.recent, now)),
    }
    html = {name: str(node) for name, node in stages.items()}
    river = h.ol(".river")[
        # Rendered by htpy, which escapes; marked so that it is not escaped twice.
        [h.li(".stage", id=f"q-{name}", data_stage=name)[Markup(text)] for name, text in html.items()]  # noqa: S704
    ]
    return {"queue": Part(lambda: str(river), "river")} | {
        f"q-{name}": Part.of(text, "queue") for name, text in html.items()
    }


def _stage(name: str, count: int, under: str, jobs: list[Node]) -> Node:
    return h.fragment[
        h.div(".stage-head")[
            h.h3[name], h.span(".count")[f"{count:,}".replace(",", "\u202f")], h.p(".under")[under], _dots(count)
        ],
        h.ul(".jobs")[jobs] if jobs else h.p(".quiet")["none now"],
    ]


def _dots(count: int) -> Node:
    """One dot a job, as long as that can be counted by eye; all of them are one dotted line."""
    shown = min(count, _DOTS)
    return h.svg(".dots", aria_hidden="true", viewBox=f"0 0 {_DOTS * 5} 6", preserveAspectRatio="xMinYMid meet")[
        h.path(d=f"M3 3h{shown * 5 - 5 or 0.01}") if shown else None
    ]


def _job(stage: str, job: WaitingJob | RunningJob | FinishedJob, under: Node, sign: str = "") -> Node:
    """A line of one stage. The stages arrive one by one, so a job that moves on may stand in two of them for a moment: the
    stage is part of its id.
    """
    name = job.job_name or job.workflow_name or f"job {job.job_id}"
    return h.li(id=f"j-{stage}-{job.job_id}")[
        h.a(href=href("job", job.job_id))[
            h.span(".sign", aria_hidden="true")[sign] if sign else None,
            h.span(".repo")[foreign(job.repository or job.login)],
            " ",
            foreign(name),
        ],
        h.small[under],
    ]


def _waiting(jobs: Sequence[WaitingJob], now: datetime) -> list[Node]:
    """The longest wait of each reason first: twenty jobs over one limit need one line, not twenty."""
    by_reason: dict[tuple[str, str], list[WaitingJob]] = {}
    for job in jobs:
        by_reason.setdefault((job.reason, job.login if job.reason != "in_line" else ""), []).append(job)
    shown: list[Node] = []
    for alike in list(by_reason.values())[:_SHOWN]:
        first = alike[0]
        more = f" So do {len(alike) - 1} more." if len(alike) > 1 else ""
        shown.append(_job("queued", first, h.fragment["for ", lasting(first.enqueued_at, now), ". ", first.why, more]))
    return shown


def _running(jobs: Sequence[RunningJob], now: datetime) -> list[Node]:
    newest = nlargest(_SHOWN, jobs, key=lambda job: (job.started_at, job.job_id))
    return [
        _job(
            "running",
            job,
            h.fragment[
                "for ", lasting(job.executing_since or job.started_at, now), " on ", linked(f"Pod {job.pod_name}")
            ],
        )
        for job in newest
    ]


def _done(jobs: Sequence[FinishedJob], now: datetime) -> list[Node]:
    def took(job: FinishedJob) -> Node:
        ran = f", ran {since(job.started_at, job.completed_at)}" if job.started_at is not None else ""
        return h.fragment[f"{job.conclusion} ", lasting(job.completed_at, now), f" ago{ran}"]

    return [_job("done", job, took(job), _CONCLUSIONS.get(job.conclusion, "?")) for job in jobs[:_SHOWN]]
