"""The contract between the runner subsystem and whatever keeps the queue of CI jobs.

`GitHubClient` keeps it against the real API; the simulated GitHub keeps it through the same client. Promises:

- every method may raise any `GitHubError`, and returns or raises within its timeout;
- a method sends at most one mutation, at most once; after `Unavailable` with `effect_unknown` it may have happened;
- a list is complete or it is an error;
- every call draws on the budget of its installation with the priority of its purpose: mint before verify before clean-up;
- a JIT config exists only inside `MintedRunner.config`, a Secret: it is never stored, logged or put into an error.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import IntEnum
from typing import Literal, Protocol

from msgspec import Struct

from paddock.base.secrets import Secret

__all__ = [
    "BudgetView",
    "GitHub",
    "GitHubJob",
    "GitHubRepository",
    "GitHubRunner",
    "HookDelivery",
    "Installation",
    "JobStatus",
    "MintedRunner",
    "Priority",
    "RunnerPlace",
    "RunnerScope",
]

JobStatus = Literal["queued", "waiting", "in_progress", "completed"]
RunnerScope = Literal["auto", "organization", "repository"]
"""Where runners are registered. `auto` is the organisation, and the repository where the organisation refuses."""


class Priority(IntEnum):
    """What a call is for; when the budget runs low, the larger numbers are refused first."""

    MINT = 0
    VERIFY = 1
    CLEAN_UP = 2


class RunnerPlace(Struct, frozen=True):
    """Where a runner is registered: an organisation (`repository` empty) or one repository."""

    installation_id: int
    owner: str
    repository: str = ""

    @property
    def path(self) -> str:
        return f"repos/{self.owner}/{self.repository}" if self.repository else f"orgs/{self.owner}"


class MintedRunner(Struct, frozen=True):
    """A runner that exists at GitHub and waits for its process. Its name is used up, whatever happens to it."""

    runner_id: int
    name: str
    place: RunnerPlace
    config: Secret

    def __repr__(self) -> str:
        return f"MintedRunner({self.runner_id}, {self.name!r}, {self.place.path}, config=***)"


class GitHubJob(Struct, frozen=True, kw_only=True):
    """A workflow job as GitHub sees it now."""

    job_id: int
    status: JobStatus
    conclusion: str | None = None
    runner_name: str = ""
    runner_id: int = 0
    run_id: int = 0
    run_attempt: int = 1
    name: str = ""
    workflow_name: str = ""
    head_branch: str = ""
    head_sha: str = ""
    labels: tuple[str, ...] = ()
    created_at: datetime | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    steps_done: int = 0
    """How many steps are over: the job's progress as far as GitHub knows it."""


class GitHubRunner(Struct, frozen=True, kw_only=True):
    """A registered runner."""

    runner_id: int
    name: str
    online: bool
    busy: bool
    labels: tuple[str, ...] = ()


class GitHubRepository(Struct, frozen=True, kw_only=True):
    """A repository by its number, which stays when it is renamed."""

    repository_id: int
    full_name: str
    owner_id: int
    owner: str


class HookDelivery(Struct, frozen=True, kw_only=True):
    """One attempt to deliver a webhook. Attempts of one event share `guid`, which is its X-GitHub-Delivery."""

    delivery_id: int
    guid: str
    delivered_at: datetime
    redelivery: bool
    status_code: int
    event: str
    action: str | None = None

    @property
    def arrived(self) -> bool:
        return 200 <= self.status_code < 300


class Installation(Struct, frozen=True):
    installation_id: int
    account_id: int
    login: str
    suspended: bool = False


class BudgetView(Struct, frozen=True):
    """The API budget of one installation, for people: what is left, when it is full again, and who is refused now."""

    installation_id: int
    remaining: int
    limit: int
    resets_at: datetime | None
    held_until: datetime | None
    refused: tuple[Priority, ...] = ()


class GitHub(Protocol):
    """Jobs, runners and webhook deliveries."""

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
        """A new single-job runner for the organisation that owns `repository` ("owner/name"), or for the repository.

        `auto` takes the repository where the owner is no organisation (404), where the organisation refuses (403), and
        where its default runner group is closed to the repository; never where a `group` is named, for only organisations
        have groups. GroupRefused where the group is not there or closed to the repository, before anything is minted.
        `name` must never have been used before: GitHub reserves it even if the answer is lost. Raises Forbidden, NotFound
        (neither place), Conflict, Invalid, RateLimited, BudgetSpent, Unavailable.
        """
        ...

    async def repository(self, installation_id: int, repository: str) -> GitHubRepository:
        """The repository of that name now. NotFound where the installation does not see it. Priority VERIFY."""
        ...

    async def job(
        self, installation_id: int, repository: str, job_id: int, *, priority: Priority = Priority.VERIFY
    ) -> GitHubJob:
        """One job, read now. NotFound where GitHub does not know it (any more)."""
        ...

    async def run_jobs(self, installation_id: int, repository: str, run_id: int) -> list[GitHubJob]:
        """The jobs of one run in its latest attempt. Complete, or IncompleteList. Priority VERIFY."""
        ...

    async def waiting_jobs(self, installation_id: int, repository: str) -> list[GitHubJob]:
        """The repository's jobs that are queued now: the second source beside webhooks. Priority CLEAN_UP."""
        ...

    async def runners(self, place: RunnerPlace) -> list[GitHubRunner]:
        """Every runner registered there. Complete, or IncompleteList. Priority VERIFY."""
        ...

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:
        """Unregister a runner; one that is gone already is no error. Conflict while it is busy. Priority CLEAN_UP."""
        ...

    async def installations(self) -> list[Installation]:
        """Where the App is installed."""
        ...

    async def deliveries(self, since: datetime) -> list[HookDelivery]:
        """Every attempt to deliver a webhook of the App since then, newest first, successes included."""
        ...

    async def redeliver(self, delivery_id: int) -> None:
        """Ask GitHub to deliver again. Invalid where it cannot be (too old)."""
        ...

    def budgets(self) -> list[BudgetView]:
        """The budgets as known now, without a call."""
        ...
