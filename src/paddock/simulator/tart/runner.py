"""GitHub's runner inside a simulated VM: connects with the JIT config it was handed, runs one job, and ends."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from paddock.base.clock import Clock
from paddock.node.guest import RUNNER_TOO_OLD
from paddock.simulator.github.sessions import RunnerGoneError, RunnerRefusedError, RunnerSession
from paddock.simulator.pods import Hang, RunnerFaults, RunnerPace
from paddock.simulator.process_life import current_life

__all__ = ["SimulatedRunner"]

_PARTS = 8


@dataclass
class SimulatedRunner:
    """A `RunnerProgram`. `connect` brings the runner of a JIT config online at the simulated GitHub.

    A VM that loses its power loses its connection: GitHub notices, as it would.
    """

    connect: Callable[[str], RunnerSession]
    clock: Clock
    rng: random.Random
    pace: RunnerPace = field(default_factory=RunnerPace)
    runner_faults: RunnerFaults = field(default_factory=RunnerFaults)

    async def __call__(self, config: str, stage: Callable[[str], None]) -> int:
        mishap = self.runner_faults.take(*(kind for kind in Hang if kind is not Hang.LOSES_ANSWER))
        stage("starting")
        if mishap is Hang.NEVER_REGISTERS:
            await self.clock.sleep(float("inf"))
        await self.clock.sleep(self.pace.scaled(self.pace.register * self.rng.uniform(0.7, 1.6)))
        if mishap is Hang.TOO_OLD:
            return RUNNER_TOO_OLD
        while mishap is Hang.RETRIES_NOISILY:
            # It cannot connect, and each retry is a line in its log: the mark moves for ever, and no worker comes.
            stage("listening")
            await self.clock.sleep(max(1.0, self.pace.scaled(self.pace.register)))
        try:
            session = self.connect(config)
        except RunnerRefusedError:
            return 1
        life = current_life()
        withdraw = life.on_end(session.disconnect) if life is not None else None
        try:
            return await self._job(session, mishap, stage)
        except RunnerGoneError:
            return 1
        finally:
            session.disconnect()
            if withdraw is not None:
                withdraw()

    async def _job(self, session: RunnerSession, mishap: Hang | None, stage: Callable[[str], None]) -> int:
        stage("listening")
        job = await session.next_job(self.pace.scaled(self.pace.idle))
        if job is None:
            return 0
        stage("running")
        if mishap is Hang.DIES_IN_JOB:
            return 137
        if mishap is Hang.STANDS_STILL:
            await self.clock.sleep(float("inf"))
        for _ in range(_PARTS):
            await self.clock.sleep(job.duration / _PARTS)
            session.progress()
            stage("running")
            if session.cancelled:
                break
        session.finish()
        if mishap is Hang.HANGS_AFTER_JOB:
            await self.clock.sleep(float("inf"))
        return 0
