"""The runner program's side of GitHub: what a simulated Pod does with the JIT config it was handed."""

import asyncio
from collections.abc import Callable

import msgspec

from paddock.base.clock import Clock
from paddock.simulator.errors import SimulationError
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.state import Conclusion, SimulatedJob, SimulatedRunner
from paddock.simulator.github.steps import advance
from paddock.simulator.github.wire import credential_in
from paddock.simulator.service.pause import pause

__all__ = ["Assignment", "RunnerGoneError", "RunnerRefusedError", "RunnerSession", "open_session"]

_SHORTEST_WAIT = 0.001  # a moment that is due within rounding must not become a busy loop


class RunnerRefusedError(SimulationError):
    """GitHub does not accept the JIT config: unknown, used before, or removed meanwhile. The runner program exits."""


class RunnerGoneError(SimulationError):
    """GitHub no longer knows this runner: it was unregistered, or its job is over. The runner program exits."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its runner gets it. It takes `duration` seconds and comes to `conclusion` if nothing disturbs it."""

    job_id: int
    run_id: int
    repository: str
    name: str
    workflow: str
    labels: tuple[str, ...]
    duration: float
    conclusion: Conclusion


class RunnerSession:
    """One runner process, from its connection to its end. It runs one job at most.

    A process that dies must be said to be dead: call `disconnect()`, which is harmless after `finish()`. A process that
    hangs just stops calling.
    """

    def __init__(self, queue: JobQueue, runner: SimulatedRunner, clock: Clock, driven: Callable[[], bool]) -> None:
        self._queue = queue
        self._runner = runner
        self._clock = clock
        self._driven = driven
        self._nudged = asyncio.Event()
        self._job: SimulatedJob | None = None
        self._closed = False
        queue.nudge[runner.id] = self._nudged.set

    def __repr__(self) -> str:
        return f"RunnerSession({self._runner.name!r}, job={self._job.id if self._job else None})"

    @property
    def runner_id(self) -> int:
        return self._runner.id

    @property
    def name(self) -> str:
        return self._runner.name

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked for the end of the job, or GitHub has given it up already."""
        job = self._job
        return job is not None and (job.cancelled_at is not None or job.status == "completed")

    async def next_job(self, timeout: float) -> Assignment | None:
        """The job that GitHub gave this runner, or None after `timeout` seconds without one.

        Raises RunnerGoneError once the runner is unregistered. A runner has one job in its life.
        """
        deadline = self._clock.monotonic() + timeout
        while True:
            self._nudged.clear()
            now = self._queue.settle()
            if self._closed or self._runner.removed or self._job is not None:
                raise RunnerGoneError(f"runner {self._runner.name} is no longer registered")
            if (job := self._queue.accept(self._runner, now)) is not None:
                self._job = job
                return self._assignment(job)
            left = deadline - self._clock.monotonic()
            if left <= 0:
                return None
            await pause(self._clock, self._nudged, self._nap(left))

    def progress(self) -> None:
        """One more step of the job is done."""
        now = self._queue.settle()
        if not self._closed and self._job is not None and self._job.status == "in_progress":
            advance(self._job.steps, now)

    def finish(self, conclusion: Conclusion | None = None) -> None:
        """The job is over and the process ends; without a conclusion, with the one it was planned to have.

        For a job that GitHub has given up meanwhile this changes nothing.
        """
        now = self._queue.settle()
        if self._closed or self._job is None:
            return
        job = self._job
        if job.status == "in_progress" and job.lost_since is None:
            ending = "cancelled" if job.cancelled_at is not None else conclusion or job.planned
            while ending == "success" and job.steps[-1].completed_at is None:
                advance(job.steps, now)
            self._queue.complete(job, ending, now)
        self._close()

    def disconnect(self) -> None:
        """The process is gone, with or without a job. A job in progress fails once GitHub has waited long enough."""
        now = self._queue.settle()
        if not self._closed:
            self._queue.disconnect(self._runner, now)
            self._close()

    def cut_off(self) -> None:
        """GitHub's broker is away, or the way to it: the process lives, and GitHub sees it no more."""
        now = self._queue.settle()
        if not self._closed:
            self._queue.disconnect(self._runner, now)

    def reach_again(self) -> bool:
        """The broker is back; False where GitHub does not know this runner any more, whose process then exits."""
        now = self._queue.settle()
        if self._closed or self._runner.removed:
            self._close()
            return False
        if not self._runner.online:
            self._queue.connect(self._runner, now)
        return True

    async def run_one(self, timeout: float) -> Conclusion | None:
        """Wait for a job, run it for as long as it takes, and end; None where none came within `timeout`."""
        assignment = await self.next_job(timeout)
        if assignment is None:
            return None
        assert self._job is not None
        parts = len(self._job.steps)
        for _ in range(parts):
            self._nudged.clear()
            await pause(self._clock, self._nudged, assignment.duration / parts)
            if self.cancelled:
                break
            self.progress()
        self.finish()
        return self._job.conclusion

    def _assignment(self, job: SimulatedJob) -> Assignment:
        return Assignment(
            job_id=job.id,
            run_id=job.run_id,
            repository=job.repository,
            name=job.name,
            workflow=self._queue.state.runs[job.run_id].workflow,
            labels=tuple(job.labels),
            duration=job.duration,
            conclusion=job.planned,
        )

    def _nap(self, left: float) -> float:
        """How long to wait before looking again: while nobody else drives GitHub, until its next change."""
        moment = None if self._driven() else self._queue.timers.next_moment()
        if moment is None:
            return left
        return min(left, max(_SHORTEST_WAIT, (moment - self._clock.now()).total_seconds()))

    def _close(self) -> None:
        self._closed = True
        self._queue.nudge.pop(self._runner.id, None)


def open_session(queue: JobQueue, encoded: str, clock: Clock, driven: Callable[[], bool]) -> RunnerSession:
    """Bring the runner of this JIT config online; raises RunnerRefusedError."""
    now = queue.settle()
    try:
        credential = credential_in(encoded)
    except ValueError as error:
        raise RunnerRefusedError(str(error)) from None
    # The newest first: whoever connects was minted a moment ago.
    newest = reversed(queue.state.runners.values())
    runner = next((each for each in newest if each.credential == credential), None)
    if runner is None or runner.removed:
        raise RunnerRefusedError("the runner of this JIT config is not registered any more")
    if runner.used:
        raise RunnerRefusedError(f"the JIT config of runner {runner.name} was used before")
    queue.connect(runner, now)
    return RunnerSession(queue, runner, clock, driven)
