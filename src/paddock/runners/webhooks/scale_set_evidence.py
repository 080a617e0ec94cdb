"""A webhook about a job of a scale set: it announces nothing, and what it says of a runner counts.

The queue alone announces such jobs, under numbers of ours; a webhook has GitHub's. They meet by the runner's name, which is never
used twice, so nothing is guessed from a run's siblings, of which GitHub gives a runner any:

- the queue said that this runner runs the job: the webhook gives its number, so that nobody has to ask GitHub for it, and its end;
- the queue has not said so yet, and the runner was minted for a job of this run and name: it runs. The queue's word, when it
  comes, may say otherwise and is right; an end is therefore not taken on this.
"""

from datetime import datetime

import msgspec

from paddock.runners.ledger import Ledger, NewJob
from paddock.runners.webhooks.payload import JobEvent, moment, storable

__all__ = ["count_as_evidence"]


async def count_as_evidence(
    event: JobEvent, job: NewJob, ledger: Ledger, *, received_at: datetime, now: datetime
) -> str | None:
    """What came of it, in a word; None where it says nothing about a row of ours. Repeatable, in any order.

    `job` is what the webhook says, with its pool and its account.
    """
    runner_name, said = event.runner_name, event.workflow_job
    if runner_name is None or event.action not in ("in_progress", "completed"):
        return None
    row = await ledger.assignments.of_runner(job.account_id, runner_name, said.run_id, storable(said.name))
    if row is None:
        return None
    started_at = moment(said.started_at, now, received_at)
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
    ended_at, conclusion = moment(said.completed_at, now, received_at), storable(said.conclusion) or "unknown"
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
