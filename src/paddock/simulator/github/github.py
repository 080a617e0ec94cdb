"""The simulated GitHub: its REST API, its webhooks and its queue of jobs, on an injected clock."""

import asyncio
import random
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

import httpx2
import msgspec
from starlette.applications import Starlette

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.clients.github.settings import GitHubSettings
from paddock.simulator.github.accounts import Accounts
from paddock.simulator.github.app_api import AppApi
from paddock.simulator.github.app_keys import public_key_of, throwaway_app_key
from paddock.simulator.github.behaviour import GitHubBehaviour
from paddock.simulator.github.book import GitHubBook
from paddock.simulator.github.faults import Fault, GitHubFaults
from paddock.simulator.github.front import AuditEntry, GitHubFront
from paddock.simulator.github.job_queue import JobQueue
from paddock.simulator.github.jobs_api import JobsApi
from paddock.simulator.github.network import asgi_app
from paddock.simulator.github.runners_api import RunnersApi
from paddock.simulator.github.scale_sets import ScaleSetQueue
from paddock.simulator.github.scale_sets_api import ScaleSetsApi
from paddock.simulator.github.sessions import RunnerSession, open_session
from paddock.simulator.github.state import (
    Attempt,
    GitHubState,
    SimulatedJob,
    SimulatedRunner,
)
from paddock.simulator.github.webhooks import Webhooks
from paddock.simulator.github.workflows import Workflows
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
        self.deal = self._queue.deal
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

        # What people do at GitHub. Named one by one, so that whoever plays them finds all of it here.
        accounts = Accounts(self._queue, self._webhooks, clock, self._woken.set)
        self.add_organization = accounts.add_organization
        self.add_user = accounts.add_user
        self.add_repository = accounts.add_repository
        self.add_group = accounts.add_group
        self.close_default_group = accounts.close_default_group
        self.rename_account = accounts.rename_account
        self.rename_repository = accounts.rename_repository
        self.transfer_repository = accounts.transfer_repository
        self.account = accounts.account
        self.suspend = accounts.suspend
        self.uninstall = accounts.uninstall
        self.install = accounts.install
        self.accept_permissions = accounts.accept_permissions
        self.give_repository = accounts.give_repository
        self.take_repository = accounts.take_repository
        work = Workflows(self._queue, accounts, clock, rng)
        self.submit = work.submit
        self.rerun = work.rerun
        self.approve = work.approve
        self.reject = work.reject
        self.protect = work.protect
        self.cancel = work.cancel
        self.job = work.job
        self.pending = work.pending
        self.prune_job = work.prune_job
        self.flap = work.flap

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
