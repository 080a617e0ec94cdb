"""Does this listener hang? Pure, and total: every Pod gets one verdict, with its reason.

A runner of ours is handed out for one job that waits. Its guest says which stage it is in, and `running` as soon as a worker
exists: so a mark that stands still in an earlier stage is the host's own word that no job runs there. That alone is no
proof, because GitHub may give it a job the next moment. Therefore `Dismiss` means: **take the runner away at GitHub first**,
which GitHub refuses while the runner has a job and which no job survives reaching; only then is the Pod a `hung_runner`.
"""

from msgspec import Struct

from paddock.base.explanation import span
from paddock.runners.healing.verdicts.pod import Keep, Watch
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HandedFact,
    HeldFact,
    JobFact,
    PodFacts,
    PodLife,
    RunnerRow,
)

__all__ = ["Dismiss", "judge_listener"]


class Dismiss(Struct, frozen=True):
    """GitHub has it idle or does not see it, and it does not move: unregister it, put its job back, and reap the Pod."""

    sentence: str


def judge_listener(facts: PodFacts, *, executing: bool) -> Keep | Watch | Dismiss:
    """The verdict on a Pod whose runner says that nothing moves. `executing`: P heard of a job that it executes."""
    if facts.life is not PodLife.ALIVE:
        return Keep("over", "it has ended, or is being deleted")
    if facts.listener_still_since is None:
        return Keep("moving", "its runner moves, has a worker, or fell silent")
    if facts.handed is HandedFact.NONE or facts.held in (HeldFact.CLAIMED, HeldFact.FENCE):
        return Keep("not_handed", "it is being served, or retired")
    if executing:
        return Keep("executing", "the ledger heard that its runner executes a job")
    if facts.job is JobFact.UNKNOWN or facts.runner_row is RunnerRow.UNKNOWN:
        return Watch("unasked", "nothing moves, and GitHub has not said what became of its job or of its runner")
    if facts.runner_row is RunnerRow.BUSY:
        return Keep("busy", "GitHub says that its runner is busy")
    if facts.job is JobFact.IN_PROGRESS and facts.executor is not ExecutorFact.OTHER:
        return Keep("in_progress", "GitHub says that its job is in progress")
    if facts.job is JobFact.COMPLETED and facts.executor in (ExecutorFact.THIS, ExecutorFact.UNKNOWN):
        return Keep("finished", "its job is over: it is on its way out, or a finished_job_pod")
    if facts.runner_row is RunnerRow.IDLE and facts.job is not JobFact.QUEUED:
        # A healthy listener without a job writes nothing for half an hour, so this stillness says nothing.
        return Keep("waits", "its runner is online, and its job is not waiting for it")
    where = "waits" if facts.job is JobFact.QUEUED else "is elsewhere"
    return Dismiss(
        f"its job {where}, GitHub has its runner {facts.runner_row.value}, no worker runs,"
        f" and nothing has moved for {span(facts.now - facts.listener_still_since)}"
    )
