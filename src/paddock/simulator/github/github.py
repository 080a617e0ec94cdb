"""The simulated GitHub: its REST API, its webhooks and its queue of jobs, on an injected clock."""

import asyncio
import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Literal, Self

import httpx2
import msgspec
from starlette.applications import Starlette

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.clients.github.settings import GitHubSettings
from paddock.simulator.errors import SimulationError
from paddock.simulator.github.app_api import AppApi
from paddock.simulator.github.app_keys import public_key_of, throwaway_app_key
from paddock.simulator.github.behaviour import GitHubBehaviour
from paddock.simulator.github.book import GitHubBook
from paddock.simulator.github.faults import Fault, GitHubFaults
from paddock.simulator.github.front import AuditEntry, GitHubFront
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.jobs_api import JobsApi
from paddock.simulator.github.network import asgi_app
from paddock.simulator.github.places import Places
from paddock.simulator.github.runners_api import RunnersApi
from paddock.simulator.github.scale_sets import ScaleSetQueue
from paddock.simulator.github.scale_sets_api import ScaleSetsApi
from paddock.simulator.github.sessions import RunnerSession, open_session
from paddock.simulator.github.state import (
    Attempt,
    Conclusion,
    GitHubState,
    Run,
    SimulatedAccount,
    SimulatedGroup,
    SimulatedJob,
    SimulatedRepository,
    SimulatedRunner,
)
from paddock.simulator.github.webhooks import Webhooks
from paddock.simulator.service.pause import pause
from paddock.simulator.service.snapshot import rebased
from paddock.simulator.transport import InProcessTransport

__all__ = ["SimulatedGitHub"]

# `run` is woken by every change; the nap only covers a test that changes the state by hand.
_LONGEST_NAP = 60.0


class SimulatedGitHub:
    """A whole GitHub in one object, seeded.

    Callers reach it as they reach the real one, through `app` (HTTP; the server must add no Date of its own, because
    clients tell the time at GitHub by it) or `transport()` (in the process). Simulated Pods
    `connect()` with the JIT config they were handed. Tests and scenarios reach behind the curtain: they add accounts,
    submit and cancel jobs, order faults and read the audit. State follows the clock lazily; webhooks are sent by `run()`,
    or by `deliver_due()` in a test that moves its clock by hand.
    """

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        *,
        behaviour: GitHubBehaviour | None = None,
        speed: float | None = None,
        app_key: str | None = None,
        audit: bool = True,
        state: GitHubState | None = None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self.state = state if state is not None else _new_state(clock, rng, app_key or throwaway_app_key())
        if behaviour is not None:
            self.state.behaviour = behaviour
        if speed is not None:
            self.state.behaviour.speed = speed
        self.audit: list[AuditEntry] = []
        self.faults = GitHubFaults()
        self.keep: Callable[[], object] = _not_kept
        """Called before anybody outside learns of a change: before a webhook is sent, before a call that changed something is
        answered."""
        self._woken = asyncio.Event()
        self._drivers = 0
        self._former_clients: list[httpx2.AsyncClient] = []
        self._webhooks = Webhooks(self.state, clock, rng, self.faults)
        self._queue = JobQueue(self.state, clock, rng, self._announce, self._woken.set)
        self._places = Places(self.state, self._queue)
        self.scale_sets = ScaleSetQueue(self.state, self._queue, clock)
        scale_sets_api = ScaleSetsApi(self._queue, self.scale_sets, clock, rng)
        handlers = {
            **AppApi(self.state, self._webhooks, rng).handlers(),
            **RunnersApi(self._queue).handlers(),
            **scale_sets_api.handlers(),
            **JobsApi(self.state).handlers(),
        }
        self._front = GitHubFront(
            self._queue,
            clock,
            rng,
            public_key_of(self.state.app_key),
            handlers,
            self.faults,
            self.audit if audit else None,
            self._effected,
            scale_sets_api,
        )
        self.app: Starlette = asgi_app(self._front)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections to webhook receivers."""
        for client in self._former_clients:
            await client.aclose()
        await self._webhooks.aclose()

    # How to reach it

    def transport(self) -> InProcessTransport:
        return InProcessTransport(self.app, clock=self._clock)

    def settings(self, api_url: str = "http://127.0.0.1") -> GitHubSettings:
        """What a client needs to know to be this GitHub's App."""
        return GitHubSettings(
            app_id=self.app_id,
            private_key=self.private_key,
            webhook_secrets=(self.webhook_secret,),
            api_url=api_url,
        )

    @property
    def app_id(self) -> str:
        return str(self.state.app_id)

    @property
    def private_key(self) -> Secret:
        """The App's private key, as PEM."""
        return Secret(self.state.app_key)

    @property
    def webhook_secret(self) -> Secret:
        return Secret(self.state.webhook_secret)

    def deliver_to(self, url: str, transport: httpx2.AsyncBaseTransport | None = None) -> None:
        """Send webhooks to this address from now on, through `transport` where one is given; "" sends none."""
        former = self._webhooks.point_to(url, transport)
        if former is not None:
            self._former_clients.append(former)

    @property
    def behaviour(self) -> GitHubBehaviour:
        return self.state.behaviour

    def _announce(self, job: SimulatedJob, action: str, now: datetime) -> None:
        self._webhooks.announce(job, action, now)
        self.scale_sets.hear(job, action, now)

    def _effected(self) -> None:
        self._woken.set()
        self.keep()

    # Time

    def tick(self) -> datetime:
        """Let everything happen that has fallen due, and return the present moment."""
        return self._queue.settle()

    def next_change(self) -> datetime | None:
        """When something will next happen by itself, deliveries included, or None."""
        moments = (self._queue.timers.next_moment(), self._webhooks.next_due())
        return min((moment for moment in moments if moment is not None), default=None)

    async def run(self) -> None:
        """Drive GitHub for ever: offers, time-outs and webhooks happen when they are due. Cancel it to stop."""
        self._drivers += 1
        try:
            async with asyncio.TaskGroup() as deliveries:
                while True:
                    self._woken.clear()
                    if due := self._webhooks.take_due(self.tick()):
                        self.keep()
                    for outgoing in due:
                        deliveries.create_task(self._webhooks.send(outgoing))
                    moment = self.next_change()
                    wait = _LONGEST_NAP if moment is None else (moment - self._clock.now()).total_seconds()
                    await pause(self._clock, self._woken, min(wait, _LONGEST_NAP))
        finally:
            self._drivers -= 1

    async def deliver_due(self) -> list[Attempt]:
        """Send every webhook that is due now, one after the other."""
        return [await self._webhooks.send(outgoing) for outgoing in self._webhooks.take_due(self.tick())]

    # Accounts

    def add_organization(self, login: str, *repositories: str) -> SimulatedAccount:
        """An organisation with the App installed, and its repositories ("app", "web")."""
        return self._add_account(login, "Organization", repositories)

    def add_user(self, login: str, *repositories: str) -> SimulatedAccount:
        """A personal account with the App installed: it has no runners but those of its repositories."""
        return self._add_account(login, "User", repositories)

    def _add_account(
        self, login: str, kind: Literal["Organization", "User"], repositories: Iterable[str]
    ) -> SimulatedAccount:
        state = self.state
        account = SimulatedAccount(id=state.fresh_id(3), login=login, kind=kind, installation_id=state.fresh_id(5))
        state.accounts[login.lower()] = account
        for name in repositories:
            self.add_repository(f"{login}/{name}")
        return account

    def add_repository(self, full_name: str) -> SimulatedRepository:
        owner = self.account(full_name.partition("/")[0])
        repository = SimulatedRepository(id=self.state.fresh_id(7), full_name=full_name, owner=owner.login)
        self.state.repositories[full_name.lower()] = repository
        self.state.moved.pop(full_name.lower(), None)
        return repository

    def add_group(self, login: str, name: str, *repositories: str, allows_public: bool = True) -> SimulatedGroup:
        """A runner group of the organisation, open to these repositories ("app", "web"), or to all where none is named."""
        group = SimulatedGroup(
            id=self.state.fresh_id(2),
            name=name,
            visibility="selected" if repositories else "all",
            repositories=[f"{login}/{each}" for each in repositories],
            allows_public=allows_public,
        )
        self.account(login).groups.append(group)
        return group

    def close_default_group(self, login: str, *but: str) -> None:
        """The organisation's default group serves only these repositories from now on."""
        group = self.account(login).group(1)
        assert group is not None  # every organisation has it
        group.visibility, group.repositories = "selected", [f"{login}/{each}" for each in but]

    def rename_account(self, login: str, new: str) -> SimulatedAccount:
        """The account takes another login; its number, installation, runners and repositories stay; the App is told. The old
        login is free, and names of repositories under it lead to the new ones until somebody takes them.
        """
        self._places.rename_account(self.account(login), new)
        account = self.account(new)
        self._webhooks.announce_rename(account, login, self.tick())
        self._woken.set()
        return account

    def rename_repository(self, full_name: str, new: str) -> SimulatedRepository:
        """The repository takes another name ("web") at its owner; its number, runs and runners stay."""
        return self._places.move_repository(self._repository(full_name), f"{full_name.partition('/')[0]}/{new}")

    def transfer_repository(self, full_name: str, owner: str) -> SimulatedRepository:
        """The repository goes to another account, which sees its runs from now on; both installations are told."""
        repository, former = self._repository(full_name), self.account(full_name.partition("/")[0])
        self._told(former, "removed", repository.full_name)
        self._places.move_repository(repository, f"{self.account(owner).login}/{repository.name}")
        self._told(self.account(owner), "added", repository.full_name)
        return repository

    def account(self, login: str) -> SimulatedAccount:
        account = self.state.account(login)
        if account is None:
            raise SimulationError(f"this GitHub has no account {login!r}: add it with add_organization or add_user")
        return account

    def _repository(self, full_name: str) -> SimulatedRepository:
        known = self.state.repository(full_name)
        if known is None:
            raise SimulationError(f"this GitHub has no repository {full_name!r}: add it with add_repository")
        return known

    def suspend(self, login: str, *, suspended: bool = True) -> None:
        """Somebody suspends the App there, or lets it act again; the App is told."""
        account, now = self.account(login), self._clock.now()
        account.suspended_at = now if suspended else None
        self._told(account, "suspend" if suspended else "unsuspend")

    def uninstall(self, login: str) -> None:
        """Somebody removes the App: it is told, its tokens stop working and its webhooks stop coming."""
        account = self.account(login)
        account.installed = False
        self._told(account, "deleted")

    def install(self, login: str) -> SimulatedAccount:
        """Somebody installs the App, for the first time or anew, which is another installation; the App is told."""
        account = self.account(login)
        account.installation_id, account.installed, account.suspended_at = self.state.fresh_id(5), True, None
        self._told(account, "created")
        return account

    def accept_permissions(self, login: str, **permissions: str) -> None:
        """Somebody accepts what the App asks for anew; the App is told."""
        account = self.account(login)
        account.permissions |= permissions
        self._told(account, "new_permissions_accepted")

    def give_repository(self, full_name: str) -> SimulatedRepository:
        """The installation gets one more repository; the App is told."""
        repository = self.add_repository(full_name)
        self._told(self.account(repository.owner), "added", repository.full_name)
        return repository

    def take_repository(self, full_name: str) -> None:
        """The installation loses a repository: for the App it is not there any more."""
        repository = self.state.repositories[full_name.lower()]
        self._told(self.account(repository.owner), "removed", repository.full_name)
        del self.state.repositories[full_name.lower()]

    def _told(self, account: SimulatedAccount, action: str, *names: str) -> None:
        self._webhooks.announce_installation(account, action, self.tick(), names)
        self._woken.set()

    # Jobs

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
        known = self._repository(repository)
        now = self.tick()
        run = self._new_run(known, workflow, branch, now) if run_id is None else self.state.runs[run_id]
        job = self._queue.submit(run, name=name, labels=labels, duration=duration, planned=conclusion)
        job.environment = environment
        if waiting or environment in known.protected:
            self._queue.hold(job, now)
        else:
            self._queue.enqueue(job, now)
        return job

    def _new_run(self, repository: SimulatedRepository, workflow: str, branch: str, now: datetime) -> Run:
        run = Run(
            id=self.state.fresh_id(self._rng.randint(1, 90)),
            number=len(self.state.runs) + 1,
            repository=repository.full_name,
            workflow=workflow,
            branch=branch,
            sha=f"{self._rng.getrandbits(160):040x}",
            created_at=now,
        )
        self.state.runs[run.id] = run
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
        self._repository(repository).protected.append(environment)

    def cancel(self, job_id: int) -> None:
        """Somebody cancels the job: at once while it waits, when its runner obeys once it runs."""
        job = self.job(job_id)
        self._queue.cancel(job, self._clock.now())

    def job(self, job_id: int) -> SimulatedJob:
        """The job as it really is now; raises KeyError for one that GitHub has forgotten."""
        self.tick()
        return self.state.jobs[job_id]

    def pending(self) -> int:
        """How many jobs wait for a runner."""
        self.tick()
        return sum(job.status == "queued" for job in self.state.jobs.values())

    def prune_job(self, job_id: int) -> None:
        """GitHub forgets the job: asking for it answers 404 from now on."""
        self._queue.forget(self.job(job_id))

    def flap(self, job_id: int, seconds: float) -> None:
        """Show a running job as queued, without a runner, for that long."""
        job = self.job(job_id)
        job.flapping_until = self._clock.now() + timedelta(seconds=seconds)

    # Runners

    def connect(self, encoded_jit_config: str) -> RunnerSession:
        """The runner of this config comes online. Raises RunnerRefusedError: a config works once, while it is fresh."""
        return open_session(self._queue, encoded_jit_config, self._clock, lambda: self._drivers > 0)

    def runners(self) -> list[SimulatedRunner]:
        """Every registered runner as it really is, shown in lists or not."""
        self.tick()
        return [runner for runner in self.state.runners.values() if not runner.removed]

    def delist(self, runner_id: int) -> None:
        """Lists no longer show the runner, and it gets no job any more; its process and its present job go on."""
        now = self.tick()
        self._queue.delist(self.state.runners[runner_id], now)

    # Faults

    def inject(self, fault: Fault) -> Fault:
        """Put a fault on order; it strikes the calls or deliveries it fits, oldest fault first."""
        self.faults.pending.append(fault)
        return fault

    def heal(self) -> None:
        """Forget every fault on order."""
        self.faults.pending.clear()

    # Across restarts

    def save_to(self, book: GitHubBook) -> int:
        """Write what changed since the last save into the book; returns how many records that were."""
        self.state.saved_at = self.tick()
        return book.save(self.state, self._webhooks.in_flight)

    @classmethod
    def from_book(cls, book: GitHubBook, clock: Clock, rng: random.Random) -> "SimulatedGitHub | None":
        """The GitHub of the last save, as if no time had passed since, with its runner processes gone; None without one."""
        state = book.load()
        if state is None:
            return None
        return cls(clock, rng, audit=False, state=rebased(state, clock.now() - state.saved_at))

    def to_json(self) -> bytes:
        """The whole GitHub, without faults on order, the audit and the webhook's address."""
        self.state.saved_at = self.tick()
        saved = msgspec.structs.replace(self.state, outgoing=[*self._webhooks.in_flight, *self.state.outgoing])
        return msgspec.json.encode(saved)

    @classmethod
    def from_json(
        cls, data: bytes, clock: Clock, rng: random.Random, *, audit: bool = True, rebase: bool = False
    ) -> "SimulatedGitHub":
        """The GitHub that was saved; every runner process of that time is gone, as after a disconnect.

        With `rebase` no time has passed since, for a clock that starts anew.
        """
        state = msgspec.json.decode(data, type=GitHubState)
        if rebase:
            state = rebased(state, clock.now() - state.saved_at)
        return cls(clock, rng, audit=audit, state=state)


def _not_kept() -> None:
    """A GitHub that lives no longer than its process."""


def _new_state(clock: Clock, rng: random.Random, app_key: str) -> GitHubState:
    return GitHubState(
        app_id=rng.randint(100_000, 999_999),
        app_key=app_key,
        webhook_secret=f"{rng.getrandbits(160):040x}",
        hook_id=rng.randint(100_000_000, 999_999_999),
        behaviour=GitHubBehaviour(),
        saved_at=clock.now(),
    )
