"""The service that keeps the listeners, on a real ledger: GitHub is simulated at sixty times its speed, nobody serves the jobs."""

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from integration.schemas import Schemas
from prometheus_client import CollectorRegistry

from paddock.base.clock import SystemClock
from paddock.clients.github import GitHubClient
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import Ledger
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets.counting import Pace
from paddock.runners.scale_sets.metrics import ScaleSetMetrics
from paddock.runners.scale_sets.service import Listeners, ListenersContext
from paddock.simulator.github import SimulatedGitHub

LABEL = "macos-26"
PACE = Pace(capacity=0.1, at_once=0.02, statistics=0.5, suspicion=0.3, refused=1.0)


def pool(name: str = "macos", label: str = LABEL, *, days: int = 0, **changes: object) -> RunnerPool:
    """A pool that was made so many days ago."""
    spec: dict[str, object] = {
        "image": "runner:1",
        "fleet_selector": "macs",
        "dispatch_label": label,
        "runner_labels": ("x",),
        "replicas": 2,
        "job_source": "ScaleSet",
    }
    made = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(days=days)
    return RunnerPool(
        metadata=ObjectMeta(name=name, creation_timestamp=made),
        spec=RunnerPoolSpec(**{**spec, **changes}),  # pyright: ignore[reportArgumentType]
    )


class _CountedListeners(Listeners):
    """How often it has looked at everything."""

    rounds = 0

    async def _round(self) -> None:
        await super()._round()
        self.rounds += 1


class ListenersWorld:
    """One organisation, `pools` as the cluster would show them, and one dispatch process at a time."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.pools: list[RunnerPool] = [pool()]
        self.clock, self.rng = SystemClock(), random.Random(5)
        self.github = SimulatedGitHub(self.clock, self.rng, speed=60.0, audit=False)
        self.account = self.github.add_organization("acme", "app")
        self.client = GitHubClient(self.github.settings(), self.clock, self.rng, self.github.transport())
        self._process: asyncio.Task[None] | None = None
        self._listeners: _CountedListeners | None = None

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        outside = asyncio.create_task(self.github.run())
        number = self.account.id
        await self.ledger.accounts.enrol(number, "acme", self.account.installation_id)
        await self.ledger.allow_list.allow(number, "acme", by="test", why="as the test needs it")
        await self.ledger.limits.set(number, "macos", vcpus=600, memory_mb=14_336_000, by="test", why="enough")
        try:
            yield
        finally:
            await self.stop()
            outside.cancel()
            await asyncio.gather(outside, return_exceptions=True)
            await self.client.aclose()

    async def start(self) -> None:
        number = await self.ledger.dispatchers.register("a")

        async def dispatcher() -> int:
            await self.ledger.dispatchers.beat(number)
            return number

        context = ListenersContext(
            ledger=self.ledger,
            github=self.client,
            scale_sets=self.client.scale_sets,
            pools=lambda: self.pools,
            dispatcher=dispatcher,
            clock=self.clock,
            rng=self.rng,
            metrics=ScaleSetMetrics(CollectorRegistry()),
            pace=PACE,
            every=0.2,
        )
        self._listeners = _CountedListeners(context)
        self._process = asyncio.create_task(self._listeners.run())

    async def rounds(self, count: int) -> None:
        """Until the process has looked at everything so many times more."""
        listeners = self._listeners
        assert listeners is not None
        begun = listeners.rounds
        await self.until(f"{count} rounds", lambda: listeners.rounds >= begun + count)

    async def stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.cancel()
            with suppress(asyncio.CancelledError):
                await process

    async def source(self, name: str = "macos") -> Source | None:
        return next((found for found in await self.ledger.scale_sets.sources() if found.pool == name), None)

    async def reaches(self, state: str, name: str = "macos", *, within: float = 10.0) -> Source:
        """The source once it is in that state."""

        async def so() -> bool:
            found = await self.source(name)
            return found is not None and found.state == state

        await self.until(f"{name} is {state}", so, within=within)
        found = await self.source(name)
        assert found is not None
        return found

    async def until(self, what: str, true: Callable[[], bool | Awaitable[bool]], *, within: float = 10.0) -> None:
        deadline = self.clock.monotonic() + within
        while True:
            answer = true()
            if await answer if inspect.isawaitable(answer) else answer:
                return
            assert self.clock.monotonic() < deadline, f"not within {within} s: {what}; {await self.said()}"
            await asyncio.sleep(0.05)

    async def said(self) -> str:
        rows = [(s.pool, s.state, s.sentence, s.scale_set_id) for s in await self.ledger.scale_sets.sources()]
        return f"{rows} {[(s.name, s.session, s.capacity) for s in self.github.state.scale_sets.values()]}"


@asynccontextmanager
async def listeners_world(schemas: Schemas) -> AsyncIterator[ListenersWorld]:
    schema = schemas.take()
    async with schemas.ledger(schema, SystemClock(), random.Random(7)) as ledger:
        world = ListenersWorld(ledger)
        async with world.living():
            yield world
    await schemas.give_back(schema)
