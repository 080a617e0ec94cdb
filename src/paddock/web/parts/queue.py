"""The queue as it flows: queued → claimed → running → done, with the latest jobs and why the waiting ones wait."""

from collections.abc import Sequence
from datetime import datetime

import htpy as h
from htpy import Node

from paddock.runners.ledger.views import FinishedJob, RunningJob, WaitingJob
from paddock.web.links import href, linked
from paddock.web.parts.drawing import empty, seconds, since
from paddock.web.seen import Seen

__all__ = ["queue"]

_SHOWN = 5
_DOTS = 48
_CONCLUSIONS = {"success": "✓", "failure": "✕", "cancelled": "\u2013", "skipped": "\u2013"}


def queue(seen: Seen) -> Node:
    ledger = seen.ledger
    if not seen.runners:
        return empty("No GitHub App is configured, so there are no jobs: set PADDOCK_GITHUB_APP_ID and its key.")
    if ledger is None:
        return empty("The ledger cannot be asked now; nothing is shown rather than something old.")
    strip = ledger.strip
    waiting = strip.dispatchable + strip.withheld + strip.resting
    under = f"{strip.dispatchable} may run, {strip.withheld} over a limit"
    return h.ol(".river")[
        _stage(
            "queued", waiting, f"{under}, {strip.resting} resting" if strip.resting else under, _waiting(ledger.queue)
        ),
        _stage("claimed", strip.claimed, "a runner is being registered", []),
        _stage("running", strip.running, "on a Mac now", _running(ledger.running, seen.now)),
        _stage("done", strip.completed_last_hour, "in the last hour", _done(ledger.recent, seen.now)),
    ]


def _stage(name: str, count: int, under: str, jobs: list[Node]) -> Node:
    return h.li(".stage", data_stage=name)[
        h.div(".stage-head")[
            h.h3[name], h.span(".count")[f"{count:,}".replace(",", "\u202f")], h.p(".under")[under], _dots(count)
        ],
        h.ul(".jobs")[jobs] if jobs else h.p(".quiet")["none now"],
    ]


def _dots(count: int) -> Node:
    """One dot a job, as long as that can be counted by eye."""
    shown = min(count, _DOTS)
    return h.svg(".dots", aria_hidden="true", viewBox=f"0 0 {_DOTS * 5} 6", preserveAspectRatio="xMinYMid meet")[
        [h.circle(cx=str(index * 5 + 3), cy="3", r="2") for index in range(shown)]
    ]


def _job(job: WaitingJob | RunningJob | FinishedJob, under: Node, sign: str = "") -> Node:
    name = job.job_name or job.workflow_name or f"job {job.job_id}"
    return h.li(id=f"j-{job.job_id}")[
        h.a(href=href("job", job.job_id))[
            h.span(".sign", aria_hidden="true")[sign] if sign else None,
            h.span(".repo")[job.repository or job.login],
            " ",
            name,
        ],
        h.small[under],
    ]


def _waiting(jobs: Sequence[WaitingJob]) -> list[Node]:
    """The longest wait of each reason first: twenty jobs over one limit need one line, not twenty."""
    by_reason: dict[tuple[str, str], list[WaitingJob]] = {}
    for job in jobs:
        by_reason.setdefault((job.reason, job.login if job.reason != "in_line" else ""), []).append(job)
    shown: list[Node] = []
    for alike in list(by_reason.values())[:_SHOWN]:
        first = alike[0]
        more = f" So do {len(alike) - 1} more." if len(alike) > 1 else ""
        shown.append(_job(first, h.fragment[f"{seconds(first.waiting_seconds)}. ", first.why, more]))
    return shown


def _running(jobs: Sequence[RunningJob], now: datetime) -> list[Node]:
    newest = sorted(jobs, key=lambda job: job.started_at, reverse=True)[:_SHOWN]
    return [
        _job(
            job, h.fragment[f"{since(job.executing_since or job.started_at, now)} on ", *linked(f"Pod {job.pod_name}")]
        )
        for job in newest
    ]


def _done(jobs: Sequence[FinishedJob], now: datetime) -> list[Node]:
    def took(job: FinishedJob) -> str:
        ran = f", ran {since(job.started_at, job.completed_at)}" if job.started_at is not None else ""
        return f"{job.conclusion} {since(job.completed_at, now)} ago{ran}"

    return [_job(job, took(job), _CONCLUSIONS.get(job.conclusion, "?")) for job in jobs[:_SHOWN]]
