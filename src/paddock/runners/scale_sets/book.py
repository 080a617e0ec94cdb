"""What a listener writes down, and how the ledger does it. Each method can be repeated, whatever came of it before."""

from datetime import datetime
from typing import Protocol

from paddock.base.clock import Clock
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Ledger, NewJob
from paddock.runners.ledger.scale_sets import AssignedJob, Assignment, Room, Source, SourceState
from paddock.runners.scale_sets.messages import Entry, assignment_of, conclusion_of, moment, storable

__all__ = ["JobBook", "LedgerBook"]

BY = "scale set"


class JobBook(Protocol):
    """The ledger as a listener needs it. LeaseLostError from `note` and `record`: stop."""

    async def owner(self) -> str: ...

    async def note(
        self,
        source: Source,
        state: SourceState,
        sentence: str = "",
        *,
        heard: bool = False,
        advertised: int | None = None,
        assigned: int | None = None,
        running: int | None = None,
    ) -> None: ...

    async def record(self, source: Source, *, scale_set_id: int | None, session_id: str) -> None: ...

    async def give_back(self, source: Source) -> None: ...

    async def room(self, source: Source, platform: str) -> Room | None: ...

    async def apply(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        """Write down what an entry says; gives a word for the counters. InvalidEntryError: it cannot be written, ever."""
        ...

    async def open(self, source: Source) -> list[AssignedJob]: ...

    async def close_ghost(self, row: AssignedJob, account_id: int, why: str) -> None: ...

    async def quarantine(self, source: Source, *, message_id: int, digest: str, why: str, body: str) -> None: ...


class LedgerBook:
    """Keeps `JobBook` in the ledger.

    An entry is two writes: GitHub's word about the assignment, then the job's own row. A process that dies in between has
    the message delivered again, and both are said again; the ledger makes late, repeated and reordered words end alike.
    """

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        rows = ledger.scale_sets
        self._rows = rows
        self.owner = rows.owner
        self.note = rows.note
        self.record = rows.record
        self.give_back = rows.give_back
        self.room = rows.room
        self.open = rows.open
        self.quarantine = rows.quarantine

    async def apply(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        match entry.message_type:
            case "JobAssigned":
                return await self._assigned(source, entry, pool)
            case "JobStarted":
                return await self._started(source, entry, pool)
            case "JobCompleted":
                return await self._completed(source, entry, pool)
            case "JobAvailable":
                return "offered"
            case _:
                return "unknown_kind"

    async def close_ghost(self, row: AssignedJob, account_id: int, why: str) -> None:
        # No runner is named, so no claim ends: one that was minted for it may still come online, and is healed as idle.
        now = self._clock.now()
        await self._rows.finished(row.job_id, "canceled", now, None)
        await self._ledger.jobs.completed(
            row.job_id, account_id=account_id, conclusion="cancelled", completed_at=now, by=BY, why=why
        )

    async def _assigned(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        assignment = await self._assignment(source, entry)
        job_id = await self._rows.assign(source, assignment)
        return str(await self._ledger.jobs.enqueue(self._new_job(job_id, source, entry, assignment, pool), by=BY))

    async def _started(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        runner_name = storable(entry.runner_name)
        if not runner_name:
            return "no_runner"
        assignment = await self._assignment(source, entry)
        job_id = await self._rows.assign(source, assignment)
        at = self._moment(entry.runner_assign_time)
        await self._rows.started(job_id, runner_name, at)
        job = self._new_job(job_id, source, entry, assignment, pool)
        return str(await self._ledger.jobs.started(job, runner_name=runner_name, started_at=at, by=BY))

    async def _completed(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        assignment = await self._assignment(source, entry)
        job_id = await self._rows.assign(source, assignment)
        runner_name = storable(entry.runner_name) or None
        at, conclusion = self._moment(entry.finish_time), conclusion_of(entry.result)
        await self._rows.finished(job_id, storable(entry.result), at, runner_name)
        started_at = moment(entry.runner_assign_time)
        moved = await self._ledger.jobs.completed(
            job_id,
            account_id=source.account_id,
            conclusion=conclusion,
            completed_at=at,
            runner_name=runner_name,
            started_at=None if runner_name is None or started_at is None else min(started_at, at),
            job=self._new_job(job_id, source, entry, assignment, pool),
            by=BY,
        )
        return str(moved)

    async def _assignment(self, source: Source, entry: Entry) -> Assignment:
        now = self._clock.now()
        found = assignment_of(entry, now)
        if found is not None:
            return found
        run, guid = entry.workflow_run_id or 0, storable(entry.job_id)
        known = await self._rows.newest_of_run(source, run, guid)
        # Without a moment, what is queued since is the next best that two assignments of one job differ by.
        key = known or f"{run}/{guid}/{storable(entry.queue_time) or 'unknown'}"
        return Assignment(key=key, job_guid=guid, workflow_run_id=run, assigned_at=now)

    def _moment(self, text: str | None) -> datetime:
        now = self._clock.now()
        return min(moment(text) or now, now)

    def _new_job(self, job_id: int, source: Source, entry: Entry, assignment: Assignment, pool: RunnerPool) -> NewJob:
        now = self._clock.now()
        return NewJob(
            job_id=job_id,
            account_id=source.account_id,
            pool=source.pool,
            platform=pool.platform,
            vcpus=pool.vcpus,
            memory_mb=pool.spec.pod_memory_mb,
            repository=entry.repository or source.repository or "unknown/unknown",
            enqueued_at=min(moment(entry.queue_time) or assignment.assigned_at, now),
            workflow_run_id=assignment.workflow_run_id,
            workflow_name=entry.workflow,
            job_name=storable(entry.job_display_name),
            # No labels: only runners of its set are given it, so that no other pool can take it over.
        )
