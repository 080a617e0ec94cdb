"""GitHub over HTTP: jobs, runners, installations and webhook deliveries of one App."""

import random
from collections.abc import Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx2

from paddock.base.clock import Clock
from paddock.clients.github.app_auth import APP
from paddock.clients.github.connection import GitHubConnection
from paddock.clients.github.contract import (
    BudgetView,
    GitHubJob,
    GitHubRepository,
    GitHubRunner,
    HookDelivery,
    Installation,
    MintedRunner,
    Priority,
    RunnerPlace,
    RunnerScope,
)
from paddock.clients.github.errors import Conflict, Forbidden, GroupRefused, IncompleteList, Invalid, NotFound
from paddock.clients.github.groups import RunnerGroups
from paddock.clients.github.messages import GitHubRequest, Params
from paddock.clients.github.model import (
    WAITING,
    MintAnswer,
    WireDelivery,
    WireJob,
    WireRepository,
    delivery_of,
    installation_of,
    installation_page,
    job_of,
    job_page,
    run_page,
    runner_of,
    runner_page,
)
from paddock.clients.github.paging import PAGE_SIZE, read_all
from paddock.clients.github.scaleset_client import ScaleSetClient
from paddock.clients.github.settings import GitHubSettings

__all__ = ["GitHubClient"]

_LONGEST_NAME = 64
_REFUSED_FOR = 900.0
_HOOK_DELIVERIES = "/app/hook/deliveries"
_MOST_DELIVERY_PAGES = 200
# Deliveries are listed by number, not by date, and a slow one is dated after its successor's: look a little further.
_DATES_OUT_OF_ORDER = timedelta(minutes=1)


class GitHubClient:
    """Keeps the contract of `GitHub` against the real API, or against the simulated one through `transport`.

    One instance a process, so that one budget per installation covers it all; close it, or use it as an async context
    manager. The calls of the App itself (installations, deliveries, tokens) have a budget of their own, shown as
    installation 0.
    """

    def __init__(
        self,
        settings: GitHubSettings,
        clock: Clock,
        rng: random.Random,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._clock = clock
        self._connection = GitHubConnection(settings, clock, rng, transport)
        self.scale_sets = ScaleSetClient(settings, self._connection, clock, transport)
        self._groups = RunnerGroups(self._connection, clock)
        self._refused: dict[str, float] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self.scale_sets.aclose()
        await self._connection.aclose()

    def budgets(self) -> list[BudgetView]:
        return self._connection.budgets.views()

    # Runners

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
        if not 0 < len(name) <= _LONGEST_NAME:
            raise Invalid(f"the runner name {name[:80]!r} has {len(name)} characters: it needs 1 to {_LONGEST_NAME}")
        if not labels:
            raise Invalid("a runner needs at least one label, or it would take no job")
        owner, project = _names(repository)
        if group and scope == "repository":
            raise Invalid("only organisations have runner groups: name no group, or register at the organisation")
        body = {"name": name, "runner_group_id": 1, "labels": list(labels), "work_folder": work_folder}
        deadline = self._connection.deadline()
        at_organisation = RunnerPlace(installation_id, owner)
        refused: NotFound | Forbidden | GroupRefused | None = None
        if group or scope == "organization" or (scope == "auto" and not self._was_refused(owner, repository)):
            try:
                body["runner_group_id"] = await self._groups.usable(at_organisation, project, group, deadline)
                return await self._mint_at(at_organisation, body, deadline)
            except (NotFound, Forbidden, GroupRefused) as error:
                # A group that was made anew has another number; GitHub is asked for it again the next time.
                self._groups.forget(at_organisation, project, group)
                if group and isinstance(error, NotFound):
                    what = f"{owner} is no organisation with a runner group {group!r}, or does not show it to this App"
                    raise GroupRefused(f"{what}: {error.message}", status=error.status) from None
                if group or scope == "organization":
                    raise
                # GitHub refused, so that the name is not used up: the same one may be asked for at the repository.
                refused = error
        body["runner_group_id"] = 1
        try:
            minted = await self._mint_at(RunnerPlace(installation_id, owner, project), body, deadline)
        except (NotFound, Forbidden) as error:
            if isinstance(refused, (Forbidden, GroupRefused)):
                both = f"the organisation says: {refused.message}; the repository says: {error.message}"
                raise type(refused)(both, status=refused.status) from None
            raise
        # Only a repository that took the runner shows that the refusal was the organisation's alone.
        if refused is not None:
            about = repository if isinstance(refused, GroupRefused) else owner
            self._refused[about.lower()] = self._clock.monotonic() + _REFUSED_FOR
        return minted

    async def runners(self, place: RunnerPlace) -> list[GitHubRunner]:
        call = _get(place.installation_id, Priority.VERIFY, f"{_path(place)}/actions/runners")
        return [runner_of(wire) for wire in await read_all(self._connection, call, runner_page)]

    async def remove_runner(self, place: RunnerPlace, runner_id: int) -> None:
        call = GitHubRequest(
            installation_id=place.installation_id,
            priority=Priority.CLEAN_UP,
            method="DELETE",
            path=f"{_path(place)}/actions/runners/{_number('runner_id', runner_id)}",
        )
        try:
            await self._connection.mutate(call, self._connection.deadline())
        except NotFound:
            return
        except Invalid as busy:
            # That is how GitHub puts it while the runner has a job: there is nothing else in the request to refuse.
            raise Conflict(busy.message, status=busy.status) from None

    # Jobs

    async def repository(self, installation_id: int, repository: str) -> GitHubRepository:
        call = _get(installation_id, Priority.VERIFY, _repository(repository))
        wire = (await self._connection.read(call, self._connection.deadline())).shaped(WireRepository)
        return GitHubRepository(
            repository_id=wire.id, full_name=wire.full_name, owner_id=wire.owner.id, owner=wire.owner.login
        )

    async def job(
        self, installation_id: int, repository: str, job_id: int, *, priority: Priority = Priority.VERIFY
    ) -> GitHubJob:
        path = f"{_repository(repository)}/actions/jobs/{_number('job_id', job_id)}"
        answer = await self._connection.read(_get(installation_id, priority, path), self._connection.deadline())
        return job_of(answer.shaped(WireJob))

    async def waiting_jobs(self, installation_id: int, repository: str) -> list[GitHubJob]:
        # A run counts as in progress as soon as one of its jobs is, while others of it may wait. A run that goes from
        # the one to the other between the two lists is in the second.
        base = f"{_repository(repository)}/actions/runs"
        deadline = self._connection.deadline(whole_list=True)
        runs: dict[int, None] = {}
        for status in ("queued", "in_progress"):
            call = _get(installation_id, Priority.CLEAN_UP, base, {"status": status})
            runs.update((run.id, None) for run in await read_all(self._connection, call, run_page, deadline=deadline))
        waiting: dict[int, GitHubJob] = {}
        for run_id in runs:
            call = _get(installation_id, Priority.CLEAN_UP, f"{base}/{run_id}/jobs", {"filter": "latest"})
            try:
                jobs = await read_all(self._connection, call, job_page, deadline=deadline)
            except NotFound:
                continue  # the run was deleted since it was listed, and its jobs with it
            waiting.update((job.id, job_of(job)) for job in jobs if job.status in WAITING)
        return list(waiting.values())

    async def run_jobs(self, installation_id: int, repository: str, run_id: int) -> list[GitHubJob]:
        path = f"{_repository(repository)}/actions/runs/{_number('run_id', run_id)}/jobs"
        call = _get(installation_id, Priority.VERIFY, path, {"filter": "latest"})
        return [job_of(wire) for wire in await read_all(self._connection, call, job_page)]

    # The App

    async def installations(self) -> list[Installation]:
        call = _get(APP, Priority.VERIFY, "/app/installations")
        return [installation_of(wire) for wire in await read_all(self._connection, call, installation_page)]

    async def deliveries(self, since: datetime) -> list[HookDelivery]:
        # Pages are told apart by a cursor, a place in the log, so that what is added meanwhile moves nothing.
        deadline = self._connection.deadline(whole_list=True)
        found: dict[int, WireDelivery] = {}
        cursors: set[str] = set()
        params: dict[str, str | int] = {"per_page": PAGE_SIZE}
        while True:
            answer = await self._connection.read(_get(APP, Priority.CLEAN_UP, _HOOK_DELIVERIES, params), deadline)
            page = answer.shaped(list[WireDelivery])
            found.update((wire.id, wire) for wire in page)
            cursor = answer.next_page("cursor")
            if cursor is None or (page and page[-1].delivered_at < since - _DATES_OUT_OF_ORDER):
                recent = [delivery_of(wire) for wire in found.values() if wire.delivered_at >= since]
                return sorted(recent, key=lambda delivery: (delivery.delivered_at, delivery.delivery_id), reverse=True)
            if cursor in cursors or len(cursors) == _MOST_DELIVERY_PAGES:
                raise IncompleteList(f"GET {_HOOK_DELIVERIES}: the log does not end after {len(cursors) + 1} pages")
            cursors.add(cursor)
            params = {"per_page": PAGE_SIZE, "cursor": cursor}

    async def redeliver(self, delivery_id: int) -> None:
        call = GitHubRequest(
            installation_id=APP,
            priority=Priority.CLEAN_UP,
            method="POST",
            path=f"{_HOOK_DELIVERIES}/{_number('delivery_id', delivery_id)}/attempts",
        )
        try:
            await self._connection.mutate(call, self._connection.deadline())
        except NotFound as gone:
            raise Invalid(f"delivery {delivery_id} is too old, or was never made", status=gone.status) from None

    # Minting

    async def _mint_at(self, place: RunnerPlace, body: dict[str, Any], deadline: float) -> MintedRunner:
        call = GitHubRequest(
            installation_id=place.installation_id,
            priority=Priority.MINT,
            method="POST",
            path=f"{_path(place)}/actions/runners/generate-jitconfig",
            body=body,
        )
        minted = (await self._connection.mutate(call, deadline)).shaped(MintAnswer)
        return MintedRunner(
            runner_id=minted.runner.id,
            name=minted.runner.name or body["name"],
            place=place,
            config=minted.encoded_jit_config,
        )

    def _was_refused(self, owner: str, repository: str) -> bool:
        """Whether the organisation refused runners lately, all of them or those for this repository."""
        now = self._clock.monotonic()
        self._refused = {about: until for about, until in self._refused.items() if until > now}
        return owner.lower() in self._refused or repository.lower() in self._refused


def _get(installation_id: int, priority: Priority, path: str, params: Params | None = None) -> GitHubRequest:
    return GitHubRequest(installation_id=installation_id, priority=priority, method="GET", path=path, params=params)


def _names(repository: str) -> tuple[str, str]:
    """Owner and name. What is no such pair could make another path of ours, so that it is refused here."""
    owner, slash, name = repository.partition("/")
    if not slash or not _is_segment(owner) or not _is_segment(name):
        raise Invalid(f"the repository is {repository[:120]!r}: expected 'owner/name'")
    return owner, name


def _repository(repository: str) -> str:
    owner, name = _names(repository)
    return f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"


def _path(place: RunnerPlace) -> str:
    if place.repository:
        return _repository(f"{place.owner}/{place.repository}")
    if not _is_segment(place.owner):
        raise Invalid(f"the organisation is {place.owner[:120]!r}: expected its login")
    return f"/orgs/{quote(place.owner, safe='')}"


def _is_segment(text: str) -> bool:
    return bool(text) and text not in {".", ".."} and "/" not in text


def _number(field: str, value: int) -> int:
    # Zero is what our own records say for "none"; a request about it would mean something else.
    if value <= 0:
        raise Invalid(f"{field} is {value}: expected a number that GitHub gave")
    return value
