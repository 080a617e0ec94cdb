"""GitHub's client with answers that a test writes down, for the states and refusals that the simulator cannot give on demand."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any

from paddock.base.secrets import Secret
from paddock.clients.github import (
    BudgetView,
    Conflict,
    GitHubError,
    GitHubJob,
    GitHubRepository,
    GitHubRunner,
    HookDelivery,
    Installation,
    MintedRunner,
    NotFound,
    Priority,
    RunnerPlace,
    RunnerScope,
    Unavailable,
)

MARK = "JITMARKJITMARKJIT"
"""In every runner's config, so that a test can look for a config where none may be."""


class StubGitHub:
    """Keeps `GitHub`'s contract from tables. An exception in a table is raised; `broken` makes every question fail.

    What is in no table is not found, unless `unknown_jobs` names the status of such jobs or `unknown_places` is true: then
    a place that is not in `places` has no runner.
    """

    def __init__(
        self, *installations: Installation, unknown_jobs: Any = None, unknown_places: bool = False, mints: bool = True
    ) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.priorities: set[Priority] = set()
        """With which questions about jobs were asked."""
        self.broken = False
        self.jobs: dict[int, GitHubJob | GitHubError] = {}
        self.waiting: dict[str, list[GitHubJob] | GitHubError] = {}
        self.places: dict[str, list[GitHubRunner] | GitHubError] = {}
        self.repositories: dict[str, GitHubRepository | GitHubError] = {}
        self.attempts: list[HookDelivery] | GitHubError = []
        self.refusals: dict[int, GitHubError] = {}
        """Raised when this runner is to be removed, or this delivery repeated."""
        self.assigns: set[str] = set()
        """Runners that are given a job between the look and the removal, which GitHub then refuses."""
        self.redelivered: list[int] = []
        self.removed: list[int] = []
        self.minted: list[dict[str, object]] = []
        """What each runner was minted with, in order; `registered` are those that were not removed since."""
        self.registered: dict[int, MintedRunner] = {}
        self.mint_failures: list[GitHubError] = []
        """Raised by the next mints, one each."""
        self.before_mint: Callable[[], Awaitable[None]] | None = None
        self.mint_delay = 0.0
        self._installations = installations
        self._unknown_jobs = unknown_jobs
        self._unknown_places = unknown_places
        self._mints = mints
        self._numbers = itertools.count(1)
        self._names: set[str] = set()

    # What the test says

    def says(self, job_id: int, status: Any, **more: Any) -> None:
        self.jobs[job_id] = GitHubJob(job_id=job_id, status=status, **more)

    def show(self, path: str, row: GitHubRunner) -> None:
        """This place lists this runner; an earlier row of its name is gone."""
        self.hide(path, row.name)
        self.places[path] = [*self._rows(path), row]

    def hide(self, path: str, name: str) -> None:
        self.places[path] = [row for row in self._rows(path) if row.name != name]

    def asked(self, what: str) -> int:
        return sum(call[0] == what for call in self.calls)

    def _rows(self, path: str) -> list[GitHubRunner]:
        return _given(self.places.get(path, []))

    # What is asked

    async def mint(
        self,
        installation_id: int,
        repository: str,
        *,
        name: str,
        labels: Sequence[str],
        work_folder: str,
        group: str = "",
        scope: RunnerScope = "auto",
    ) -> MintedRunner:
        assert self._mints, "no runner may be minted here"
        if self.before_mint is not None:
            await self.before_mint()
        if self.mint_delay:
            await asyncio.sleep(self.mint_delay)
        if self.mint_failures:
            raise self.mint_failures.pop(0)
        assert name not in self._names, "a runner's name is never used twice"
        assert len(name) <= 64
        self._names.add(name)
        owner = repository.partition("/")[0]
        runner = MintedRunner(next(self._numbers), name, RunnerPlace(installation_id, owner), Secret(f"{MARK}-{name}"))
        self.registered[runner.runner_id] = runner
        self.minted.append(
            {
                "installation": installation_id,
                "repository": repository,
                "name": name,
                "labels": tuple(labels),
                "work_folder": work_folder,
                "group": group,
                "scope": scope,
            }
        )
        return runner

    async def repository(self, installation_id: int, repository: str) -> GitHubRepository:
        self._asked("repository", repository)
        return _given(self.repositories.get(repository, NotFound(repository, status=404)))

    async def job(
        self, installation_id: int, repository: str, job_id: int, *, priority: Priority = Priority.VERIFY
    ) -> GitHubJob:
        self.priorities.add(priority)
        self._asked("job", job_id)
        if job_id not in self.jobs and self._unknown_jobs is not None:
            return GitHubJob(job_id=job_id, status=self._unknown_jobs)
        return _given(self.jobs.get(job_id, NotFound(f"job {job_id}", status=404)))

    async def run_jobs(self, installation_id: int, repository: str, run_id: int) -> list[GitHubJob]:
        self._asked("run_jobs", run_id)
        found = [_given(job) for job in self.jobs.values()]
        return [job for job in found if job.run_id == run_id]

    async def waiting_jobs(self, installation_id: int, repository: str) -> list[GitHubJob]:
        self._asked("waiting_jobs", repository)
        return _given(self.waiting.get(repository, NotFound(repository, status=404)))

    async def runners(self, place: RunnerPlace) -> list[GitHubRunner]:
        self._asked("runners", place.path)
        if place.path not in self.places and self._unknown_places:
            return []
        return _given(self.places.get(place.path, NotFound(place.path, status=404)))

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:
        self._asked("remove_runner", runner_id)
        if runner_id in self.refusals:
            raise self.refusals[runner_id]
        here = self.places.get(place.path, [])
        if isinstance(here, list) and any(
            row.runner_id == runner_id and (row.busy or row.name in self.assigns) for row in here
        ):
            raise Conflict("Runner is running a job", status=422)
        self.registered.pop(runner_id, None)
        if isinstance(here, list) and any(row.runner_id == runner_id for row in here):
            self.removed.append(runner_id)
            self.places[place.path] = [row for row in here if row.runner_id != runner_id]

    async def deliveries(self, since: datetime) -> list[HookDelivery]:
        self._asked("deliveries", since)
        found = [one for one in _given(self.attempts) if one.delivered_at >= since]
        return sorted(found, key=lambda one: one.delivered_at, reverse=True)

    async def redeliver(self, delivery_id: int) -> None:
        self._asked("redeliver", delivery_id)
        if delivery_id in self.refusals:
            raise self.refusals[delivery_id]
        self.redelivered.append(delivery_id)

    def install(self, *installations: Installation) -> None:
        """Where the App is installed from now on."""
        self._installations = installations

    async def installations(self) -> list[Installation]:
        return list(self._installations)

    def budgets(self) -> list[BudgetView]:
        return []

    def _asked(self, what: str, about: object) -> None:
        self.calls.append((what, about))
        if self.broken:
            raise Unavailable("GitHub is away", status=503)


def _given(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer
