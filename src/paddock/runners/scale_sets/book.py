"""What a listener writes down, and how the ledger does it. Each method can be repeated, whatever came of it before."""

from datetime import datetime
from typing import Protocol

import msgspec

from paddock.base.clock import Clock
from paddock.runners.api import RunnerPool
from paddock.runners.ledger import Ledger, NewJob
from paddock.runners.ledger.assignments import NAMELESS, NO_REPOSITORY, AssignedJob, Assignment, OpenAssignment
from paddock.runners.ledger.scale_sets import Room, Source, SourceState
from paddock.runners.scale_sets.messages import Entry, assignment_of, conclusion_of, moment, storable

__all__ = ["JobBook", "LedgerBook"]

BY = "scale set"


class JobBook(Protocol):
    """The ledger as a listener needs it. LeaseLostError from `note`, `record` and `make_nameless`: stop."""

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

    async def record(self, source: Source) -> None:
        """Its set, its session, and what the set was asked to be, as `source` has them now."""
        ...

    async def holder(self, source: Source, scale_set_id: int) -> str | None:
        """The pool whose source has this set as its own; None if there is no other."""
        ...

    async def inherit(self, source: Source, scale_set_id: int) -> Source:
        """The set, its session and its assignments are this source's from now on, and the one's that had them no more."""
        ...

    async def give_back(self, source: Source) -> None:
        """The lease is free for others; `session_id` is the one that stands still, for them to close."""
        ...

    async def room(self, source: Source, platform: str) -> Room | None: ...

    async def apply(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        """Write down what an entry says; gives a word for the counters. InvalidEntryError: it cannot be written, ever."""
        ...

    async def open(self, source: Source) -> list[OpenAssignment]: ...

    async def close_ghost(self, row: AssignedJob, account_id: int, why: str, *, in_vain: bool = False) -> None: ...

    async def make_nameless(self, source: Source, pool: RunnerPool, *, make: int, at_most: int) -> int:
        """Rows for jobs that GitHub counts and has not named, never more than `at_most` unstarted; gives how many."""
        ...

    async def in_vain(self, source: Source, since: datetime) -> int:
        """How many of those were ended since then because no runner was given a job."""
        ...

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
        self._assignments = ledger.assignments
        self._nameless = ledger.nameless
        self.in_vain = ledger.nameless.in_vain
        self.owner = rows.owner
        self.note = rows.note
        self.record = rows.record
        self.holder = ledger.succession.holder
        self.inherit = ledger.succession.inherit
        self.give_back = rows.give_back
        self.room = rows.room
        self.open = ledger.assignments.open
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

    async def close_ghost(self, row: AssignedJob, account_id: int, why: str, *, in_vain: bool = False) -> None:
        # No runner is named, so no claim ends: one that was minted for it may still come online, and is healed as idle.
        # Died in between: the row is open still, and is ended by the next look at the statistics.
        now = self._clock.now()
        await self._assignments.finished(row.job_id, self._nameless.UNCLAIMED if in_vain else "canceled", now, None)
        await self._ledger.jobs.completed(
            row.job_id, account_id=account_id, conclusion="cancelled", completed_at=now, by=BY, why=why
        )

    async def make_nameless(self, source: Source, pool: RunnerPool, *, make: int, at_most: int) -> int:
        nobody = Assignment(key="", job_guid=NAMELESS, workflow_run_id=0, assigned_at=self._clock.now())
        job = await self._new_job(source, Entry(message_type="JobAssigned"), nobody, pool)
        why = "GitHub counts a job of this scale set that was not announced here: the next message about it names it"
        return await self._nameless.make(source, job, make=make, at_most=at_most, by=BY, why=why)

    async def _assigned(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        return str(await self._ledger.jobs.enqueue(await self._told(source, entry, pool), by=BY))

    async def _started(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        runner_name = storable(entry.runner_name)
        if not runner_name:
            return "no_runner"
        job = await self._told(source, entry, pool)
        at = self._moment(entry.runner_assign_time)
        await self._assignments.started(job.job_id, runner_name, at)
        return str(await self._ledger.jobs.started(job, runner_name=runner_name, started_at=at, by=BY))

    async def _completed(self, source: Source, entry: Entry, pool: RunnerPool) -> str:
        job = await self._told(source, entry, pool)
        runner_name = storable(entry.runner_name) or None
        at, conclusion = self._moment(entry.finish_time), conclusion_of(entry.result)
        await self._assignments.finished(job.job_id, storable(entry.result), at, runner_name)
        started_at = moment(entry.runner_assign_time)
        moved = await self._ledger.jobs.completed(
            job.job_id,
            account_id=source.account_id,
            conclusion=conclusion,
            completed_at=at,
            runner_name=runner_name,
            started_at=None if runner_name is None or started_at is None else min(started_at, at),
            job=job,
            by=BY,
        )
        return str(moved)

    async def _told(self, source: Source, entry: Entry, pool: RunnerPool) -> NewJob:
        """The job that the entry speaks of. One heard of for the first time takes over a row that was made for it, if any."""
        assignment = await self._assignment(source, entry)
        job = await self._new_job(source, entry, assignment, pool)
        runner_name = storable(entry.runner_name) or None
        taken_at = None if runner_name is None else moment(entry.runner_assign_time)
        named = await self._nameless.name(source, assignment, job, runner_name=runner_name, taken_at=taken_at)
        return msgspec.structs.replace(job, job_id=named or await self._assignments.assign(source, assignment))

    async def _assignment(self, source: Source, entry: Entry) -> Assignment:
        now = self._clock.now()
        found = assignment_of(entry, now)
        if found is not None:
            return found
        run, guid = entry.workflow_run_id or 0, storable(entry.job_id)
        runner_name, ended = storable(entry.runner_name) or None, entry.message_type == "JobCompleted"
        known = await self._assignments.of_run(source, run, guid, runner_name=runner_name, ended=ended)
        # Without a moment, what is queued since is the next best that two assignments of one job differ by.
        key = known or f"{run}/{guid}/{storable(entry.queue_time) or 'unknown'}"
        return Assignment(key=key, job_guid=guid, workflow_run_id=run, assigned_at=now)

    def _moment(self, text: str | None) -> datetime:
        now = self._clock.now()
        return min(moment(text) or now, now)

    async def _somewhere(self, source: Source) -> str:
        """A repository's name where none was told. Its owner is the account's: healing looks for the runner in that one's list."""
        account = await self._ledger.accounts.get(source.account_id)
        return f"{account.login if account is not None else 'unknown'}/{NO_REPOSITORY}"

    async def _new_job(self, source: Source, entry: Entry, assignment: Assignment, pool: RunnerPool) -> NewJob:
        """The job without its number."""
        now = self._clock.now()
        repository = entry.repository or source.repository or await self._somewhere(source)
        return NewJob(
            job_id=0,
            account_id=source.account_id,
            pool=source.pool,
            platform=pool.platform,
            vcpus=pool.vcpus,
            memory_mb=pool.spec.pod_memory_mb,
            repository=repository,
            repository_id=await self._rows.repository_id(source.account_id, repository),
            enqueued_at=min(moment(entry.queue_time) or assignment.assigned_at, now),
            workflow_run_id=assignment.workflow_run_id,
            workflow_name=entry.workflow,
            job_name=storable(entry.job_display_name),
            # No labels: only runners of its set are given it, so that no other pool can take it over.
        )
