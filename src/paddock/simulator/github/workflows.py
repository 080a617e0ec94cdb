"""Runs and their jobs, as people start, approve, cancel and repeat them."""

import random
from collections.abc import Iterable
from datetime import datetime, timedelta

from paddock.base.clock import Clock
from paddock.simulator.github.accounts import Accounts
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.state import Conclusion, Run, SimulatedJob, SimulatedRepository

__all__ = ["Workflows"]


class Workflows:
    """What happens to a job that was let into the queue is the queue's."""

    def __init__(self, queue: JobQueue, accounts: Accounts, clock: Clock, rng: random.Random) -> None:
        self._state = queue.state
        self._queue = queue
        self._accounts = accounts
        self._clock = clock
        self._rng = rng

    def submit(
        self,
        repository: str,
        *,
        labels: Iterable[str],
        duration: float = 300.0,
        name: str = "build",
        workflow: str = "CI",
        branch: str = "main",
        conclusion: Conclusion = "success",
        run_id: int | None = None,
        waiting: bool = False,
        environment: str = "",
    ) -> SimulatedJob:
        """A new job, in a run of its own or in the given one. `duration` is divided by the speed.

        With `waiting`, or for an environment that is protected (`protect`), it needs an `approve()` before it is queued.
        """
        known = self._accounts.repository(repository)
        now = self._queue.settle()
        run = self._new_run(known, workflow, branch, now) if run_id is None else self._state.runs[run_id]
        job = self._queue.submit(run, name=name, labels=labels, duration=duration, planned=conclusion)
        job.environment = environment
        if waiting or environment in known.protected:
            self._queue.hold(job, now)
        else:
            self._queue.enqueue(job, now)
        return job

    def rerun(self, job_id: int) -> SimulatedJob:
        """Somebody runs a job that is over again: another job, in the next attempt of its run."""
        former = self.job(job_id)
        self._state.runs[former.run_id].attempt += 1
        return self.submit(
            former.repository,
            labels=former.labels,
            duration=former.duration * self._state.behaviour.speed,
            name=former.name,
            run_id=former.run_id,
        )

    def _new_run(self, repository: SimulatedRepository, workflow: str, branch: str, now: datetime) -> Run:
        run = Run(
            id=self._state.fresh_id(self._rng.randint(1, 90)),
            number=len(self._state.runs) + 1,
            repository=repository.full_name,
            workflow=workflow,
            branch=branch,
            sha=f"{self._rng.getrandbits(160):040x}",
            created_at=now,
        )
        self._state.runs[run.id] = run
        return run

    def approve(self, job_id: int) -> None:
        """Let a waiting job into the queue."""
        job = self.job(job_id)
        if job.status == "waiting":
            self._queue.enqueue(job, self._clock.now())

    def reject(self, job_id: int) -> None:
        """Refuse the deployment of a waiting job: it fails, and no runner ever sees it."""
        self._queue.reject(self.job(job_id), self._clock.now())

    def protect(self, repository: str, environment: str) -> None:
        """Jobs of this environment need somebody's approval from now on."""
        self._accounts.repository(repository).protected.append(environment)

    def cancel(self, job_id: int) -> None:
        """Somebody cancels the job: at once while it waits, when its runner obeys once it runs."""
        job = self.job(job_id)
        self._queue.cancel(job, self._clock.now())

    def job(self, job_id: int) -> SimulatedJob:
        """The job as it really is now; raises KeyError for one that GitHub has forgotten."""
        self._queue.settle()
        return self._state.jobs[job_id]

    def pending(self) -> int:
        """How many jobs wait for a runner."""
        self._queue.settle()
        return sum(job.status == "queued" for job in self._state.jobs.values())

    def prune_job(self, job_id: int) -> None:
        """GitHub forgets the job: asking for it answers 404 from now on."""
        self._queue.forget(self.job(job_id))

    def flap(self, job_id: int, seconds: float) -> None:
        """Show a running job as queued, without a runner, for that long."""
        job = self.job(job_id)
        job.flapping_until = self._clock.now() + timedelta(seconds=seconds)
