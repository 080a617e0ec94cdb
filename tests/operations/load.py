"""Load that never ends: as soon as a job is taken the next one waits, so that every place on every Mac is wanted."""

import random
from collections.abc import Sequence

from operations.world import LABEL, OperationsWorld

from paddock.simulator.github import SimulatedJob

__all__ = ["LONG", "MIXED", "SHORT", "Load"]

SHORT, LONG = (60.0, 120.0), (600.0, 900.0)
MIXED = (SHORT, SHORT, SHORT, LONG)
_LOOK_EVERY = 5.0


class Load:
    """`kinds` are ranges of seconds that jobs take, one drawn for each."""

    def __init__(
        self, world: OperationsWorld, rng: random.Random, kinds: Sequence[tuple[float, float]] = MIXED
    ) -> None:
        self._world, self._rng, self.kinds = world, rng, kinds
        self.labels: list[str] = [LABEL]
        self.ahead = 1
        self.jobs: list[SimulatedJob] = []

    async def run(self) -> None:
        while True:
            for label in self.labels:
                waiting = sum(job.status == "queued" and label in job.labels for job in self.open())
                for _ in range(self.ahead - waiting):
                    self.submit(self._rng.uniform(*self._rng.choice(self.kinds)), label)
            await self._world.clock.sleep(_LOOK_EVERY)

    def submit(self, seconds: float, label: str = LABEL) -> SimulatedJob:
        job = self._world.github.submit("acme/app", labels=(label,), duration=seconds, name=f"job {len(self.jobs)}")
        self.jobs.append(job)
        return job

    def open(self) -> list[SimulatedJob]:
        """The jobs that have not ended, as GitHub sees them."""
        return [job for job in self.jobs if job.status != "completed"]

    def running(self) -> list[SimulatedJob]:
        return [job for job in self.jobs if job.status == "in_progress"]
