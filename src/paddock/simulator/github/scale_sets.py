"""Runner scale sets as GitHub has them: which set a job is of, what is assigned, sessions, and the queue of messages.

What was observed of the real one is kept: jobs beyond the polled capacity are invisible; an assignment that no runner takes ends
as `canceled` and comes again; a message that was not deleted returns to the next session; numbers of messages may start again;
a second session is refused for as long as the first one counts as alive. With `acquire_flow` jobs are offered and must
be acquired, as at GHES.
"""

import asyncio
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from paddock.base.clock import Clock, rfc3339
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.state import (
    GitHubState,
    SimulatedJob,
    SimulatedScaleSet,
    WaitingMessage,
)

__all__ = ["FIRST_MESSAGE", "ScaleSetQueue"]

FIRST_MESSAGE = 100_000_001
_MOST_ENTRIES = 50
_TRIES = 3


class ScaleSetQueue:
    """Owns the scale sets. `hear` is told of every event of a job; between two awaits nothing else changes them."""

    def __init__(self, state: GitHubState, queue: JobQueue, clock: Clock) -> None:
        self._state = state
        self._queue = queue
        self._clock = clock
        self._woken: dict[int, asyncio.Event] = {}
        now = clock.now()
        for job in state.jobs.values():
            if job.assigned_at is not None and job.status == "queued":
                self._expire_at(job, now)

    # Sets

    def create(self, place: str, name: str, group_id: int, labels: Iterable[str]) -> SimulatedScaleSet:
        behaviour = self._state.behaviour
        kept = [name] if behaviour.custom_labels_dropped else list(dict.fromkeys([name, *labels]))
        made = SimulatedScaleSet(
            id=self._state.fresh_id(1) % 1_000_000 + 1,
            name=name,
            group_id=group_id,
            place=place,
            labels=kept,
            next_message=FIRST_MESSAGE,
        )
        self._state.scale_sets[made.id] = made
        return made

    def find(self, place: str, group_id: int, name: str) -> SimulatedScaleSet | None:
        there = (s for s in self._state.scale_sets.values() if s.place == place and s.group_id == group_id)
        return next((s for s in there if s.name.lower() == name.lower()), None)

    def update(
        self, scale_set: SimulatedScaleSet, group_id: int | None, labels: list[str] | None, now: datetime
    ) -> None:
        """What is given changes; jobs that wait and are not assigned go to whatever set fits them now."""
        behaviour = self._state.behaviour
        if group_id is not None:
            scale_set.group_id = group_id
        if labels is not None and not behaviour.labels_fixed and not behaviour.custom_labels_dropped:
            scale_set.labels = list(dict.fromkeys([scale_set.name, *labels]))
        for job in self._jobs(scale_set):
            if job.status == "queued" and job.assigned_at is None:
                job.scale_set_id = 0
        self.adopt_waiting(now)

    def delete(self, scale_set: SimulatedScaleSet, now: datetime) -> None:
        """The set goes, with its queue and session; its jobs wait for whoever offers their labels next."""
        del self._state.scale_sets[scale_set.id]
        for job in self._jobs(scale_set):
            if job.status == "queued":
                self._queue.withhold(job)
                job.scale_set_id, job.assigned_at = 0, None
                self.hear(job, "queued", now)
        self.wake(scale_set.id)

    def restart_numbers(self, scale_set: SimulatedScaleSet) -> None:
        """GitHub begins to count messages anew; what was not deleted comes again under new numbers."""
        scale_set.next_message = FIRST_MESSAGE
        for message in scale_set.messages:
            message.id, scale_set.next_message = scale_set.next_message, scale_set.next_message + 1

    # Events of jobs

    def hear(self, job: SimulatedJob, action: str, now: datetime) -> None:
        if action == "queued":
            scale_set = self._set_for(job)
            if scale_set is not None:
                job.scale_set_id, job.assigned_at = scale_set.id, None
                self.wake(scale_set.id)
            return
        scale_set = self._state.scale_sets.get(job.scale_set_id)
        if scale_set is None or job.assigned_at is None:
            return
        early = self._state.behaviour.early_completion
        if action == "in_progress":
            self._say(scale_set, self._entry(job, "JobStarted", runner=True))
            if early:
                said = {"result": "succeeded", "finishTime": rfc3339(now)}
                self._say(scale_set, {**self._entry(job, "JobCompleted", runner=True), **said})
        elif early:
            pass  # it was said
        elif action == "completed" and not (self._state.behaviour.silent_cancel and not job.runner_name):
            self._say(scale_set, self._completed(job, now))
        self.wake(scale_set.id)

    def _set_for(self, job: SimulatedJob) -> SimulatedScaleSet | None:
        repository = self._state.repository(job.repository)
        wanted = {label.lower() for label in job.labels}
        if repository is None:
            return None
        places = {f"orgs/{repository.owner}".lower(), f"repos/{repository.full_name}".lower()}
        for scale_set in self._state.scale_sets.values():
            offered = {label.lower() for label in scale_set.labels}
            if scale_set.place.lower() not in places or not wanted <= offered:
                continue
            # A group that is closed to the repository hides the job without a word: statistics stay zero.
            if self._queue.sees(scale_set.place, scale_set.group_id, repository):
                return scale_set
        return None

    def adopt_waiting(self, now: datetime) -> None:
        """A new set may be what waiting jobs need."""
        for job in self._state.jobs.values():
            if job.status == "queued" and not job.scale_set_id:
                self.hear(job, "queued", now)
                if job.scale_set_id:
                    self._queue.withhold(job)

    # Assignment

    def assigned(self, scale_set: SimulatedScaleSet) -> list[SimulatedJob]:
        return [job for job in self._jobs(scale_set) if job.assigned_at is not None and job.status != "completed"]

    def in_line(self, scale_set: SimulatedScaleSet) -> list[SimulatedJob]:
        waiting = [job for job in self._jobs(scale_set) if job.assigned_at is None and job.status == "queued"]
        if not self._state.behaviour.unannounced_reruns or self.assigned(scale_set) or self._online(scale_set):
            return waiting
        return [job for job in waiting if self._state.runs[job.run_id].attempt == 1]

    def _online(self, scale_set: SimulatedScaleSet) -> bool:
        return any(runner.online and runner.scale_set_id == scale_set.id for runner in self._state.runners.values())

    def gate(self, scale_set: SimulatedScaleSet, capacity: int, now: datetime) -> None:
        """A poll with this capacity is open: assign, or offer, what may be."""
        scale_set.capacity = capacity
        scale_set.most_promised = max(scale_set.most_promised, capacity)
        free = capacity - len(self.assigned(scale_set))
        for job in self.in_line(scale_set)[: max(0, free)]:
            if not self._state.behaviour.acquire_flow:
                self._assign(scale_set, job, now)
            elif not job.request_id:
                job.request_id = self._state.fresh_id(1)
                self._say(scale_set, {**self._entry(job, "JobAvailable"), "acquireJobUrl": "https://unused.test/"})

    def acquire(self, scale_set: SimulatedScaleSet, request_ids: Iterable[int], now: datetime) -> list[int]:
        won: list[int] = []
        wanted = set(request_ids)
        for job in self._jobs(scale_set):
            if job.request_id in wanted and job.status != "completed":
                if job.assigned_at is None:
                    self._assign(scale_set, job, now)
                won.append(job.request_id)
        return won

    def _assign(self, scale_set: SimulatedScaleSet, job: SimulatedJob, now: datetime) -> None:
        job.assigned_at = now
        job.assignments += 1
        self._say(scale_set, self._entry(job, "JobAssigned"))
        self._queue.release(job, now)
        self._expire_at(job, now)

    def _expire_at(self, job: SimulatedJob, now: datetime) -> None:
        life = timedelta(seconds=self._state.behaviour.assignment_life / self._state.behaviour.speed)
        moment = max(now, (job.assigned_at or now) + life)
        self._queue.timers.at(moment, partial(self._expire, job, job.assigned_at))

    def _expire(self, job: SimulatedJob, assigned_at: datetime | None, now: datetime) -> None:
        scale_set = self._state.scale_sets.get(job.scale_set_id)
        if job.status != "queued" or job.assigned_at != assigned_at or scale_set is None:
            return
        self._queue.withhold(job)
        self._say(scale_set, {**self._entry(job, "JobCompleted"), "result": "canceled", "finishTime": rfc3339(now)})
        job.assigned_at, job.request_id = None, 0
        if job.assignments < _TRIES or not self._state.behaviour.gives_up_assigning:
            self.wake(scale_set.id)
        else:
            job.scale_set_id = 0  # nobody knows what GitHub does then: here it is stranded

    # Sessions and messages

    def session_lives(self, scale_set: SimulatedScaleSet, now: datetime) -> bool:
        life = timedelta(seconds=self._state.behaviour.session_life / self._state.behaviour.speed)
        return (
            bool(scale_set.session) and scale_set.session_seen_at is not None and now - scale_set.session_seen_at < life
        )

    def next_message(self, scale_set: SimulatedScaleSet, after: int) -> WaitingMessage | None:
        """The first message behind the cursor. A cursor of an earlier sequence counts for nothing."""
        if after >= scale_set.next_message:
            after = 0
        found = next((message for message in scale_set.messages if message.id > after), None)
        if found is None and scale_set.said:
            entries, scale_set.said = scale_set.said[:_MOST_ENTRIES], scale_set.said[_MOST_ENTRIES:]
            found = WaitingMessage(id=scale_set.next_message, entries=entries)
            scale_set.next_message += 1
            scale_set.messages.append(found)
        if found is not None:
            found.deliveries += 1
        return found

    def statistics(self, scale_set: SimulatedScaleSet) -> dict[str, int]:
        assigned = self.assigned(scale_set)
        runners = [r for r in self._state.runners.values() if r.scale_set_id == scale_set.id and not r.removed]
        busy = sum(runner.busy for runner in runners)
        shown = {
            "totalAvailableJobs": len(self.in_line(scale_set)) if scale_set.capacity else 0,
            "totalAcquiredJobs": 0,
            "totalAssignedJobs": len(assigned) + self._state.behaviour.phantom_jobs,
            "totalRunningJobs": sum(job.status == "in_progress" for job in assigned),
            "totalRegisteredRunners": len(runners),
            "totalBusyRunners": busy,
            "totalIdleRunners": sum(runner.online for runner in runners) - busy,
        }
        return dict.fromkeys(shown, 0) if self._state.behaviour.zero_statistics else shown

    def woken(self, scale_set_id: int) -> asyncio.Event:
        return self._woken.setdefault(scale_set_id, asyncio.Event())

    def wake(self, scale_set_id: int) -> None:
        self.woken(scale_set_id).set()

    def _say(self, scale_set: SimulatedScaleSet, entry: dict[str, Any]) -> None:
        scale_set.said.append(entry)
        if self._state.behaviour.repeated_entries:
            scale_set.said.append(entry)
        self.wake(scale_set.id)

    def _jobs(self, scale_set: SimulatedScaleSet) -> list[SimulatedJob]:
        return [job for job in self._state.jobs.values() if job.scale_set_id == scale_set.id]

    def _completed(self, job: SimulatedJob, now: datetime) -> dict[str, Any]:
        results = {"success": "succeeded", "failure": "failed", "cancelled": "canceled"}
        entry = self._entry(job, "JobCompleted", runner=bool(job.runner_name))
        return {**entry, "result": results.get(job.conclusion or "", job.conclusion), "finishTime": rfc3339(now)}

    def _entry(self, job: SimulatedJob, kind: str, *, runner: bool = False) -> dict[str, Any]:
        run = self._state.runs[job.run_id]
        owner, _, name = job.repository.partition("/")
        # Derived from the job's name, as it seems to be at GitHub: two repositories may have the same.
        guid = hashlib.sha256(job.name.encode()).hexdigest()
        entry: dict[str, Any] = {
            "messageType": kind,
            "runnerRequestId": job.request_id,
            "jobId": f"{guid[:8]}-{guid[8:12]}-{guid[12:16]}-{guid[16:20]}-{guid[20:32]}",
            "ownerName": owner,
            "repositoryName": name,
            "jobWorkflowRef": f"{job.repository}/.github/workflows/{run.workflow}.yml@refs/heads/{run.branch}",
            "jobDisplayName": job.name,
            "workflowRunId": job.run_id,
            "eventName": "push",
            "requestLabels": list(job.labels),
            "queueTime": rfc3339(job.created_at),
        }
        if job.assigned_at is not None:
            entry["scaleSetAssignTime"] = job.assigned_at.isoformat()
        if runner:
            entry["runnerId"], entry["runnerName"] = job.runner_id, job.runner_name
            entry["runnerAssignTime"] = rfc3339(job.started_at or job.created_at)
        return entry
