"""How a process of controllers starts and stops."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack, end
from paddock.kube.controller import Controller
from paddock.kube.informer import Informer
from paddock.kube.leader import LeaderElector
from paddock.kube.metrics import KubeMetrics

__all__ = ["HealthProbes", "Manager", "periodically"]

_LOG = get_logger("manager")
Run = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HealthProbes:
    """The answer of a probe: `text` says, line by line, what is not well."""

    ok: bool
    text: str = "ok"


@dataclass(frozen=True, slots=True)
class _Runnable:
    name: str
    run: Run
    stop: Run | None = None


class Manager:
    """Informers first; when they are synced, what every replica runs; then, while leading, what only one may run.

    Without an elector this process always leads. A runnable that fails is counted and started again with backoff; it
    never takes the process with it. On a stop everything ends in reverse: the leader's runnables (controllers get
    `grace` seconds to finish what they have in hand), then the lease, then the rest, the informers last. On a loss of
    leadership the leader's runnables are cancelled at once, and wait for the next election.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics | None = None,
        elector: LeaderElector | None = None,
        backoff: Backoff | None = None,
        grace: float = 10.0,
    ) -> None:
        self.elector = elector
        self.clock = clock
        self.rng = rng
        self.metrics = metrics or KubeMetrics()
        self._backoff = backoff or Backoff()
        self._grace = grace
        self._informers: list[Informer[Any]] = []
        self._everywhere: list[_Runnable] = []
        self._leader_only: list[_Runnable] = []
        self._started = False
        self._stopping = asyncio.Event()

    def add_informer(self, informer: Informer[Any]) -> None:
        """Run an informer from the start; the same one twice is once."""
        if informer not in self._informers:
            self._informers.append(informer)

    def add_controller(self, controller: Controller) -> None:
        """Run a controller, and its informers, while leading."""
        for informer in controller.informers:
            self.add_informer(informer)
        self._leader_only.append(_Runnable(controller.name, controller.run, controller.stop))

    def add_runnable(self, name: str, run: Run, *, leader_only: bool = False) -> None:
        """Run something after the informers are synced. That it returns means that it has nothing more to do."""
        (self._leader_only if leader_only else self._everywhere).append(_Runnable(name, run))

    def add_periodic(
        self, name: str, action: Run, *, every: float, first_after: float = 0.0, leader_only: bool = True
    ) -> None:
        """Run an action again and again, `every` seconds after it ended, a little jittered; see `periodically`."""

        async def run() -> None:
            await periodically(
                name,
                action,
                every=every,
                first_after=first_after,
                clock=self.clock,
                rng=self.rng,
                metrics=self.metrics,
            )

        self.add_runnable(name, run, leader_only=leader_only)

    def healthz(self) -> HealthProbes:
        """Alive? True unless `run` has ended: everything inside it is started again by itself."""
        return HealthProbes(True) if not self._stopping.is_set() else HealthProbes(False, "stopping")

    def readyz(self) -> HealthProbes:
        """Can it answer from its caches? Not before all informers are synced. Says what keeps them from it."""
        if not self._started:
            return HealthProbes(False, "not started")
        waiting = [i for i in self._informers if not i.synced.is_set()]
        return (
            HealthProbes(False, "\n".join(f"{i.name}: {i.problem or 'the first list is under way'}" for i in waiting))
            if waiting
            else HealthProbes(True)
        )

    def problems(self) -> dict[str, str]:
        """What the informers have to complain about at the moment, by name."""
        return {i.name: i.problem for i in self._informers if i.problem is not None}

    def stop(self) -> None:
        """End `run` cleanly. For signal handlers."""
        self._stopping.set()

    async def run(self) -> None:
        """Run until `stop`, which may come before this is called, or until cancelled. Once only."""
        self._started = True
        work = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([work, stopping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._stopping.set()
            stopping.cancel()
            await end(work)
        if not work.cancelled():
            work.result()

    async def _start(self) -> None:
        # Each block is left in reverse: the innermost first, and each waits until its tasks are over.
        async with TaskStack() as informers:
            for informer in self._informers:
                informers.start(self._supervised(_Runnable(f"informer {informer.name}", informer.run)))
            for informer in self._informers:
                await informer.synced.wait()
            async with TaskStack() as everywhere:
                for runnable in self._everywhere:
                    everywhere.start(self._supervised(runnable))
                if self.elector is None:
                    await self._lead()
                else:
                    elector = self.elector
                    await self._supervised(_Runnable("leader election", lambda: elector.run(self._lead)))

    async def _lead(self) -> None:
        async with TaskStack() as tasks:
            for runnable in self._leader_only:
                tasks.start(self._supervised(runnable))
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if self._stopping.is_set():
                    await self._finish_in_hand()
                raise

    async def _finish_in_hand(self) -> None:
        stops = [asyncio.ensure_future(each.stop()) for each in self._leader_only if each.stop is not None]
        if stops:
            await asyncio.wait(stops, timeout=self._grace)
            for each in stops:
                each.cancel()

    async def _supervised(self, runnable: _Runnable) -> None:
        await keep_running(
            runnable.name,
            runnable.run,
            self.clock,
            self.rng,
            self._backoff,
            until_done=True,
            on_failure=lambda _: self.metrics.runnable_failures.labels(runnable.name).inc(),
        )
        if not self._stopping.is_set():
            _LOG.info("ended", runnable=runnable.name)


async def periodically(
    name: str,
    action: Run,
    *,
    every: float,
    clock: Clock,
    rng: random.Random,
    first_after: float = 0.0,
    metrics: KubeMetrics | None = None,
) -> None:
    """Run an action for ever, with pauses of `every` to 1.1 times `every` seconds.

    A failure is logged and counted, and the next round comes at its time: sweeps are level-triggered, so that a missed
    round is made up for by the next.
    """
    await clock.sleep(first_after)
    while True:
        try:
            await action()
        except Exception:  # noqa: BLE001 - as the docstring says
            if metrics is not None:
                metrics.runnable_failures.labels(name).inc()
            _LOG.exception("a round failed", runnable=name, again_in=round(every, 1))
        await clock.sleep(every * (1.0 + 0.1 * rng.random()))
