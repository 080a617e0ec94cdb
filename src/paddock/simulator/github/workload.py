"""A believable stream of jobs, for a fleet that somebody watches."""

import random
from collections.abc import Sequence

from paddock.base.clock import Clock
from paddock.simulator.github.github import SimulatedGitHub
from paddock.simulator.github.state import Conclusion, SimulatedJob

__all__ = ["Workload"]

# workflow, jobs of one run, typical minutes of each
_WORKFLOWS: tuple[tuple[str, tuple[str, ...], float], ...] = (
    ("CI", ("test-ios",), 6.0),
    ("CI", ("lint", "build-ios", "test-ios"), 4.0),
    ("CI", ("test-ios (iPhone 17)", "test-ios (iPad Pro)", "test-macos"), 7.0),
    ("Pull request", ("build-ios", "ui-tests"), 5.0),
    ("Snapshot tests", ("snapshots",), 3.0),
    ("Release", ("archive",), 11.0),
    ("Nightly", ("ui-tests (1)", "ui-tests (2)", "ui-tests (3)", "ui-tests (4)"), 9.0),
)
_BRANCHES = ("main", "main", "develop", "fix/flaky-login", "feature/onboarding", "feature/dark-mode", "release/4.2")
_SHORTEST, _LONGEST = 40.0, 25 * 60.0


class Workload:
    """Submits runs of one to four jobs to the given repositories, as people would who push to them.

    `rate` is in jobs a minute, on average; time and durations are divided by GitHub's speed. While `pending_limit` jobs
    wait for a runner nothing is added, so that a fleet that stands still does not drown.
    """

    def __init__(
        self,
        github: SimulatedGitHub,
        rng: random.Random,
        clock: Clock,
        *,
        repos: Sequence[str],
        labels: Sequence[str],
        rate: float,
        pending_limit: int = 25,
        failing: float = 0.07,
    ) -> None:
        if not repos or not labels:
            raise ValueError("a workload needs at least one repository and one label")
        if rate <= 0:
            raise ValueError(f"the rate is in jobs a minute and above zero, not {rate}")
        self._github = github
        self._rng = rng
        self._clock = clock
        self._repos = tuple(repos)
        self._labels = tuple(labels)
        self._rate = rate
        self._pending_limit = pending_limit
        self._failing = failing

    async def run(self) -> None:
        """Submit for ever; cancel it to stop."""
        while True:
            submitted = len(self.submit_run()) if self._github.pending() < self._pending_limit else 1
            mean = 60.0 * submitted / self._rate
            # Bounded, so that a watcher never takes a quiet minute for a fault.
            gap = min(self._rng.expovariate(1.0 / mean), 3 * mean)
            await self._clock.sleep(gap / self._github.behaviour.speed)

    def submit_run(self) -> list[SimulatedJob]:
        """One run, now. The first repositories are the busiest."""
        weights = [1.0 / rank for rank in range(1, len(self._repos) + 1)]
        repository = self._rng.choices(self._repos, weights)[0]
        workflow, names, minutes = self._rng.choice(_WORKFLOWS)
        branch = "main" if workflow in {"Nightly", "Release"} else self._rng.choice(_BRANCHES)
        jobs: list[SimulatedJob] = []
        for name in names:
            job = self._github.submit(
                repository,
                labels=self._labels,
                duration=self._duration(minutes),
                name=name,
                workflow=workflow,
                branch=branch,
                conclusion=self._conclusion(),
                run_id=jobs[0].run_id if jobs else None,
            )
            jobs.append(job)
        return jobs

    def _duration(self, minutes: float) -> float:
        return min(max(60.0 * minutes * self._rng.lognormvariate(0.0, 0.35), _SHORTEST), _LONGEST)

    def _conclusion(self) -> Conclusion:
        return "failure" if self._rng.random() < self._failing else "success"
