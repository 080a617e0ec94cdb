"""Why a job waits, why a Pod exists, why a pool has as many Pods as it has: the same sentence everywhere. Pure."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from paddock.base.explanation import Evidence, Explanation, ago, span
from paddock.kube.builtin import Pod
from paddock.kube.conditions import get_condition
from paddock.runners.api import DRAIN_ELIGIBLE_LABEL, OPERATOR_DRAIN_LABEL, OWNER_LABEL, POOL_LABEL, RunnerPool
from paddock.runners.api.settings import HealingSettings
from paddock.runners.api.token_audience import audiences_of
from paddock.runners.http.evidence import exit_code, last_words, log_lines, of_cluster, of_github, of_ledger
from paddock.runners.http.readonly import JobPage, PodPage
from paddock.runners.ledger import FINISHED, PoolSignals, Session
from paddock.runners.ledger.views import JobSourceView, WaitingJob
from paddock.runners.pools.pod_predicates import drain_since, ending_of, os_of, warm

__all__ = ["why_job", "why_pod", "why_pool"]

_LONG = timedelta(minutes=10)
"""So long a wait needs a person; before that it is how a busy fleet works."""
_SOON = timedelta(minutes=1)
_HELD_UP = frozenset({"not_allowed", "resting", "account_resting", "repository_resting"})
"""Why a job waits for more than its turn."""


def why_job(
    job_id: int, page: JobPage, pool: RunnerPool | None, pod: Pod | None, healing: HealingSettings, now: datetime
) -> Explanation:
    """Why a job is where it is: waiting, being dispatched, running or over."""
    about, job = f"job {job_id}", page.job
    evidence = (
        *log_lines(page.transitions, now),
        *of_cluster(pod, pool, now),
        *of_github(page, now),
        *(() if page.completion is not None and page.completion.conclusion == "success" else last_words(page)),
    )
    if page.completion is not None and (job is None or job.status in FINISHED):
        ended = page.completion
        ran = waited = ""
        if job is not None and job.started_at is not None:
            # A job that was cancelled before any runner took it was handed over, and ran nowhere.
            where = f" on {ended.runner_name}" if ended.runner_name else ", and no runner took it"
            ran = f" after {span(ended.completed_at - job.started_at)}{where}"
            waited = f", having waited {span(job.started_at - job.enqueued_at)}"
        return Explanation(
            about=about,
            sentence=f"over: {ended.conclusion} {span(now - ended.completed_at)} ago{ran}{waited}",
            evidence=evidence,
        )
    if job is None:
        return Explanation(
            about=about,
            sentence="GitHub spoke of it, and no pool of ours was chosen for it",
            evidence=evidence,
            healthy=False,
        )
    what = f"{job.repository} · {job.job_name or job.workflow_name or '?'}"
    if job.status == "waiting":
        return Explanation(
            about=about,
            sentence=f"{what} waits for somebody's approval {ago(job.changed_at, now)}: GitHub gives it to no runner before",
            evidence=evidence,
            next="GitHub says when it is approved; then it gets its place in the line.",
        )
    if job.status == "unserved":
        return Explanation(
            about=about,
            sentence=f"{what} has waited {span(now - job.enqueued_at)}, and no pool runs it: {job.changed_why}",
            evidence=evidence,
            next=f"It is queued as soon as a pool offers its labels ({', '.join(job.labels or (job.label,))}).",
            commands=("paddock get pools",),
            runbook="PaddockJobsUnserved",
            healthy=False,
        )
    if job.status == "queued":
        waiting = page.waiting
        said = waiting.why if waiting is not None else "its turn has just come"
        return Explanation(
            about=about,
            sentence=f"{what} has waited {span(now - job.enqueued_at)}: {said}",
            evidence=evidence,
            next=_when_served(page, pool, now),
            commands=(*_allowing(waiting), f"paddock why pool {job.pool}", "paddock get jobs"),
            runbook="PaddockJobsWaitTooLong" if now - job.enqueued_at >= _LONG else "",
            healthy=now - job.enqueued_at < (_SOON if waiting is not None and waiting.reason in _HELD_UP else _LONG),
        )
    if job.status == "claimed":
        return Explanation(
            about=about,
            sentence=f"{what} was claimed for Pod {job.pod_name} {span(now - (job.claimed_at or now))} ago: its runner is being registered at GitHub",
            evidence=evidence,
            next=f"It runs within seconds; if the process dies now, it waits again after {span(healing.silent_dispatcher)}.",
        )
    # Its own Pod's session may have another job in it, and this job may be in the session of another Pod.
    still = [one for one in page.sessions if one.ended_at is None]
    session = next((one for one in still if one.executed_job_id == job.job_id), still[0] if still else None)
    since = job.started_at or now
    if session is not None and session.executed_job_id == job.job_id:
        began = session.job_started_at or since
        return Explanation(
            about=about,
            sentence=f"{what} is running on Pod {session.pod_name} for {span(now - began)}",
            evidence=evidence,
            next="GitHub says when it is over; until then Paddock leaves its Pod alone.",
            commands=(f"paddock why pod {session.pod_name}",),
        )
    other = session.executed_job_id if session is not None else None
    heard = f"GitHub gave its runner job {other} instead" if other else "GitHub has not said that it runs"
    late = now - since > healing.registration_deadline
    return Explanation(
        about=about,
        sentence=f"{what} was handed to Pod {job.pod_name} {span(now - since)} ago, and {heard}",
        evidence=evidence,
        next=f"{'GitHub is asked every half minute' if late else f'After {span(healing.registration_deadline)} GitHub is asked'}; if no runner runs it, it waits again in its old place.",
        commands=(f"paddock why pod {job.pod_name}",),
        healthy=not late,
    )


def why_pod(name: str, pod: Pod | None, page: PodPage | None, now: datetime, *, audience: str = "") -> Explanation:
    """Why a runner Pod exists and what it does, or what became of it. `name` is what it was asked for by; `audience` whom its
    token must be meant for.
    """
    name = pod.metadata.name if pod is not None else (page.name if page is not None else "") or name
    about = f"pod {name}"
    lines = log_lines(page.transitions, now) if page is not None else ()
    evidence = (*of_cluster(pod, None, now), *of_ledger(page, now), *lines)
    claim, fence, session = (page.claim, page.fence, page.session) if page is not None else (None, None, None)
    if pod is None:
        open_still = claim is not None or (session is not None and session.ended_at is None)
        return Explanation(
            about=about,
            sentence=f"gone from the cluster{_what_it_was(page, open_still=open_still, now=now)}",
            evidence=evidence,
            next="What it held is let go once its absence is confirmed." if open_still else "",
            commands=_of_its_job(session),
            healthy=not open_still,
        )
    labels = pod.metadata.labels
    if session is None and claim is None and audience and (others := audiences_of(pod)) and audience not in others:
        return Explanation(
            about=about,
            sentence=(
                f"refused by dispatch {ago(pod.metadata.creation_timestamp, now)}: its token is for"
                f" {', '.join(sorted(others))}, and dispatch takes those for {audience} alone"
            ),
            evidence=evidence,
            next="It exits, and the next one is refused as well: let the operator make the Pods, of the same release as dispatch.",
            commands=(f"kubectl delete pod {name}", "paddock doctor"),
            healthy=False,
        )
    if pod.metadata.deletion_timestamp is not None:
        return Explanation(
            about=about,
            sentence=f"being deleted {ago(pod.metadata.deletion_timestamp, now)}",
            evidence=evidence,
            next="It is gone when its Node has ended it; if that Node is gone, healing lets it go.",
        )
    if pod.status.phase in ("Succeeded", "Failed"):
        return Explanation(
            about=about,
            sentence=f"ended {span(now - ending_of(pod, now).at)} ago ({pod.status.phase}{exit_code(pod)})",
            evidence=evidence,
            next="Its stop is reported and its pool deletes it.",
            healthy=pod.status.phase == "Succeeded",
        )
    if fence is not None:
        return Explanation(
            about=about, sentence=f"being retired {ago(fence.raised_at, now)}: {fence.why}", evidence=evidence,
            next="It wins no job any more, and is deleted.",
        )  # fmt: skip
    if session is not None and session.ended_at is None:
        doing = f"runs job {session.executed_job_id}" if session.executed_job_id else f"was handed job {session.job_id}"
        return Explanation(
            about=about,
            sentence=f"{doing} for {session.repository.partition('/')[0]} {ago(session.started_at, now)}; it is not touched",
            evidence=evidence,
            commands=(f"paddock why job {session.executed_job_id or session.job_id}", f"paddock drain {name}"),
        )
    if claim is not None:
        return Explanation(
            about=about,
            sentence=f"claimed for job {claim.job_id} {ago(claim.claimed_at, now)}: {claim.why}",
            evidence=evidence,
            next="It is handed its runner within seconds, or the claim is given back.",
            commands=(f"paddock why job {claim.job_id}",) if claim.job_id else (),
        )
    if labels.get(OPERATOR_DRAIN_LABEL) == "true" or labels.get(DRAIN_ELIGIBLE_LABEL) == "true":
        since = ago(drain_since(pod), now)
        return Explanation(
            about=about,
            sentence=f"draining{' ' if since else ''}{since}: it is given no job",
            evidence=evidence,
            next="It is told to exit when it next asks, and its pool replaces it.",
        )
    if labels.get(OWNER_LABEL):
        return Explanation(
            about=about,
            sentence=(
                f"assigned to {labels[OWNER_LABEL]}, and the ledger holds neither claim nor session for it;"
                f" it is there {ago(pod.metadata.creation_timestamp, now)}"
            ),
            evidence=evidence,
            next="Reaped once that is proven: it is fenced first, so that it can win no job meanwhile.",
            commands=("paddock leaks",),
            healthy=False,
        )
    if not pod.spec.node_name:
        said = next((c.message for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), "")
        return Explanation(
            about=about, sentence=f"waits for a Node {ago(pod.metadata.creation_timestamp, now)}: {said or 'none was chosen yet'}",
            evidence=evidence, next="Its pool replaces it if it finds none in time.", healthy=False,
        )  # fmt: skip
    pool, age = labels.get(POOL_LABEL, "?"), ago(pod.metadata.creation_timestamp, now)
    if not warm(pod, os_of(pod)):
        said = next((c.message for c in pod.status.conditions if c.type == "Ready" and c.status != "True"), "")
        return Explanation(
            about=about,
            sentence=f"starting in pool {pool} on {pod.spec.node_name} {age}: {said or 'it does not wait for a job yet'}",
            evidence=evidence,
            next="Its pool replaces it if it does not start in time.",
        )
    return Explanation(
        about=about,
        sentence=f"idle in pool {pool} {age}: waits for a job",
        evidence=evidence,
        next="It takes the next job of its pool, unless the pool lets it go first.",
    )


def _what_it_was(page: PodPage | None, *, open_still: bool, now: datetime) -> str:
    """What a Pod that is gone had done, or what is still open for it."""
    if page is None:
        return ""
    claim, session = page.claim, page.session
    if open_still:
        held = [f"its claim of job {claim.job_id}" if claim.job_id else "its claim"] if claim is not None else []
        since = claim.claimed_at if claim is not None else None
        if session is not None and session.ended_at is None:
            held.append("its session")
            since = since or session.started_at
        return f", but the ledger still holds {' and '.join(held)} {ago(since, now)}"
    if session is not None and session.ended_at is not None:
        ended = f"it ended {span(now - session.ended_at)} ago ({session.end_reason})"
        if session.executed_job_id is None:
            return f": {ended} and was never given a job"
        return f": it ran job {session.executed_job_id} of {session.repository}; {ended}"
    raised = next((line for line in reversed(page.transitions) if line.became == "fenced"), None)
    if raised is not None:
        return f": retired {span(now - raised.at)} ago without ever having had a job: {raised.why}"
    if not page.transitions:
        return ""
    last = page.transitions[-1]
    return f": it never had a runner, and was last heard of {span(now - last.at)} ago: {last.why}"


def _of_its_job(session: Session | None) -> tuple[str, ...]:
    job = (session.executed_job_id or session.job_id) if session is not None else None
    return (f"paddock why job {job}",) if job else ()


def why_pool(
    pool: RunnerPool,
    now: datetime,
    signals: PoolSignals | None = None,
    sources: Sequence[JobSourceView] = (),
    *,
    not_listed: Sequence[str] = (),
) -> Explanation:
    """Why a pool has as many Pods as it has, and whether it hears of its jobs.

    `not_listed` are logins that installed the App and that the allow list says nothing of.
    """
    status, spec = pool.status, pool.spec
    ready, scaled = get_condition(status.conditions, "Ready"), get_condition(status.conditions, "Autoscaled")
    evidence = [
        Evidence(
            "cluster",
            f"{status.replicas} Pods: {status.idle} warm, {status.busy} busy, {status.starting} starting; {spec.replicas} wanted{_counted(pool, now)}",
        )
    ]
    if ready is not None and ready.last_transition_time is not None:
        evidence.append(
            Evidence("cluster", f"Ready is {ready.status} ({ready.reason}) {ago(ready.last_transition_time, now)}")
        )
    written = [("warm windows", "WarmWindows"), ("profiles", "Profiles")]
    understood = [
        (what, said) for what, kind in written if (said := get_condition(status.conditions, kind)) is not None
    ]
    evidence += [Evidence("cluster", f"{what}: {said.message}") for what, said in understood]
    if signals is not None:
        evidence.append(
            Evidence(
                "database",
                f"{signals.queued} jobs may run now, {signals.withheld} are over a limit, {signals.not_allowed} are of nobody on the allow list, {signals.occupied} Pods are occupied",
            )
        )
    deaf = False
    for source in sources:
        trouble = source.trouble(now)
        deaf = deaf or bool(trouble)
        counts = f"{source.assigned} jobs are assigned, {source.advertised} may be; {source.state.lower()}"
        fine = f"{counts}; {source.sentence}" if source.sentence else counts
        evidence.append(Evidence("GitHub", f"scale set of {source.where}: {trouble or fine}"))
    unheard = list(not_listed) if spec.job_source == "ScaleSet" else []
    for login in unheard:
        installed = f"{login} has installed the App and is not on the allow list, so that no job of it is asked for"
        evidence.append(Evidence("database", f"{installed}: paddock accounts allow {login}"))
    if spec.job_source == "ScaleSet" and not sources and not unheard and signals is not None:
        evidence.append(Evidence("database", "nobody who may run jobs has installed the App: paddock accounts list"))
    starving = signals is not None and signals.queued > 0 and status.idle == 0
    starved = (
        signals is not None and signals.queued > 0 and status.idle > 0 and signals.oldest_dispatchable_seconds > 30
    )
    return Explanation(
        about=f"pool {pool.metadata.name}",
        sentence=(ready.message if ready is not None and ready.message else "no controller has looked at it yet"),
        evidence=tuple(evidence),
        next=(scaled.message if scaled is not None else "")
        or ("Warm Pods take the waiting jobs as soon as they are up." if starving else ""),
        commands=(*(f"paddock accounts allow {login}" for login in unheard), "paddock get pods", "paddock get jobs"),
        runbook="PaddockJobSourceLost" if deaf or unheard else ("PaddockJobsWaitTooLong" if starved else ""),
        healthy=ready is not None
        and ready.status == "True"
        and not starved
        and not deaf
        and not unheard
        and all(said.status == "True" for _, said in understood),
    )


def _counted(pool: RunnerPool, now: datetime) -> str:
    """How old the counts are."""
    at = pool.status.observed_at
    return f"; counted {span(now - at)} ago" if at is not None else ""


def _allowing(waiting: WaitingJob | None) -> tuple[str, ...]:
    if waiting is None or waiting.reason != "not_allowed":
        return ()
    return (f"paddock accounts allow {waiting.login}", f"paddock accounts allow {waiting.repository}")


def _when_served(page: JobPage, pool: RunnerPool | None, now: datetime) -> str:
    waiting = page.waiting
    if waiting is not None and waiting.until is not None and waiting.until > now:
        return f"It is tried again in {span(waiting.until - now)}."
    reason, place = (waiting.reason, waiting.position) if waiting is not None else ("in_line", None)
    if reason == "too_old":
        return "GitHub is asked about it: it gets a place in the line again, or its end."
    if reason in ("larger_than_limit", "limit_missing"):
        return "It goes on only when its account's limit is raised."
    if reason == "not_allowed":
        return "It is kept, and goes at once when it is allowed."
    if reason == "repository_limit_reached":
        return "It goes on when a job of its repository ends, or when its limit is raised."
    if reason == "limit_reached":
        return "It goes on when a job of its account ends, or when its limit is raised."
    if reason == "behind_its_account":
        return "It goes on when the earlier jobs of its account have ended."
    if pool is None:
        return "Its pool does not exist (any more): no Pod will ever take it."
    if pool.status.idle and (reason == "far_back" or (place or 1) > pool.status.idle):
        return f"{pool.status.idle} Pods of its pool are warm and go to the jobs before it; then it is its turn."
    if pool.status.idle:
        return f"{pool.status.idle} Pods of its pool are warm; it is handed to one within a second or two."
    if pool.status.starting:
        return f"{pool.status.starting} Pods of its pool are starting; the first that is up takes it, if it is first in line."
    return "No Pod of its pool is warm or starting; the first that ends its job makes room for another."
