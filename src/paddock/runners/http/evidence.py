"""What each ledger says of a job or a Pod, in a line each: the evidence of `paddock.runners.http.explain`. Pure."""

from collections.abc import Sequence
from datetime import datetime

from paddock.base.explanation import Evidence, ago, span
from paddock.kube.builtin import Pod
from paddock.runners.api import RunnerPool
from paddock.runners.http.readonly import JobPage, PodPage
from paddock.runners.ledger import Transition

__all__ = ["exit_code", "last_words", "log_lines", "of_cluster", "of_github", "of_ledger"]

_LAST_LINES = 4
_LAST_PRINTED = 2


def log_lines(lines: Sequence[Transition], now: datetime) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            "database",
            f"{span(now - line.at)} ago: {line.subject} {line.was or 'new'} → {line.became} ({line.by}: {line.why})",
        )
        for line in lines[-_LAST_LINES:]
    )


def last_words(page: JobPage) -> tuple[Evidence, ...]:
    """What a runner printed last that ended under this job: the end of it, in one line; `paddock logs` has the rest."""
    return tuple(
        Evidence("host", f"{one.pod_name} printed last: {_end(one.last_lines)}")
        for one in page.sessions
        if one.last_lines
    )


def _end(lines: str) -> str:
    told = [line.strip() for line in lines.splitlines() if line.strip()]
    return " / ".join(told[-_LAST_PRINTED:])


def of_cluster(pod: Pod | None, pool: RunnerPool | None, now: datetime) -> tuple[Evidence, ...]:
    found = []
    if pod is not None:
        where = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
        found.append(
            Evidence(
                "cluster",
                f"Pod {pod.metadata.name}: {pod.status.phase or 'new'}{where} {ago(pod.metadata.creation_timestamp, now)}{exit_code(pod)}",
            )
        )
    if pool is not None:
        status = pool.status
        found.append(
            Evidence(
                "cluster",
                f"pool {pool.metadata.name}: {status.idle} warm, {status.busy} busy, {status.starting} starting",
            )
        )
    return tuple(found)


def of_ledger(page: PodPage | None, now: datetime) -> tuple[Evidence, ...]:
    if page is None:
        return (Evidence("database", "no claim and no session ever named it"),)
    claim = f"claim {page.claim.state} {ago(page.claim.claimed_at, now)}" if page.claim is not None else "no claim"
    session = "no session"
    if page.session is not None:
        ended = page.session.ended_at
        session = f"session {'ended' if ended else 'open'} {ago(ended or page.session.started_at, now)}"
    return (Evidence("database", f"{claim}, {session}"),)


def of_github(page: JobPage, now: datetime) -> tuple[Evidence, ...]:
    if page.completion is not None:
        return (
            Evidence("GitHub", f"said {page.completion.conclusion} {span(now - page.completion.completed_at)} ago"),
        )
    # What a runner was given instead of this job is in its session, too, and is not about this job.
    job_id = page.job.job_id if page.job is not None else 0
    heard = next(
        (one for one in page.sessions if one.executed_job_id == job_id and one.job_started_at is not None), None
    )
    if heard is not None and heard.job_started_at is not None:
        return (
            Evidence(
                "GitHub", f"said in progress {span(now - heard.job_started_at)} ago, on runner {heard.runner_name}"
            ),
        )
    return (Evidence("GitHub", "has not said that a runner runs it"),) if page.job is not None else ()


def exit_code(pod: Pod) -> str:
    """As the end of a sentence about the Pod; empty while no container of it has ended."""
    for status in pod.status.container_statuses:
        if status.state.terminated is not None:
            ended = status.state.terminated
            return f", exit code {ended.exit_code}" + (f" ({ended.message})" if ended.message else "")
    return ""
