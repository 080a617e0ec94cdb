"""What the ledger's tables hold, as frozen values. A value is what was true when it was read, nothing more."""

from datetime import datetime
from enum import StrEnum
from typing import Final, Literal

from msgspec import Struct

from paddock.runners.api import Platform

STEP_SECONDS: Final = 180
"""How long a job waits for one step of priority, up to the highest of those that wait."""

__all__ = [
    "FINISHED",
    "Account",
    "Announced",
    "Claim",
    "ClaimState",
    "Completion",
    "Delivery",
    "Ended",
    "Execution",
    "Fence",
    "HeldPod",
    "Job",
    "Limit",
    "Moved",
    "NewJob",
    "Outcome",
    "Platform",
    "Pod",
    "Session",
    "Transition",
    "Usage",
]

FINISHED: Final = frozenset({"completed", "cancelled"})
"""The statuses of a job that nothing brings back from."""

Announced = Literal["queued", "waiting", "unserved"]
"""How a job that no runner has is told of: it may run, GitHub holds it back for an approval, or no pool offers its labels."""


class Outcome(StrEnum):
    """What came of asking for a job. All but the first leave nothing behind."""

    CLAIMED = "claimed"
    EMPTY = "empty"  # nothing that may run now is waiting
    LOST_RACE = "lost_race"  # another dispatcher took the job, or it finished
    POD_IN_USE = "pod_in_use"  # the Pod has a live claim
    POD_FENCED = "pod_fenced"  # the Pod is being reaped
    POD_SPENT = "pod_spent"  # the Pod was handed a runner before; it must exit, never serve a second tenant
    ACCOUNT_BUSY = "account_busy"  # another dispatcher admits for the account this very moment: ask again soon
    LIMIT_REACHED = "limit_reached"
    LIMIT_MISSING = "limit_missing"  # the account has no limit for the platform, and none means nothing
    UNKNOWN_JOB = "unknown_job"


class ClaimState(StrEnum):
    CLAIMED = "claimed"  # before the mint
    RUNNING = "running"  # minted; the Pod was, or is about to be, handed its runner
    FENCED = "fenced"  # the reaper's


class Moved(StrEnum):
    """What an event did to a job."""

    QUEUED = "queued"
    HELD = "held"  # GitHub holds it back for an approval: it is known, and handed to nobody
    UNSERVED = "unserved"  # no pool offers its labels: it is known, and waits for one that does
    KNOWN = "known"  # there is a row already: nothing changed
    FINISHED = "finished"  # it had finished before: nothing changed
    COMPLETED = "completed"


class Execution(StrEnum):
    """Which runner GitHub gave a job to, compared with the one that was minted for it."""

    MATCHED = "matched"
    MISMATCH = "mismatch"  # one of ours, minted for another job: that other job waits again
    UNKNOWN_RUNNER = "unknown_runner"  # none that holds a claim
    FINISHED = "finished"  # the job is over already
    OTHER_SOURCE = "other_source"  # one of a scale set, while a webhook announced this row, or the other way round


class Account(Struct, frozen=True):
    account_id: int
    login: str
    installation_id: int | None
    enrolled_at: datetime


class Limit(Struct, frozen=True):
    """What an account may hold at once on a platform."""

    account_id: int
    platform: str
    vcpus: int
    memory_mb: int


class Usage(Struct, frozen=True):
    """A limit beside what is held under it."""

    account_id: int
    platform: str
    vcpus: int
    memory_mb: int
    used_vcpus: int
    used_memory_mb: int
    claims: int


class NewJob(Struct, frozen=True, kw_only=True):
    """A job as GitHub announces it, after its pool was found. Its size is what it will be counted as for its whole life."""

    job_id: int
    account_id: int
    pool: str
    platform: Platform
    vcpus: int
    memory_mb: int
    repository: str
    enqueued_at: datetime
    workflow_run_id: int = 0
    workflow_name: str = ""
    run_attempt: int = 1
    job_name: str = ""
    head_branch: str = ""
    head_sha: str = ""
    label: str = ""
    repository_id: int = 0
    """GitHub's number of the repository, by which it is allowed and limited; 0 where it is not known."""
    labels: tuple[str, ...] = ()


class Job(Struct, frozen=True, kw_only=True):
    """A job's row. `generation` names the claim that holds it; `changed_*` say who moved it last, and why."""

    job_id: int
    account_id: int
    pool: str
    platform: str
    vcpus: int
    memory_mb: int
    status: str
    conclusion: str | None
    repository: str
    workflow_run_id: int
    workflow_name: str
    run_attempt: int
    job_name: str
    head_branch: str
    head_sha: str
    label: str
    enqueued_at: datetime
    claimed_at: datetime | None
    started_at: datetime | None
    completed_at: datetime | None
    generation: int | None
    pod_uid: str | None
    pod_name: str | None
    runner_name: str | None
    mint_failures: int
    not_before: datetime | None
    changed_at: datetime
    changed_by: str
    changed_why: str
    repository_id: int = 0
    labels: tuple[str, ...] = ()


class Completion(Struct, frozen=True):
    job_id: int
    account_id: int
    conclusion: str
    runner_name: str | None
    completed_at: datetime
    recorded_at: datetime


class Pod(Struct, frozen=True):
    """A Pod, by what is never reused (uid) and by what people call it (name)."""

    uid: str
    name: str


class Claim(Struct, frozen=True, kw_only=True):
    """The answer to one waiting Pod. Unless `outcome` is CLAIMED, only the Pod is filled in.

    `generation` is the claim's name for ever: every later write gives it, and touches nothing if it is not current.
    """

    outcome: Outcome
    pod_uid: str
    pod_name: str
    generation: int = 0
    job_id: int = 0
    account_id: int = 0
    login: str = ""
    pool: str = ""
    platform: str = ""
    vcpus: int = 0
    memory_mb: int = 0
    repository: str = ""
    workflow_name: str = ""
    label: str = ""
    mint_failures: int = 0
    enqueued_at: datetime | None = None
    claimed_at: datetime | None = None
    installation_id: int | None = None
    """Where the App may act for the account; None where it was not known, as the claim was made, that it may."""
    wholly_allowed: bool = False
    """Whether every repository of the account may run jobs: then, and only then, may a runner serve all of them."""

    @property
    def won(self) -> bool:
        return self.outcome is Outcome.CLAIMED


class Tenant(Struct, frozen=True):
    """Whose a Pod is. `handed` says that it was handed a runner, now or before; otherwise it is only claimed."""

    account_id: int
    login: str
    handed: bool


class HeldPod(Struct, frozen=True, kw_only=True):
    """A live claim's row, as healing reads it."""

    pod_uid: str
    pod_name: str
    generation: int
    state: str
    job_id: int | None
    account_id: int
    pool: str
    platform: str
    vcpus: int
    memory_mb: int
    runner_name: str | None
    dispatcher_id: int | None
    claimed_at: datetime
    executing_since: datetime | None
    missing_since: datetime | None
    by: str
    why: str
    displaced_at: datetime | None = None
    """Since when its job has been another runner's; None while it has one."""


class Ended(Struct, frozen=True, kw_only=True):
    """A claim that ended, and whether its job waits again."""

    generation: int
    pod_uid: str
    pod_name: str
    job_id: int | None
    account_id: int
    pool: str
    state: str
    requeued: bool


class Fence(Struct, frozen=True):
    """The reaper's hold on a Pod: while it stands, the Pod wins no claim."""

    pod_uid: str
    pod_name: str
    generation: int
    raised_at: datetime
    by: str
    why: str


class Session(Struct, frozen=True, kw_only=True):
    """A Pod that was handed a runner. `job_id` is what it was minted for, `executed_job_id` what GitHub gave it."""

    pod_uid: str
    pod_name: str
    generation: int
    account_id: int
    job_id: int | None
    executed_job_id: int | None
    pool: str
    platform: str
    vcpus: int
    memory_mb: int
    runner_name: str
    repository: str
    workflow_name: str
    started_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    job_started_at: datetime | None
    job_ended_at: datetime | None
    place: str | None = None
    """Where its runner was registered, as GitHub's API names it; None where a release before did not keep it."""
    last_lines: str | None = None
    """What the runner printed last, where it ended under its job."""


class Delivery(Struct, frozen=True):
    """A delivery to work off. `attempt` is this worker's hold on it: settling it names the attempt."""

    delivery_id: str
    event: str
    payload: bytes
    received_at: datetime
    attempt: int


class Transition(Struct, frozen=True, kw_only=True):
    """A line of the log: who, when, from what to what, why, under which claim."""

    transition_id: int
    at: datetime
    subject: str
    job_id: int | None
    account_id: int | None
    pod_uid: str | None
    generation: int | None
    was: str
    became: str
    by: str
    why: str
    pod_name: str | None = None
    """Only in the lines of a fence: nothing else keeps the name of a Pod that never had a session."""
