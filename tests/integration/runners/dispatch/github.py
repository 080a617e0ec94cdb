"""GitHub, as far as dispatch needs it: it mints, forgets, and fails when told to."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from paddock.base.secrets import Secret
from paddock.clients.github.contract import GitHubJob, MintedRunner, RunnerPlace
from paddock.clients.github.errors import NotFound

MARK = "JITMARKJITMARKJIT"


class FakeForge:
    """`runners` are those that exist; `minted` every one there ever was, with what it was minted with."""

    def __init__(self) -> None:
        self.runners: dict[int, MintedRunner] = {}
        self.minted: list[dict[str, object]] = []
        self.failures: list[Exception] = []
        """Raised by the next mints, one each."""
        self.before_mint: Callable[[], Awaitable[None]] | None = None
        self.delay = 0.0
        self._numbers = itertools.count(1)
        self._names: set[str] = set()

    async def mint(self, installation_id, repository, *, name, labels, work_folder, group_id=1) -> MintedRunner:
        if self.before_mint is not None:
            await self.before_mint()
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.failures:
            raise self.failures.pop(0)
        assert name not in self._names, "a runner's name is never used twice"
        assert len(name) <= 64
        self._names.add(name)
        owner = repository.partition("/")[0]
        runner = MintedRunner(next(self._numbers), name, RunnerPlace(installation_id, owner), Secret(f"{MARK}-{name}"))
        self.runners[runner.runner_id] = runner
        self.minted.append(
            {
                "installation": installation_id,
                "repository": repository,
                "name": name,
                "labels": tuple(labels),
                "work_folder": work_folder,
            }
        )
        return runner

    async def remove_runner(self, place, runner_id) -> None:
        if runner_id not in self.runners:
            raise NotFound("no such runner")
        del self.runners[runner_id]

    async def job(self, installation_id, repository, job_id) -> GitHubJob:
        """No runner ever came: every job waits still."""
        return GitHubJob(job_id=job_id, status="queued")
