"""What people are shown of the ledger, and the one sentence that says why a job waits. Pure."""

from collections.abc import Container
from datetime import datetime, timedelta
from typing import Literal

from msgspec import Struct

from paddock.base.explanation import listed, span, utc
from paddock.runners.ledger.rows import STEP_SECONDS

__all__ = [
    "AccountView",
    "FinishedJob",
    "JobSourceView",
    "LostDeliveries",
    "QueueSummary",
    "Reason",
    "RunnerTrouble",
    "RunningJob",
    "Stage",
    "Waiting",
    "WaitingJob",
    "explain",
]

Reason = Literal[
    "approval", "no_pool", "too_old", "not_allowed", "resting", "repository_resting", "account_resting", "limit_missing", "larger_than_limit",
    "limit_reached", "repository_limit_reached", "in_line", "behind_its_account", "far_back",
]  # fmt: skip

_LONGEST_WAIT = timedelta(days=7)
_SILENT = timedelta(seconds=60)
"""GitHub answers a poll within 50 s, and a listener that takes over needs 35: one of the two is late by then."""


class JobSourceView(Struct, frozen=True, kw_only=True):
    """How one scale set fares, for people. `heard_at` is when GitHub last answered its listener."""

    pool: str
    login: str
    repository: str
    state: str
    sentence: str
    since: datetime
    heard_at: datetime | None
    assigned: int
    advertised: int

    @property
    def where(self) -> str:
        return self.repository or self.login

    def trouble(self, now: datetime) -> str:
        """What is wrong with it, in one sentence; empty where nothing is, or it has only just begun."""
        if self.state == "Stopped":
            return ""
        heard = self.heard_at or self.since
        if self.state in ("Listening", "Starting"):
            silent = now - heard
            if silent < _SILENT:
                return ""
            return f"no process has heard from its queue for {span(silent)}"
        return self.sentence


class RunnerTrouble(Struct, frozen=True):
    """Something that went wrong with several runners in the last minutes, of `handed` that were handed out meanwhile.

    `pod` is the latest of them, `said` how it ended.
    """

    kind: str
    pods: int
    pod: str
    since: datetime
    said: str = ""
    handed: int = 0


class LostDeliveries(Struct, frozen=True):
    """Job events that GitHub tried to deliver since the last delivery arrived, from when on, and what its last try was answered
    (0: nothing).
    """

    events: int
    since: datetime
    status_code: int


class QueueSummary(Struct, frozen=True):
    """`dispatchable` may run as soon as a Pod is free, `withheld` is over a limit, `resting` backs off, `not_allowed` is of
    nobody on the allow list, `held` waits for somebody's approval, `unserved` carries labels that no pool offers, for the
    reason `unserved_why`.
    """

    oldest_dispatchable_seconds: float
    dispatchable: int
    withheld: int
    resting: int
    claimed: int
    running: int
    sessions_open: int
    completed_last_hour: int
    not_allowed: int = 0
    held: int = 0
    unserved: int = 0
    unserved_why: str = ""
    unserved_since: datetime | None = None
    unsure: int = 0
    unsure_why: str = ""
    """Jobs that no pool serves and that carry no dispatch label of ours: perhaps meant for other runners of their account."""
    resting_since: datetime | None = None
    resting_why: str = ""
    """Since when the oldest of the resting jobs waits, and what GitHub said when it made no runner."""
    killed_last_day: int | None = None
    """Jobs that ended within a day because of something we did; None where dispatch is of a release that does not write them down."""
    forced_last_day: int = 0
    """Those of them that a person, or a limit that a person set, gave up."""
    killed_since: datetime | None = None
    """When the first of the others ended."""
    dispatchable_by_pool: dict[str, int] = {}
    oldest_by_pool: dict[str, float] = {}
    """Of each pool: how many jobs may run now, and how long the oldest of them has waited since it may."""
    job_sources: list[JobSourceView] = []
    """The scale sets that are listened to, or should be."""
    runner_troubles: list[RunnerTrouble] = []
    undelivered: LostDeliveries | None = None
    """None while GitHub's webhooks arrive."""
    not_installed: list[str] = []
    """Logins of accounts that used us within a day, and for which GitHub has no installation of ours any more."""
    not_listed: list[str] = []
    """Logins that installed the App and that nobody has allowed or denied, where a pool asks GitHub for its jobs: of such a
    pool nothing is heard for them."""


class Waiting(Struct, frozen=True, kw_only=True):
    """A waiting job beside everything that may hold it up. `ranked` is how many of its pool got a place."""

    job_id: int
    account_id: int
    login: str
    repository: str
    workflow_name: str
    job_name: str
    pool: str
    platform: str
    label: str
    labels: tuple[str, ...]
    status: str
    vcpus: int
    memory_mb: int
    enqueued_at: datetime
    changed_at: datetime
    mint_failures: int
    not_before: datetime | None
    changed_why: str
    limit_vcpus: int | None
    limit_memory_mb: int | None
    used_vcpus: int
    used_memory_mb: int
    setback_repository: str | None
    setback_until: datetime | None
    setback_why: str | None
    position: int | None
    ranked: int
    allowed: bool = True
    room_vcpus: int | None = None
    """What its repository may still hold; None where it has no limit of its own."""
    room_memory_mb: int | None = None
    weight: int = 1
    """Its account's."""
    priority: int = 0
    highest_priority: int = 0
    """Of the jobs that got a place."""


class WaitingJob(Struct, frozen=True, kw_only=True):
    """`reason` is for programs, `why` the sentence for people; `position` its place in the pool's line, if it has one."""

    job_id: int
    account_id: int
    login: str
    repository: str
    workflow_name: str
    job_name: str
    pool: str
    platform: str
    label: str
    enqueued_at: datetime
    waiting_seconds: float
    reason: Reason
    why: str
    position: int | None = None
    until: datetime | None = None


class RunningJob(Struct, frozen=True, kw_only=True):
    """`executing_since` is when GitHub said that the runner took the job up; without it that was not heard yet."""

    job_id: int
    account_id: int
    login: str
    repository: str
    workflow_name: str
    job_name: str
    pool: str
    platform: str
    enqueued_at: datetime
    claimed_at: datetime | None
    started_at: datetime
    executing_since: datetime | None
    pod_uid: str | None
    pod_name: str | None
    runner_name: str | None


class FinishedJob(Struct, frozen=True, kw_only=True):
    job_id: int
    account_id: int
    login: str
    repository: str
    workflow_name: str
    job_name: str
    pool: str
    conclusion: str
    runner_name: str | None
    enqueued_at: datetime | None
    started_at: datetime | None
    completed_at: datetime
    waited_seconds: float | None = None
    """Until a runner took it up; None where none did."""
    ran_seconds: float | None = None
    pod_seconds: float | None = None
    """How long its Pod was its account's, from the hand-over to the Pod's end (so far, where it has not ended)."""
    pod_name: str | None = None
    last_lines: str | None = None
    platform: str = ""
    """Empty where only its end was heard."""
    node_name: str | None = None
    price: float | None = None
    """What its Mac cost an hour then; None where that was not recorded."""
    share: float | None = None
    """Of a Mac, that a job of its pool has; with it come `mac_seconds` and `euros` (`JobCosts`). None where there was no Mac."""
    mac_seconds: float | None = None
    euros: float | None = None


class Stage(Struct, frozen=True):
    """Seconds that a stage of dispatch took; None where nothing was measured."""

    name: str
    count: int
    p50: float | None
    p95: float | None
    p99: float | None


class AccountView(Struct, frozen=True, kw_only=True):
    account_id: int
    login: str
    installation_id: int | None
    platform: str
    limit_vcpus: int
    limit_memory_mb: int
    used_vcpus: int
    used_memory_mb: int
    claims: int
    queued: int
    listed: str = ""
    """`allowed`, `denied`, `some` where only repositories of it are allowed, or empty: not on the list."""


def explain(job: Waiting, now: datetime, *, ranked_at_most: int, dispatchable: Container[int]) -> WaitingJob:
    """Why the job waits, by the rules of admission, the first that applies.

    `ranked_at_most` is how many were ranked, `dispatchable` the jobs that may run now, all of them together.
    """
    reason, why, until = _reason(job, now, ranked_at_most, may_run=job.job_id in dispatchable)
    if reason in ("in_line", "far_back", "behind_its_account") and (clause := _precedence(job, now)):
        why = f"{why.removesuffix('.')}; {clause}."
    return WaitingJob(
        job_id=job.job_id,
        account_id=job.account_id,
        login=job.login,
        repository=job.repository,
        workflow_name=job.workflow_name,
        job_name=job.job_name,
        pool=job.pool,
        platform=job.platform,
        label=job.label,
        enqueued_at=job.enqueued_at,
        waiting_seconds=max(0.0, (now - job.enqueued_at).total_seconds()),
        reason=reason,
        why=why,
        position=job.position if reason == "in_line" else None,
        until=until,
    )


def _reason(job: Waiting, now: datetime, ranked_at_most: int, *, may_run: bool) -> tuple[Reason, str, datetime | None]:
    who = f"account {job.login}"
    if job.status == "waiting":
        why = f"GitHub holds it back since {utc(job.changed_at)} until somebody approves its deployment: no runner can take it."
        return "approval", why, None
    if job.status == "unserved":
        labels = listed(job.labels or (job.label,))
        why = f"No pool runs a job with the labels {labels}: {job.changed_why}."
        return (
            "no_pool",
            why if job.label else f"{why} If it is meant for other runners of yours, nothing is to do.",
            None,
        )
    if job.enqueued_at <= now - _LONGEST_WAIT:
        return "too_old", "It has waited for more than a week and is not in the line any more.", None
    if not job.allowed:
        why = (
            f"The {who} (number {job.account_id}) is not allowed to run jobs here:"
            f" `paddock accounts allow {job.login}` allows it, `paddock accounts allow {job.repository}` this repository alone."
        )
        return "not_allowed", why, None
    # Of two rests the longer is the one that holds it up.
    longest = job.not_before if job.setback_until is None else max(job.not_before or now, job.setback_until)
    if job.not_before is not None and job.not_before > now and job.not_before == longest:
        failed = f"{job.mint_failures} failed mint{'' if job.mint_failures == 1 else 's'}"
        why = f"It rests until {utc(job.not_before)} after {failed}: {job.changed_why}."
        return "resting", why, job.not_before
    if job.setback_until is not None:
        whole = not job.setback_repository
        rests = f"The {who}" if whole else f"Repository {job.repository}"
        why = f"{rests} rests until {utc(job.setback_until)}, because minting fails: {job.setback_why}."
        return ("account_resting" if whole else "repository_resting"), why, job.setback_until
    if job.limit_vcpus is None or job.limit_memory_mb is None:
        return "limit_missing", f"The {who} has no limit for {job.platform}, and none means nothing.", None
    if job.vcpus > job.limit_vcpus or job.memory_mb > job.limit_memory_mb:
        why = (
            f"It needs {job.vcpus} vCPU and {job.memory_mb} MB, more than the {who} may ever hold on {job.platform}"
            f" ({job.limit_vcpus} vCPU, {job.limit_memory_mb} MB): raise the limit."
        )
        return "larger_than_limit", why, None
    if job.used_vcpus + job.vcpus > job.limit_vcpus or job.used_memory_mb + job.memory_mb > job.limit_memory_mb:
        why = (
            f"The {who} is at its {job.platform} limit: {job.used_vcpus} of {job.limit_vcpus} vCPU and"
            f" {job.used_memory_mb} of {job.limit_memory_mb} MB are held."
        )
        return "limit_reached", why, None
    if job.room_vcpus is not None and (job.room_vcpus < job.vcpus or (job.room_memory_mb or 0) < job.memory_mb):
        why = (
            f"Repository {job.repository} is at its own {job.platform} limit: {max(0, job.room_vcpus)} vCPU and"
            f" {max(0, job.room_memory_mb or 0)} MB of it are free; `paddock accounts limit {job.repository}` changes it."
        )
        return "repository_limit_reached", why, None
    if job.position is not None:
        place = "Next" if job.position == 1 else f"Number {job.position}"
        why = f"{place} in line for pool {job.pool}, as soon as a Pod is free"
        rivals = f"; what the {who} may still hold goes to its jobs in other pools where a Pod of theirs asks first"
        return "in_line", f"{why}{'' if may_run else rivals}.", None
    if job.ranked >= ranked_at_most:
        return "far_back", f"More than {ranked_at_most} jobs are before it in the line for pool {job.pool}.", None
    if may_run:
        # One that is larger stands before it, and is passed over once the first of its account are handed out.
        return (
            "in_line",
            f"In line for pool {job.pool} behind earlier jobs of its account, as soon as Pods are free.",
            None,
        )
    why = f"What the {who} may still hold on {job.platform} goes to its earlier jobs."
    return "behind_its_account", why, None


def _precedence(job: Waiting, now: datetime) -> str:
    """What its weight and priority mean for its place; empty where they mean nothing."""
    if job.priority < job.highest_priority:
        step = timedelta(seconds=STEP_SECONDS)
        left = (job.highest_priority - job.priority) * step - (now - job.enqueued_at)
        if left > timedelta(0):
            return (
                f"it has priority {job.priority}, and jobs of priority {job.highest_priority} go before it for at most"
                f" {span(left)} more"
            )
        return f"it has priority {job.priority}, and has waited long enough to go as those of {job.highest_priority}"
    said = [f"priority {job.priority} lets it go before lower ones"] if job.priority else []
    said += [f"its account has weight {job.weight}"] if job.weight != 1 else []
    return ", and ".join(said)
