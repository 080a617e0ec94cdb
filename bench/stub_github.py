"""A GitHub that answers at once, so that what is measured is ours; and one whose answers are written down beforehand."""

import itertools
from collections.abc import Sequence
from datetime import datetime

from paddock.base.secrets import Secret
from paddock.clients.github import (
    BudgetView,
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
)

__all__ = ["StubGitHub"]


class StubGitHub:
    """Mints whatever is asked for. Of jobs, runners and deliveries it knows what was put into its dictionaries."""

    def __init__(self) -> None:
        self.jobs: dict[int, GitHubJob] = {}
        self.rows: dict[str, GitHubRunner] = {}
        self.attempts: list[HookDelivery] = []
        self._numbers = itertools.count(1)

    async def mint(
        self,
        installation_id: int,
        repository: str,
        *,
        name: str,
        labels: Sequence[str],  # noqa: ARG002 - a runner's labels matter to GitHub alone
        work_folder: str,  # noqa: ARG002
        group: str = "",  # noqa: ARG002
        scope: RunnerScope = "auto",  # noqa: ARG002
    ) -> MintedRunner:
        place = RunnerPlace(installation_id, repository.partition("/")[0])
        return MintedRunner(next(self._numbers), name, place, Secret(f"config-of-{name}"))

    async def repository(self, installation_id: int, repository: str) -> GitHubRepository:  # noqa: ARG002
        raise NotFound(repository, status=404)

    async def job(
        self,
        installation_id: int,  # noqa: ARG002
        repository: str,  # noqa: ARG002
        job_id: int,
        *,
        priority: Priority = Priority.VERIFY,  # noqa: ARG002
    ) -> GitHubJob:
        if job_id not in self.jobs:
            raise NotFound(f"job {job_id}", status=404)
        return self.jobs[job_id]

    async def run_jobs(self, installation_id: int, repository: str, run_id: int) -> list[GitHubJob]:  # noqa: ARG002
        return []

    async def waiting_jobs(self, installation_id: int, repository: str) -> list[GitHubJob]:  # noqa: ARG002
        return [job for job in self.jobs.values() if job.status == "queued" and job.labels]

    async def runners(self, place: RunnerPlace) -> list[GitHubRunner]:
        return [] if place.repository else list(self.rows.values())

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:  # noqa: ARG002
        self.rows = {name: row for name, row in self.rows.items() if row.runner_id != runner_id}

    async def installations(self) -> list[Installation]:
        return []

    async def deliveries(self, since: datetime) -> list[HookDelivery]:
        return [attempt for attempt in self.attempts if attempt.delivered_at >= since]

    async def redeliver(self, delivery_id: int) -> None:
        self.attempts = [attempt for attempt in self.attempts if attempt.delivery_id != delivery_id]

    def budgets(self) -> list[BudgetView]:
        return []
