"""What a waiting Pod can be told. The table is in docs/design/dispatch.md."""

from dataclasses import dataclass
from typing import Final

from paddock.base.secrets import Secret

__all__ = ["NOTHING", "SUPERSEDED", "HandedJob", "PollAnswer", "exit_now", "later"]


@dataclass(frozen=True, slots=True)
class HandedJob:
    """A runner for this Pod alone. The config is shown once, in the body of the answer, and nowhere else."""

    config: Secret
    owner: str
    job_id: int


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """`outcome` is what the counters call it; `reason` is what the Pod's log will say."""

    status: int
    outcome: str
    reason: str = ""
    retry_after: float = 0.0
    handed: HandedJob | None = None


NOTHING: Final = PollAnswer(204, "nothing")
SUPERSEDED: Final = PollAnswer(204, "superseded")
"""A newer request of the same Pod waits in this one's place."""


def exit_now(outcome: str, reason: str) -> PollAnswer:
    """The Pod ends and is replaced; it is never given a job, or never a second one."""
    return PollAnswer(410, outcome, reason)


def later(outcome: str, reason: str, seconds: float = 2.0) -> PollAnswer:
    """Nothing is wrong with the Pod: it asks again after that."""
    return PollAnswer(503, outcome, reason, retry_after=seconds)
