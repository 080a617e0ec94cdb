"""When GitHub is asked about a job that is `running` in the ledger. Pure.

GitHub announces each change of a job; asking is for announcements that were lost, and every question is paid from the
installation's budget. So the guest's word sets the pace, and nothing else: it brings a question forward, or lets it wait, and
what GitHub answers is judged the same (`verdicts.job`). A job's code can fake its mark, and gains an early or a late question.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.job import PodSaid, worth_asking

__all__ = ["Asking", "GuestSaid", "due", "urgency"]

_SHARE_OF_AGE: Final = 10
_SHARE_OF_STILLNESS: Final = 2


class GuestSaid(StrEnum):
    """H: the newest mark of the job's runner."""

    WORKS = "works"  # a worker lives, and says so now
    STILL = "still"  # it is said again and again, and has not moved: the job is over, or hangs
    UNKNOWN = "unknown"  # no mark, or none lately: silence is not stillness


@dataclass(frozen=True, slots=True)
class Asking:
    """A running job, and how long ago GitHub was asked about it."""

    age: timedelta
    pod: PodSaid
    executing: bool
    """P: its runner was heard to execute it."""
    unasked_for: timedelta
    guest: GuestSaid = GuestSaid.UNKNOWN
    still_for: timedelta = timedelta()

    @property
    def pod_gone(self) -> bool:
        return self.pod in (PodSaid.ENDED, PodSaid.ABSENT)


def due(job: Asking, settings: HealingSettings) -> bool:
    """Whether GitHub is asked in this pass.

    A thousand busy Macs whose workers live cost 2,000 questions an hour at most (`working_asked`), and none while their jobs are
    younger than that; each that stands still costs one at once, and then ever fewer, no more than one that says nothing.
    """
    if job.pod_gone:
        return True
    if not worth_asking(job.age, job.pod, settings):
        return False
    if job.guest is GuestSaid.WORKS and job.executing:
        return job.age >= settings.working_asked and job.unasked_for >= settings.working_asked
    believed = min(job.age / _SHARE_OF_AGE, settings.executing_asked)
    if job.executing and job.guest is GuestSaid.STILL:
        believed = min(max(settings.still_asked, job.still_for / _SHARE_OF_STILLNESS), settings.executing_asked)
    elif job.executing and job.age < settings.executing_asked:
        return False
    return job.unasked_for >= believed


def urgency(job: Asking) -> int:
    """Who is asked about first, where the budget is short: the smaller number."""
    if job.pod_gone:
        return 0
    return 1 if job.guest is GuestSaid.STILL and job.unasked_for > job.still_for else 2
