"""The life of jobs and runners: who is offered what, who takes it, and what becomes of both.

A job goes to *any* idle runner that sees its repository and offers all of its labels, whoever the runner was minted for.
Nothing runs in the background: every read and every change first settles what has fallen due, in the order of its moments.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from paddock.base.clock import Clock
from paddock.base.rng import new_uuid
from paddock.simulator.github.state import (
    Conclusion,
    GitHubState,
    Run,
    Sighting,
    SimulatedJob,
    SimulatedRepository,
    SimulatedRunner,
)
from paddock.simulator.github.steps import close, steps_for
from paddock.simulator.github.timers import Timers

__all__ = ["JobQueue"]

_FORGOTTEN_AFTER = 3600.0  # lists that lag still show a runner that has left


class JobQueue:
    """Owns jobs and runners. `announce` is told of every event of a job, `stir` of every change at all.

    `nudge[runner_id]` is called when something happens to that runner: an offer, a cancellation, its removal.
    """

    def __init__(
        self,
        state: GitHubState,
        clock: Clock,
        rng: random.Random,
        announce: Callable[[SimulatedJob, str, datetime], None],
        stir: Callable[[], None],
    ) -> None:
        self.state = state
        self.timers = Timers()
        self.nudge: dict[int, Callable[[], None]] = {}
        self._clock = clock
        self._rng = rng
        self._announce = announce
        self._stir = stir
        self._ready: dict[int, None] = {}
        self._idle: dict[tuple[str, int, frozenset[str], int], dict[int, None]] = {}
        self._completed: deque[SimulatedJob] = deque()
        self._restore()

    def _restore(self) -> None:
        """Take up a saved state. The runner processes of that time are gone, and their jobs with them."""
        now = self._clock.now()
        for runner in list(self.state.runners.values()):
            if runner.removed:
                self.timers.at(now + self._pace(_FORGOTTEN_AFTER), partial(self._forget_runner, runner))
                continue
            self._drop_if_unused(runner, self._unused_until(runner))
            if runner.online:
                self.disconnect(runner, now)
        for job in self.state.jobs.values():
            if job.status == "queued" and (not job.scale_set_id or job.assigned_at is not None):
                job.offered_to = 0
                self._await_runner(job, job.assignable_at or now)
            elif job.status == "waiting":
                limit = job.created_at + timedelta(seconds=self.state.behaviour.approval_limit)
                self.timers.at(limit, partial(self.reject, job), partial(_held, job))
            elif job.lost_since is not None:
                self._fail_if_lost(job, job.lost_since)
        over = (job for job in self.state.jobs.values() if job.completed_at is not None)
        self._completed.extend(sorted(over, key=lambda job: job.completed_at or now))

    # Time

    def settle(self) -> datetime:
        """Let everything happen that has fallen due; returns the present moment."""
        now = self._clock.now()
        for moment, act in self.timers.due(now):
            act(moment)
        while self._completed and self._over_long(self._completed[0], now):
            self.forget(self._completed.popleft())
        return now

    def _pace(self, seconds: float) -> timedelta:
        return timedelta(seconds=seconds / self.state.behaviour.speed)

    def _soon(self, now: datetime) -> datetime:
        return now + self._pace(self._rng.uniform(*self.state.behaviour.assignment))

    # Jobs

    def submit(
        self, run: Run, *, name: str, labels: Iterable[str], duration: float, planned: Conclusion
    ) -> SimulatedJob:
        now = self.settle()
        job = SimulatedJob(
            id=self.state.fresh_id(self._rng.randint(1, 400)),
            run_id=run.id,
            repository=run.repository,
            name=name,
            labels=list(labels),
            created_at=now,
            duration=duration / self.state.behaviour.speed,
            planned=planned,
            steps=steps_for(name),
        )
        self.state.jobs[job.id] = job
        run.jobs.append(job.id)
        return job

    def enqueue(self, job: SimulatedJob, now: datetime) -> None:
        job.status, job.queued_at = "queued", now
        self._announce(job, "queued", now)
        if not job.scale_set_id:  # else it waits until the set is assigned it
            self._await_runner(job, self._soon(now))
        self._stir()

    def release(self, job: SimulatedJob, now: datetime) -> None:
        """A scale set was assigned the job: its runners may be offered it."""
        self._await_runner(job, self._soon(now))
        self._stir()

    def withhold(self, job: SimulatedJob) -> None:
        """No runner is offered the job until it is released."""
        self._ready.pop(job.id, None)
        self._withdraw(job)

    def hold(self, job: SimulatedJob, now: datetime) -> None:
        """The job waits for somebody's approval."""
        job.status = "waiting"
        behaviour = self.state.behaviour
        if behaviour.queued_before_approval > 0 and self._rng.random() < behaviour.queued_before_approval:
            self._announce(job, "queued", now)
        self._announce(job, "waiting", now)
        limit = now + timedelta(seconds=behaviour.approval_limit)
        self.timers.at(limit, partial(self.reject, job), partial(_held, job))
        self._stir()

    def reject(self, job: SimulatedJob, now: datetime) -> None:
        """Nobody lets the job into the queue: it fails without having begun."""
        if job.status == "waiting":
            self.complete(job, "failure", now)

    def cancel(self, job: SimulatedJob, now: datetime) -> None:
        """Ask for the end of a job: at once while it waits, when its runner obeys (or a while later) once it runs."""
        if job.status in {"queued", "waiting"}:
            self.complete(job, "cancelled", now)
        elif job.status == "in_progress" and job.cancelled_at is None:
            job.cancelled_at = now
            self._give_up_at(job, now + self._pace(self.state.behaviour.cancel_grace))
            self._nudge(job.runner_id)

    def complete(self, job: SimulatedJob, conclusion: Conclusion, now: datetime) -> None:
        """The end of a job; its runner, if it had one, served only this one and is gone."""
        if job.status == "completed":
            return
        job.status, job.conclusion, job.completed_at = "completed", conclusion, now
        self._ready.pop(job.id, None)
        self._withdraw(job)
        close(job.steps, conclusion, now)
        if job.id in self.state.jobs:  # of a job that was forgotten in the middle of its run nothing is told
            self._announce(job, "completed", now)
            self._completed.append(job)
        if (runner := self.state.runners.get(job.runner_id)) is not None:
            runner.job_id = 0
            self.remove(runner, now)
        self._stir()

    def _await_runner(self, job: SimulatedJob, moment: datetime) -> None:
        job.assignable_at = moment
        self.timers.at(moment, partial(self._offer, job), partial(_waits, job))
        limit = (job.queued_at or job.created_at) + timedelta(seconds=self.state.behaviour.queue_limit)
        self.timers.at(limit, partial(self._tire, job), partial(_waits, job))

    def _give_up_at(self, job: SimulatedJob, moment: datetime) -> None:
        self.timers.at(moment, partial(self._give_up, job), partial(_goes_on, job))

    def _fail_if_lost(self, job: SimulatedJob, since: datetime) -> None:
        moment = since + self._pace(self.state.behaviour.lost_runner)
        self.timers.at(moment, partial(self._lost, job), partial(_goes_on, job))

    def _tire(self, job: SimulatedJob, now: datetime) -> None:
        if job.status == "queued":
            self.complete(job, "cancelled", now)

    def _give_up(self, job: SimulatedJob, now: datetime) -> None:
        self.complete(job, "cancelled", now)

    def _lost(self, job: SimulatedJob, now: datetime) -> None:
        if job.status == "in_progress" and job.lost_since is not None:
            self.complete(job, "failure", now)

    def _over_long(self, job: SimulatedJob, now: datetime) -> bool:
        kept = timedelta(seconds=self.state.behaviour.job_kept)
        return len(self._completed) > self.state.behaviour.jobs_kept or (job.completed_at or now) + kept <= now

    def forget(self, job: SimulatedJob) -> None:
        """GitHub knows the job no more, whatever it does."""
        if self.state.jobs.pop(job.id, None) is None:
            return
        self._ready.pop(job.id, None)
        self._withdraw(job)
        if job.status != "in_progress":
            job.status = "completed"  # so that no timer takes it up again
        run = self.state.runs[job.run_id]
        run.jobs.remove(job.id)
        if not run.jobs:
            del self.state.runs[run.id]

    # Offers

    def _offer(self, job: SimulatedJob, now: datetime) -> None:
        """Offer a waiting job to one of the idle runners that fit, drawn by lot."""
        if job.status != "queued" or job.offered_to or (job.scale_set_id and job.assigned_at is None):
            return
        self._ready[job.id] = None
        repository = self.state.repository(job.repository)
        wanted = _lowered(job.labels)
        fitting = [
            runner_id
            for (place, group_id, offered, scale_set_id), idle in self._idle.items()
            if repository is not None
            and scale_set_id == job.scale_set_id
            and wanted <= offered
            and self.sees(place, group_id, repository)
            for runner_id in idle
        ]
        if fitting:
            self._make_offer(job, self.state.runners[self._rng.choice(fitting)], now)

    def _seek(self, runner: SimulatedRunner, now: datetime) -> None:
        """Offer the oldest waiting job that fits to a runner that has nothing to do."""
        if not runner.online or runner.busy or runner.removed or runner.delisted or runner.deaf:
            return
        offered = _lowered(runner.labels)
        for job_id in self._ready:
            job = self.state.jobs[job_id]
            repository = self.state.repository(job.repository)
            if job.scale_set_id != runner.scale_set_id:
                continue
            if job.offered_to or repository is None or not self.sees(runner.place, runner.group_id, repository):
                continue
            if _lowered(job.labels) <= offered:
                self._make_offer(job, runner, now)
                return
        self._idle.setdefault((runner.place, runner.group_id, offered, runner.scale_set_id), {})[runner.id] = None

    def _make_offer(self, job: SimulatedJob, runner: SimulatedRunner, now: datetime) -> None:
        self._not_idle(runner)
        job.offered_to, runner.job_id = runner.id, job.id
        self._sighted(runner, now)
        until = now + self._pace(self.state.behaviour.offer_life)
        self.timers.at(until, partial(self._expire_offer, job, runner), partial(_waits, job))
        self._nudge(runner.id)

    def _expire_offer(self, job: SimulatedJob, runner: SimulatedRunner, now: datetime) -> None:
        if job.status == "queued" and job.offered_to == runner.id:
            runner.deaf = True
            self._withdraw(job)
            self._sighted(runner, now)
            self._offer(job, now)
            self._stir()

    def _withdraw(self, job: SimulatedJob) -> None:
        """Take back the offer of a job, if there is one. A job that is to go to nobody is no longer ready by then."""
        runner = self.state.runners.get(job.offered_to)
        job.offered_to = 0
        if runner is not None and runner.job_id == job.id:
            runner.job_id = 0
            if not runner.deaf:
                self._seek(runner, self._clock.now())

    def move(self, former: str, place: str) -> None:
        """Runners registered at a place are at this one from now on: its owner or its repository has another name."""
        self.state.names[place] = self.state.names.pop(former, {})
        for runner in self.state.runners.values():
            if runner.place == former:
                runner.place = place
        for key in [key for key in self._idle if key[0] == former]:
            self._idle[place, *key[1:]] = self._idle.pop(key)

    def sees(self, place: str, group_id: int, repository: SimulatedRepository) -> bool:
        """Whether a runner registered there, in that group, serves that repository."""
        if place.lower() == f"repos/{repository.full_name}".lower():
            return True
        owner = self.state.account(repository.owner)
        group = owner.group(group_id) if owner is not None else None
        return place.lower() == f"orgs/{repository.owner}".lower() and group is not None and group.open_to(repository)

    # Runners

    def mint(self, place: str, name: str, labels: list[str], now: datetime, group_id: int = 1) -> SimulatedRunner:
        runner = SimulatedRunner(
            id=self.state.fresh_id(self._rng.randint(1, 9)),
            name=name,
            place=place,
            group_id=group_id,
            labels=labels,
            credential=new_uuid(self._rng),
            created_at=now,
        )
        self.state.runners[runner.id] = runner
        self.state.names.setdefault(place, {})[name.lower()] = runner.id
        self._sighted(runner, now)
        self._drop_if_unused(runner, self._unused_until(runner))
        self._stir()
        return runner

    def connect(self, runner: SimulatedRunner, now: datetime) -> None:
        runner.used = runner.online = True
        words = _lowered(runner.labels)
        runner.os = "macos" if "macos" in words else ("windows" if "windows" in words else "linux")
        runner.assignable_at = self._soon(now)
        self._sighted(runner, now)
        self.timers.at(runner.assignable_at, partial(self._seek, runner))
        self._stir()

    def accept(self, runner: SimulatedRunner, now: datetime) -> SimulatedJob | None:
        """The job offered to the runner, which now runs it; None where there is no offer."""
        job = self.state.jobs.get(runner.job_id)
        if job is None or job.offered_to != runner.id:
            if runner.deaf:
                runner.deaf = False
                self._seek(runner, now)
            return None
        self._ready.pop(job.id, None)
        job.offered_to = 0
        job.status, job.started_at = "in_progress", now
        job.starts += 1
        job.runner_id, job.runner_name = runner.id, runner.name
        job.steps[0].started_at = now
        behaviour = self.state.behaviour
        if behaviour.flapping > 0 and self._rng.random() < behaviour.flapping:
            job.flapping_until = now + self._pace(behaviour.flap_for)
        self._announce(job, "in_progress", now)
        self._give_up_at(job, now + self._pace(behaviour.job_limit))
        self._stir()
        return job

    def disconnect(self, runner: SimulatedRunner, now: datetime) -> None:
        """The runner's process is gone, whatever it did."""
        if not runner.online:
            return
        runner.online = False
        self._not_idle(runner)
        job = self.state.jobs.get(runner.job_id)
        if job is not None and job.status == "in_progress":
            job.lost_since = now
            self._fail_if_lost(job, now)
        elif job is not None:
            self._withdraw(job)
            self._offer(job, now)
        else:
            runner.job_id = 0
        self._sighted(runner, now)
        self._stir()

    def remove(self, runner: SimulatedRunner, now: datetime) -> None:
        """Unregister a runner that has nothing to do."""
        if runner.removed:
            return
        self._not_idle(runner)
        self._free_name(runner)
        runner.removed, runner.online = True, False
        self._sighted(runner, now)
        self.timers.at(now + self._pace(_FORGOTTEN_AFTER), partial(self._forget_runner, runner))
        self._nudge(runner.id)

    def delist(self, runner: SimulatedRunner, now: datetime) -> None:
        """GitHub no longer shows the runner and offers it nothing, though its process lives and its job goes on."""
        runner.delisted = True
        self._not_idle(runner)
        self._sighted(runner, now)

    def _unused_until(self, runner: SimulatedRunner) -> datetime:
        return runner.created_at + timedelta(seconds=self.state.behaviour.unused_runner)

    def _drop_if_unused(self, runner: SimulatedRunner, moment: datetime) -> None:
        self.timers.at(moment, partial(self._drop_unused, runner), lambda: not runner.removed)

    def _drop_unused(self, runner: SimulatedRunner, now: datetime) -> None:
        if runner.removed:
            return
        if runner.online or runner.busy:
            self._drop_if_unused(runner, now + timedelta(seconds=self.state.behaviour.unused_runner))
        else:
            self.remove(runner, now)

    def _forget_runner(self, runner: SimulatedRunner, now: datetime) -> None:
        del now
        self.state.runners.pop(runner.id, None)
        self._free_name(runner)

    def _free_name(self, runner: SimulatedRunner) -> None:
        """A name is taken for as long as its runner is registered, and no longer."""
        names = self.state.names.get(runner.place, {})
        if names.get(runner.name.lower()) == runner.id:
            del names[runner.name.lower()]

    def _not_idle(self, runner: SimulatedRunner) -> None:
        key = (runner.place, runner.group_id, _lowered(runner.labels), runner.scale_set_id)
        if (group := self._idle.get(key)) is not None:
            group.pop(runner.id, None)
            if not group:
                del self._idle[key]

    def _sighted(self, runner: SimulatedRunner, now: datetime) -> None:
        gone = runner.removed or runner.delisted
        runner.observations.append(Sighting(at=now, online=runner.online, busy=runner.busy, gone=gone))

    def _nudge(self, runner_id: int) -> None:
        if (call := self.nudge.get(runner_id)) is not None:
            call()


def _waits(job: SimulatedJob) -> bool:
    return job.status == "queued"


def _held(job: SimulatedJob) -> bool:
    return job.status == "waiting"


def _goes_on(job: SimulatedJob) -> bool:
    return job.status != "completed"


def _lowered(labels: Iterable[str]) -> frozenset[str]:
    return frozenset(label.lower() for label in labels)
