"""How often a host may be dialled.

A Mac's sshd has a short accept backlog, and a client that dials a slow host again and again is what fills it. So dials
to one host keep a distance that grows with its failures in a row, only one at a time is under way, and of the whole
fleet only so many are dialled at once: after a restart a hundred hosts come one after the other, not all together.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.clients.ssh.contract import Shell, Ssh, Target
from paddock.clients.ssh.errors import ConnectionLost, SshError, Unreachable

__all__ = ["BudgetedSsh", "DialBudget", "DialRules"]


_AFTER_FAILURES = Backoff(base=2.0, cap=60.0, factor=2.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class DialRules:
    """`apart` seconds between two dials of one host that answers; after failures the distance follows `backoff`.
    `parallel` is how many dials of all hosts together may be under way; `forget_after` seconds without a dial a host's
    history is dropped.
    """

    apart: float = 0.5
    backoff: Backoff = _AFTER_FAILURES
    parallel: int = 16
    forget_after: float = 3600.0


@dataclass(slots=True)
class _History:
    lock: asyncio.Lock
    failures: int = 0
    not_before: float = 0.0
    last: float = 0.0


class DialBudget:
    """Grants turns to dial. It holds no connection: a turn ends when the dial has ended, not the session."""

    def __init__(self, clock: Clock, rng: random.Random, rules: DialRules | None = None) -> None:
        self._clock = clock
        self._rng = rng
        self._rules = rules or DialRules()
        self._hosts: dict[tuple[str, int], _History] = {}
        self._slots = asyncio.Semaphore(self._rules.parallel)
        self.granted = 0

    def wait_for(self, address: str, port: int) -> float:
        """Seconds until the host may be dialled again; zero where it may be now."""
        history = self._hosts.get((address, port))
        return 0.0 if history is None else max(0.0, history.not_before - self._clock.monotonic())

    def forgive(self, address: str, port: int) -> None:
        """The host was rebooted or reinstalled: its failures say nothing about it any more."""
        self._hosts.pop((address, port), None)

    @asynccontextmanager
    async def turn(self, address: str, port: int) -> AsyncIterator[None]:
        """Wait for a turn, and hold it while the dial is under way. An Unreachable or ConnectionLost that leaves the
        block counts as a failure of the host; an answer of any other sort, a refused key included, does not.
        """
        self._forget()
        history = self._hosts.setdefault((address, port), _History(asyncio.Lock()))
        async with history.lock:
            await self._clock.sleep(history.not_before - self._clock.monotonic())
            async with self._slots:
                self.granted += 1
                try:
                    yield
                except (Unreachable, ConnectionLost):
                    history.failures += 1
                    raise
                except SshError:
                    history.failures = 0
                    raise
                else:
                    history.failures = 0
                finally:
                    history.last = self._clock.monotonic()
                    history.not_before = history.last + self._distance(history.failures)

    def _distance(self, failures: int) -> float:
        if failures:
            return self._rules.backoff.delay(failures, self._rng)
        return self._rules.apart * (1.0 + self._rng.random())

    def _forget(self) -> None:
        horizon = self._clock.monotonic() - self._rules.forget_after
        for host in [host for host, past in self._hosts.items() if past.last < horizon and not past.lock.locked()]:
            del self._hosts[host]


class BudgetedSsh:
    """An `Ssh` whose dials keep to a budget. The time spent waiting for a turn is not part of the timeout."""

    def __init__(self, ssh: Ssh, budget: DialBudget) -> None:
        self._ssh = ssh
        self._budget = budget

    def connect(self, target: Target, *, timeout: float = 15.0) -> AbstractAsyncContextManager[Shell]:
        return self._connected(target, timeout)

    @asynccontextmanager
    async def _connected(self, target: Target, timeout: float) -> AsyncIterator[Shell]:
        async with AsyncExitStack() as session:
            async with self._budget.turn(target.address, target.port):
                shell = await session.enter_async_context(self._ssh.connect(target, timeout=timeout))
            # From here on the session belongs to the caller; only the dial was counted.
            yield shell

    async def host_key(self, address: str, port: int, *, timeout: float = 15.0) -> str:
        async with self._budget.turn(address, port):
            return await self._ssh.host_key(address, port, timeout=timeout)
