"""A webhook about a job of a scale set: it announces nothing, and what it says of a runner counts.

The queue alone announces such jobs, under numbers of ours; a webhook has GitHub's. They meet by the runner's name, which is never
used twice, so nothing is guessed from a run's siblings, of which GitHub gives a runner any:

- the queue said that this runner runs the job: the webhook gives its number, so that nobody has to ask GitHub for it, and its end;
- the queue has not said so yet, and the runner was minted for a job of this run and name: it runs. The queue's word, when it
  comes, may say otherwise and is right; an end is therefore not taken on this.

A row under GitHub's number, of a time when webhooks announced the pool's jobs, is over with the first word of a set's runner: the
set's own row is that job.
"""

from datetime import datetime

import msgspec

from paddock.base.clock import Clock
from paddock.runners.ledger import Ledger, NewJob
from paddock.runners.webhooks.payload import JobEvent, moment, storable

__all__ = ["Listened", "count_as_evidence"]

_KEPT = 5.0
_NOBODY_HAS = frozenset({"waiting", "unserved", "queued"})
_OPEN = _NOBODY_HAS | {"claimed", "running"}


async def count_as_evidence(
    event: JobEvent, job: NewJob, ledger: Ledger, *, received_at: datetime, now: datetime
) -> str | None:
    """What came of it, in a word; None where it says nothing about a row of ours. Repeatable, in any order.

    `job` is what the webhook says, with its account and the pool of the runner, which is one of a scale set.
    """
    runner_name, said = event.runner_name, event.workflow_job
    if runner_name is None or event.action not in ("in_progress", "completed"):
        return None
    started_at = moment(said.started_at, now, received_at)
    ended_at, conclusion = moment(said.completed_at, now, received_at), storable(said.conclusion) or "unknown"
    await _end_the_other_row(event, job, ledger, started_at if event.action == "in_progress" else ended_at)
    row = await ledger.assignments.of_runner(job.account_id, runner_name, said.run_id, storable(said.name))
    if row is None:
        await ledger.assignments.number_of_runner(job.account_id, runner_name, said.run_id, said.id)
        return None
    by_the_queue = row.runner_name is not None
    # Died between any two of these writes: the delivery is handled again, and each says the same again. The assignment's end is
    # the last, because a row that has one is not found any more.
    if by_the_queue and row.forge_job_id is None:
        await ledger.assignments.numbered(row.job_id, said.id)
    if event.action == "in_progress":
        known = msgspec.structs.replace(job, job_id=row.job_id, label="", labels=())
        return str(await ledger.jobs.started(known, runner_name=runner_name, started_at=started_at))
    if not by_the_queue:
        return None
    moved = await ledger.jobs.completed(
        row.job_id,
        account_id=job.account_id,
        conclusion=conclusion,
        completed_at=ended_at,
        runner_name=runner_name,
        started_at=min(started_at, ended_at),
    )
    await ledger.assignments.finished(row.job_id, conclusion, ended_at, runner_name)
    return str(moved)


async def _end_the_other_row(event: JobEvent, job: NewJob, ledger: Ledger, at: datetime) -> None:
    """End the row that has GitHub's number. One that a Pod has stays until the job is over, because that Pod may yet be given it.

    No runner is named: the set's would give up its own claim, and one that was minted for this row is healed as idle.
    """
    row = await ledger.jobs.get(job.job_id)
    if row is None or row.status not in (_NOBODY_HAS if event.action == "in_progress" else _OPEN):
        return
    await ledger.jobs.completed(
        row.job_id,
        account_id=row.account_id,
        conclusion="elsewhere",
        completed_at=at,
        why=f"runner {event.runner_name} of a scale set has it, under a number of its own",
    )


class Listened:
    """The accounts that have or had a scale set, read every five seconds at most: nobody else's webhook costs a question.

    A source is written long before its first job can be assigned, so that those seconds hide none. Read before a batch and not
    within one, so that deliveries which came together are told in their order.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._read_at = float("-inf")
        self._known: frozenset[int] = frozenset()

    async def refresh(self) -> None:
        now = self._clock.monotonic()
        if now - self._read_at >= _KEPT:
            self._known, self._read_at = await self._ledger.scale_sets.listened(), now

    def to(self, account_id: int) -> bool:
        return account_id in self._known

    async def may_have(self, job: NewJob, created_at: datetime | None) -> bool:
        """Whether a queue may have announced this very job. If it waits still when that is over, it is found in GitHub's list."""
        return self.to(job.account_id) and await self._ledger.assignments.may_be(job, created_at=created_at)
