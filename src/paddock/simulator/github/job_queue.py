"""The life of jobs: which runner is offered what, who takes it, and what becomes of both. `runner_register` has the runners.

A job goes to *any* idle runner that sees its repository and offers all of its labels, whoever the runner was minted for.
Nothing runs in the background: every read and every change first settles what has fallen due, in the order of its moments.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from paddock.base.clock import Clock
from paddock.simulator.github.runner_register import RunnerRegister, lowered
from paddock.simulator.github.state import (
    Conclusion,
    GitHubState,
    Run,
    SimulatedJob,
    SimulatedRunner,
)
from paddock.simulator.github.steps import close, steps_for
from paddock.simulator.github.timers import Timers

__all__ = ["JobQueue"]


class JobQueue:
    """Owns jobs, and the runners through their register. `announce` is told of every event of a job, `stir` of every change at all.

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
        self._register = RunnerRegister(state, self.timers, rng, self._nudge, stir)
        self.mint = self._register.mint
        self.remove = self._register.remove
        self.delist = self._register.delist
        self.move = self._register.move
        self.sees = self._register.sees
        self._completed: deque[SimulatedJob] = deque()
        self._restore()

    def _restore(self) -> None:
        """Take up a saved state. The runner processes of that time are gone, and their jobs with them."""
        now = self._clock.now()
        for runner in list(self.state.runners.values()):
            self._register.restore(runner, now)
            if runner.online and not runner.removed:
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
        fitting = [each for each in self._register.fitting(job) if self._may_have(self.state.runners[each], job)]
        if fitting:
            self._make_offer(job, self.state.runners[self._rng.choice(fitting)], now)

    def deal(self, jobs: Mapping[str, int]) -> None:
        """From now on each runner of a set, by its name, is given this job; those that wait already, at once."""
        self.state.behaviour.dealt, now = dict(jobs), self._clock.now()
        for runner in [one for one in self.state.runners.values() if one.name in jobs and not one.job_id]:
            self._seek(runner, now)

    def _may_have(self, runner: SimulatedRunner, job: SimulatedJob) -> bool:
        dealt = self.state.behaviour.dealt
        return dealt is None or not runner.scale_set_id or dealt.get(runner.name) == job.id

    def _seek(self, runner: SimulatedRunner, now: datetime) -> None:
        """Offer the oldest waiting job that fits to a runner that has nothing to do."""
        if not runner.online or runner.busy or runner.removed or runner.delisted or runner.deaf:
            return
        offered = lowered(runner.labels)
        for job_id in self._ready:
            job = self.state.jobs[job_id]
            repository = self.state.repository(job.repository)
            if job.scale_set_id != runner.scale_set_id or not self._may_have(runner, job):
                continue
            if job.offered_to or repository is None or not self.sees(runner.place, runner.group_id, repository):
                continue
            if lowered(job.labels) <= offered:
                self._make_offer(job, runner, now)
                return
        self._register.idle(runner)

    def _make_offer(self, job: SimulatedJob, runner: SimulatedRunner, now: datetime) -> None:
        self._register.not_idle(runner)
        job.offered_to, runner.job_id = runner.id, job.id
        self._register.sighted(runner, now)
        until = now + self._pace(self.state.behaviour.offer_life)
        self.timers.at(until, partial(self._expire_offer, job, runner), partial(_waits, job))
        self._nudge(runner.id)

    def _expire_offer(self, job: SimulatedJob, runner: SimulatedRunner, now: datetime) -> None:
        if job.status == "queued" and job.offered_to == runner.id:
            runner.deaf = True
            self._withdraw(job)
            self._register.sighted(runner, now)
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

    # Runners

    def connect(self, runner: SimulatedRunner, now: datetime) -> None:
        runner.used = runner.online = True
        words = lowered(runner.labels)
        runner.os = "macos" if "macos" in words else ("windows" if "windows" in words else "linux")
        runner.assignable_at = self._soon(now)
        self._register.sighted(runner, now)
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
        self._register.not_idle(runner)
        job = self.state.jobs.get(runner.job_id)
        if job is not None and job.status == "in_progress":
            job.lost_since = now
            self._fail_if_lost(job, now)
        elif job is not None:
            self._withdraw(job)
            self._offer(job, now)
        else:
            runner.job_id = 0
        self._register.sighted(runner, now)
        self._stir()

    def _nudge(self, runner_id: int) -> None:
        if (call := self.nudge.get(runner_id)) is not None:
            call()


def _waits(job: SimulatedJob) -> bool:
    return job.status == "queued"


def _held(job: SimulatedJob) -> bool:
    return job.status == "waiting"


def _goes_on(job: SimulatedJob) -> bool:
    return job.status != "completed"
