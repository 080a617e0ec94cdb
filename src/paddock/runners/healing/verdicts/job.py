"""What to do about a job that is not where it should be. Pure, and total: every state gets one verdict, with its reason.

Two promises hold in every state, and a table test checks them all:

- no job is put back while GitHub says that it is in progress, or while a runner that may still take it is not proven gone:
  unless its Pod ended, the verdict asks for that runner to be unregistered first, which GitHub refuses while it is busy;
- nothing is done on GitHub's silence alone, except to a job that has waited for a day, and nothing on a single 404.

Ways out, for as long as the ledgers can be read: a job whose Pod ended is put back at once; one whose runner never came
after the registration deadline; one that is over is settled when GitHub is asked next; a runner that is online but idle is
left to its own watchdog, whose end is the end of its Pod.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from paddock.base.explanation import span
from paddock.runners.api.settings import HealingSettings

__all__ = [
    "Action",
    "JobSaid",
    "JobVerdict",
    "PodSaid",
    "QueuedJobFacts",
    "RunnerSaid",
    "RunningJobFacts",
    "judge_queued",
    "judge_running",
    "worth_asking",
]

_ACCESS_LOST: Final = timedelta(hours=1)
_LONGEST_APPROVAL: Final = timedelta(days=31)
"""GitHub fails a job that nobody has approved for thirty days."""


class PodSaid(StrEnum):
    """K: the Pod that the job's row names, by uid."""

    ALIVE = "alive"
    ENDED = "ended"  # seen to have ended, or reported
    ABSENT = "absent"  # not in a complete list that was read after the row
    UNKNOWN = "unknown"  # no list, or the row names no Pod


class RunnerSaid(StrEnum):
    """G: the runner that the job's row names, in a complete list."""

    ONLINE = "online"
    OFFLINE = "offline"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class JobSaid(StrEnum):
    """G: the job itself."""

    QUEUED = "queued"  # no runner has it, and one may
    WAITING = "waiting"  # GitHub holds it back, for an approval most likely: no runner has it, and none can
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    MISSING = "missing"  # 404
    UNKNOWN = "unknown"  # not asked, or no answer


class Action(StrEnum):
    KEEP = "keep"
    REQUEUE = "requeue"
    SETTLE = "settle"
    BIND = "bind"  # record which runner executes it
    LEAVE = "leave"  # a runner that was not brought for it has it: it is over here
    GIVE_UP = "give up"
    RENEW = "renew"  # it waits there, too: its day here begins anew
    HOLD = "hold"  # GitHub holds it back: it is handed to nobody
    RELEASE = "release"  # GitHub holds it back no more


@dataclass(frozen=True, slots=True)
class JobVerdict:
    action: Action
    kind: str
    sentence: str
    unregister: bool = False
    """Only once GitHub has no such runner any more: it may stand idle, or come online beside the one that is next."""


@dataclass(frozen=True, slots=True)
class RunningJobFacts:
    """A job that is `running` in the ledger, and what the others say of it."""

    age: timedelta
    """Since it runs, according to the ledger."""
    pod: PodSaid
    said: JobSaid = JobSaid.UNKNOWN
    runner: RunnerSaid = RunnerSaid.UNKNOWN
    executing: bool = False
    """P: `in_progress` was heard from this Pod's runner, for this job or a sibling."""
    repository_answers: bool = False
    """G answers for the repository as a whole, so that a 404 is about the job."""
    missing_for: timedelta = timedelta()
    """How long every answer has been 404; zero for the first."""

    @property
    def pod_gone(self) -> bool:
        return self.pod in (PodSaid.ENDED, PodSaid.ABSENT)


@dataclass(frozen=True, slots=True)
class QueuedJobFacts:
    """A job that is `queued` in the ledger, or held back (`held`), and what GitHub says of it."""

    waited: timedelta
    said: JobSaid
    held: bool = False
    runner_named: bool = False
    """GitHub names the runner that executes it."""
    repository_answers: bool = False
    missing_for: timedelta = timedelta()
    elsewhere: bool = False
    """No pool serves it, and the runner that GitHub names is not ours, or one of a scale set's, which counts the job itself."""


def worth_asking(age: timedelta, pod: PodSaid, settings: HealingSettings) -> bool:
    """Whether GitHub is asked about a running job: its Pod is gone, or it should long have been heard of."""
    return pod in (PodSaid.ENDED, PodSaid.ABSENT) or age >= settings.registration_deadline


def judge_running(job: RunningJobFacts, settings: HealingSettings) -> JobVerdict:
    match job.said:
        case JobSaid.IN_PROGRESS:
            return _keep("GitHub says that it is in progress")
        case JobSaid.COMPLETED:
            return JobVerdict(
                Action.SETTLE, "orphan_completed", "GitHub says that it is over, which was never heard here"
            )
        case JobSaid.MISSING:
            if job.age >= settings.registration_deadline and _gone_for_good(job, settings):
                return JobVerdict(Action.SETTLE, "orphan_completed", _missing(job))
            return _keep("GitHub does not know it, which alone proves nothing")
        case JobSaid.UNKNOWN:
            return _keep("GitHub was not asked, or gave no answer")
        case JobSaid.QUEUED | JobSaid.WAITING:
            return _no_runner_has_it(job, settings)


def _no_runner_has_it(job: RunningJobFacts, settings: HealingSettings) -> JobVerdict:
    """GitHub has given the job to no runner; can the runner that we meant it for still take it?"""
    if job.pod is PodSaid.ENDED:
        return _requeue("its Pod has ended and GitHub still has it queued", unregister=False)
    # The one case in which a live runner loses its job. None can be given this job before a person approves it, which may
    # take weeks; but GitHub may give the runner any other job this moment. So the slot is free only once GitHub has
    # unregistered the runner, which it refuses if it is busy. A runner that was heard to execute anything is left alone.
    waits_in_vain = job.said is JobSaid.WAITING and job.runner is RunnerSaid.ONLINE and not job.executing
    if waits_in_vain and job.age >= settings.registration_deadline:
        return _requeue("GitHub holds it back until somebody approves it, and its runner waits for nothing")
    if job.runner is RunnerSaid.ONLINE:
        return _keep("its runner is online and may take it, or works on another job")
    if job.pod is PodSaid.ABSENT:
        return _requeue("its Pod is gone and GitHub still has it queued")
    if job.age < settings.registration_deadline:
        return _keep("its runner may still be registering")
    if job.executing:
        return _keep("its runner is known to execute a job, and its Pod is not known to be gone")
    if job.runner is RunnerSaid.UNKNOWN:
        return _keep("GitHub still has it queued, but whether its runner is online could not be read")
    return _requeue(
        f"its runner is {job.runner.value} at GitHub {span(job.age)} after it was handed out, and the job still queued"
    )


def judge_queued(job: QueuedJobFacts, settings: HealingSettings) -> JobVerdict:
    match job.said:
        case JobSaid.IN_PROGRESS | JobSaid.COMPLETED if job.elsewhere:
            kind = "queued_started" if job.said is JobSaid.IN_PROGRESS else "queued_completed"
            return JobVerdict(Action.LEAVE, kind, "GitHub gave it to a runner that was not brought for it")
        case JobSaid.IN_PROGRESS if job.runner_named:
            return JobVerdict(
                Action.BIND, "queued_started", "GitHub says that a runner executes it, which was never heard here"
            )
        case JobSaid.IN_PROGRESS:
            return _keep("GitHub says that it is in progress")
        case JobSaid.COMPLETED:
            return JobVerdict(
                Action.SETTLE, "queued_completed", "GitHub says that it is over, which was never heard here"
            )
        case JobSaid.MISSING if job.waited >= settings.queued_verify and _gone_for_good(job, settings):
            return JobVerdict(Action.SETTLE, "queued_completed", _missing(job))
        case JobSaid.QUEUED if job.held:
            return JobVerdict(
                Action.RELEASE, "approval_found", "GitHub holds it back no more, which was never heard here"
            )
        case JobSaid.WAITING if not job.held:
            return JobVerdict(Action.HOLD, "hold_found", "GitHub holds it back until somebody approves it")
        case JobSaid.WAITING:
            return _keep("GitHub holds it back until somebody approves it")
        case JobSaid.QUEUED if job.waited >= settings.queued_give_up:
            # Approved after days, perhaps: a job that was given up could never run. GitHub ends what waits in vain by itself.
            return JobVerdict(Action.RENEW, "", "GitHub still has it waiting: it goes on waiting here")
        case _ if job.held and job.waited < _LONGEST_APPROVAL:
            return _keep(f"GitHub's answer is {job.said.value}: it waits for an approval, which may take weeks")
        case _ if job.waited >= settings.queued_give_up:
            return JobVerdict(
                Action.GIVE_UP,
                "queued_gave_up",
                f"it has waited for more than {span(settings.queued_give_up)}; GitHub's answer is {job.said.value}",
            )
        case _:
            return _keep(f"GitHub's answer is {job.said.value}: it waits")


def _gone_for_good(job: RunningJobFacts | QueuedJobFacts, settings: HealingSettings) -> bool:
    """A settled job never runs again, so that no single 404 settles one: it must have been the only answer for
    `missing_confirm`, hence in at least two passes. Where not even the repository answers, it was renamed perhaps, or the
    App lost its access for a while: whoever did that has an hour to notice.
    """
    return job.missing_for >= (settings.missing_confirm if job.repository_answers else _ACCESS_LOST)


def _missing(job: RunningJobFacts | QueuedJobFacts) -> str:
    if job.repository_answers:
        return "GitHub does not know it any more, though it answers for its repository"
    return f"GitHub has not known it for {span(job.missing_for)}, nor its repository"


def _keep(sentence: str) -> JobVerdict:
    return JobVerdict(Action.KEEP, "", sentence)


def _requeue(sentence: str, *, unregister: bool = True) -> JobVerdict:
    return JobVerdict(Action.REQUEUE, "orphan_requeued", sentence, unregister)
