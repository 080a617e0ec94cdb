"""Simulated processes, and the world they live in.

A process is a main coroutine and every task that descends from it. Killed, it stops where it stands: the loop never
steps its tasks again, so no `finally` runs, no lock is given back and nothing leaves it any more, in memory or over the
wire; its connections break. Started again, it begins with its main coroutine and with no memory.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import httpx2

from paddock.base.clock import Clock, LoopClock
from paddock.base.rng import seeded
from paddock.simulator.errors import SimulationError
from paddock.simulator.faults import Faults
from paddock.simulator.faulty_transport import FaultyTransport
from paddock.simulator.loop import DAY, VirtualLoop, run
from paddock.simulator.process_life import ProcessLife, current_life
from paddock.simulator.trace import Trace
from paddock.simulator.transport import App, Host, InProcessTransport

__all__ = ["Process", "ProcessOutcome", "World", "simulate"]

T = TypeVar("T")


class Process:
    """One process of a world; make it with `World.process`.

    With `restart_after` it is started again that many virtual seconds after it crashed, failed or ended, as a kubelet
    would. Without it, a main coroutine that raises fails the whole run when the world closes.
    """

    def __init__(
        self,
        world: "World",
        name: str,
        main: Callable[[], Coroutine[Any, Any, object]],
        *,
        restart_after: float | None = None,
    ) -> None:
        self.name = name
        self.starts = 0
        self.error: Exception | None = None
        self._world = world
        self._main = main
        self._restart_after = restart_after
        self._life: ProcessLife | None = None
        self._exited: ProcessLife | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Event = asyncio.Event()

    def __repr__(self) -> str:
        return f"Process({self.name!r}, {'running' if self.running else 'down'}, starts={self.starts})"

    @property
    def life(self) -> ProcessLife | None:
        """The present incarnation; None while the process is down."""
        return self._life if self._life is not None and self._life.alive else None

    @property
    def running(self) -> bool:
        return self.life is not None

    @property
    def failed_for_good(self) -> bool:
        """Whether the main coroutine raised and nothing will start it again."""
        return self.error is not None and self._restart_after is None

    def start(self) -> Self:
        """Start the main coroutine in a new life; the process must be down."""
        if self.running:
            raise SimulationError(f"process {self.name} is already running; crash or stop it first")
        life = ProcessLife(self.name)
        self.starts += 1
        self._life = life
        life.on_end(lambda: self._down(life))
        self._world.trace.record("process.start", by=self.name, incarnation=self.starts)
        self._task = asyncio.get_running_loop().create_task(
            self._live(life), name=f"{self.name}/main", context=life.context()
        )
        self._tell()
        return self

    def crash(self) -> None:
        """Kill the process from outside; a process that is down stays down.

        Code of the process itself cannot call this and go on: use `Crash` faults for that.
        """
        life = self.life
        if life is None:
            return
        if current_life() is life:
            raise SimulationError(f"process {self.name} cannot crash itself in mid-step; inject a Crash fault instead")
        life.end()

    async def stop(self) -> None:
        """Ask the process to end, as SIGTERM does: its main coroutine is cancelled and may clean up. It stays down."""
        life, task = self.life, self._task
        if life is None or task is None:
            return
        self._restart_after, restart_after = None, self._restart_after
        task.cancel()
        while life.alive:
            await self._next_change()
        self._restart_after = restart_after

    async def restart(self) -> None:
        """Crash it if it runs, and start it at once."""
        self.crash()
        self.start()

    async def ended(self) -> None:
        """Wait until the present incarnation is over, however it ends."""
        life = self.life
        while life is not None and life.alive:
            await self._next_change()

    async def started(self, times: int) -> None:
        """Wait until the process has been started that many times in all."""
        while self.starts < times:
            await self._next_change()

    async def _live(self, life: ProcessLife) -> None:
        try:
            await self._main()
        except Exception as error:  # noqa: BLE001 - this is where a process ends; `World` reports the error
            self.error = error
            self._world.trace.record("process.failed", error=type(error).__name__)
        finally:
            await self._end_own_tasks(life)
            self._world.trace.record("process.exit")
            self._exited = life
            life.end()

    async def _end_own_tasks(self, life: ProcessLife) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        others = [task for task in loop.live_tasks() if task.life is life and task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _down(self, life: ProcessLife) -> None:
        if self._world.open and self._exited is not life:
            self._world.trace.record("process.crash", by=self.name)
        if self._world.open and self._restart_after is not None:
            # Outside every life: what brings the process back must not die with it.
            asyncio.get_running_loop().call_later(self._restart_after, self._come_back, life, context=Context())
        self._tell()

    def _come_back(self, former: ProcessLife) -> None:
        if self._world.open and self._life is former:
            self.error = None
            self.start()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _next_change(self) -> None:
        await self._changed.wait()


class _Outside:
    """The host of what belongs to no process: simulators of the outside world, late arrivals."""

    def __init__(self) -> None:
        self.life: ProcessLife | None = ProcessLife("world")


class World:
    """What one simulated run is made of: the seed, the clock, the trace, the faults and the processes.

    Open it inside the virtual-time loop (`simulate` does). Closing it kills what still runs, without a word in the
    trace, and raises if a process without `restart_after` has failed.
    """

    def __init__(self, seed: int | str = 0, *, clock: Clock | None = None) -> None:
        self.seed = seed
        self.clock: Clock = clock or LoopClock()
        self.trace = Trace()
        self.open = True
        self.processes: dict[str, Process] = {}
        self._outside = _Outside()
        self.faults = Faults(self.rng("faults"), trace=self.trace, clock=self.clock, life=self._outside.life)

    def rng(self, purpose: str) -> random.Random:
        """A generator of its own for each purpose, so that a new draw in one place does not change all others."""
        return seeded(f"{purpose} of {self.seed}")

    def process(
        self, name: str, main: Callable[[], Coroutine[Any, Any, object]], *, restart_after: float | None = None
    ) -> Process:
        """Add a process and start it. Names are unique in a world."""
        if name in self.processes:
            raise SimulationError(f"there is already a process {name!r}")
        self.processes[name] = Process(self, name, main, restart_after=restart_after)
        return self.processes[name].start()

    def transport(
        self,
        app: App,
        *,
        host: Host | None = None,
        latency: tuple[float, float] = (0.0, 0.0),
        faults: bool = True,
        purpose: str = "latency",
    ) -> httpx2.AsyncBaseTransport:
        """A way to an app that runs in a process (`host`) or, without one, somewhere outside that never fails by itself."""
        where = host or self._outside
        inner = InProcessTransport(app, host=where, rng=self.rng(purpose), latency=latency, clock=self.clock)
        return FaultyTransport(inner, self.faults) if faults else inner

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
        failed = [process for process in self.processes.values() if process.failed_for_good]
        if failed and error is None:
            raise SimulationError(f"process {failed[0].name} failed: {failed[0].error!r}") from failed[0].error

    def close(self) -> None:
        """End every life of this world; nothing happens in it any more."""
        self.open = False
        for life in [*(process.life for process in self.processes.values()), self._outside.life]:
            if life is not None:
                life.end()


@dataclass(frozen=True)
class ProcessOutcome(Generic[T]):
    """What a simulated run gave: the scenario's result and the world as it was left."""

    result: T
    world: World

    @property
    def trace(self) -> str:
        return self.world.trace.text()


def simulate(scenario: Callable[[World], Awaitable[T]], *, seed: int | str, limit: float = DAY) -> ProcessOutcome[T]:
    """Run a scenario in a fresh world, in virtual time. An error carries the seed and the end of the trace as notes."""
    world: list[World] = []

    async def main() -> T:
        world.append(World(seed))
        async with world[0]:
            return await scenario(world[0])

    try:
        result = run(main, seed=seed, limit=limit)
    except BaseException as error:
        lines = world[0].trace.text().splitlines()[-20:] if world else []
        if lines:
            error.add_note("the trace ended:\n" + "\n".join(lines))
        raise
    return ProcessOutcome(result, world[0])
