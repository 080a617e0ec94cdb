"""A dispatch process put together: listeners and caches from the first second, jobs once the ledger is open."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount

from paddock.base.clock import Clock
from paddock.base.deferred_app import DeferredApp, unavailable
from paddock.base.http_server import Tls, bind, listening, serving_when_there
from paddock.base.metrics import CollectorRegistry
from paddock.base.secrets import Secret
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack, end
from paddock.cli.listeners import metrics_route, probe_routes
from paddock.clients.github import GitHub, ScaleSets
from paddock.kube.client import Client
from paddock.kube.manager import HealthProbes
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.http.concern import Concern
from paddock.runners.http.concerns import (
    blind_concern,
    certificate_concern,
    concerns_route,
    database_concern,
    unopened_concern,
)
from paddock.runners.ledger import SCHEMA, Ledger, Listener
from paddock.runners.ledger.opening import LedgerOpening
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.runners.processes.readiness import liveness, readiness
from paddock.web.guard import LOOPBACK, Guarded, guarded_routes
from paddock.web.reading import ReadingPage

__all__ = ["DispatchProcess", "Doors", "ProcessContext", "Storeless"]

_WAITS = "dispatch has no database yet, so nothing was done: ask again"


@dataclass(frozen=True, slots=True)
class Doors:
    """The sockets' addresses. None: there is no such listener."""

    outside: tuple[str, int]
    """For GitHub and Pods; for the operator, too, where it has no listener of its own."""
    metrics: tuple[str, int] | None = None
    internal: tuple[str, int] | None = None
    certificate: tuple[Path, Path] | None = None
    """Of the internal listener, with its key."""


@dataclass(frozen=True, slots=True)
class Storeless:
    """A part of the process that knows the API server alone. It runs, and its routes are served, from the first second."""

    runnables: Mapping[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    """By name; each is started again when it fails."""
    routes: Sequence[BaseRoute] = ()
    """For the outside, before those that need a store."""
    waiting_for: Callable[[], Sequence[str]] = tuple
    """Which of its caches are not complete yet, and why: until then the process is not ready."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessContext:
    """What a dispatch process works with. `secrets` gives the webhook secrets that are valid now."""

    dsn: str = field(repr=False)
    client: Client
    github: GitHub
    scale_sets: ScaleSets | None
    secrets: Callable[[], Sequence[Secret]]
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry
    kube_metrics: KubeMetrics
    page_hosts: Sequence[str] = ()
    schema: str = SCHEMA
    name: str = field(default_factory=socket.gethostname)


@final
class DispatchProcess:
    """`run` serves until `stop` is set. It ends by itself only with what no waiting can mend, which it raises.

    Without a database it is alive, shows what it waits for, and runs what needs the API server alone.
    """

    def __init__(
        self, context: ProcessContext, settings: DispatchSettings, doors: Doors, storeless: Sequence[Storeless] = ()
    ) -> None:
        clock, rng = context.clock, context.rng
        self._context, self._settings, self._doors = context, settings, doors
        self._caches = RunnerCaches(
            context.client, settings.namespace, clock=clock, rng=rng, metrics=context.kube_metrics
        )
        own = Storeless({"caches": self._caches.run}, waiting_for=self._caches.waiting_for)
        self._storeless = (own, *storeless)
        self._opening = LedgerOpening(
            lambda: Ledger.open(context.dsn, clock=clock, rng=rng, schema=context.schema, size=16), clock, rng
        )
        self._began = clock.monotonic()
        self._service: RunnerService | None = None
        self._page: ReadingPage | None = None
        waits = Mount("/", unavailable("no_ledger", lambda: _WAITS))
        self._routes = [route for part in self._storeless for route in part.routes]
        self._outside = DeferredApp(Starlette(routes=[*self._routes, waits]))
        self._internal = DeferredApp(Starlette(routes=[waits]))
        self._names = {*LOOPBACK, *context.page_hosts}
        self._readable = [
            metrics_route(context.registry),
            *probe_routes(lambda: liveness(self.concerns()), self.ready),
            *guarded_routes([concerns_route(self.concerns)], self._names),
        ]
        # Its sentence names the database's host and user: it is for those alone who may read the page.
        page = Guarded(unavailable("no_ledger", self._sentence), self._names, programs=True)
        self._operators = DeferredApp(Starlette(routes=[*self._readable, Mount("/", page)]))
        self.stop = asyncio.Event()

    async def run(self) -> None:
        async with AsyncExitStack() as stack:
            storeless = await stack.enter_async_context(TaskStack())
            for part in self._storeless:
                for name, run in part.runnables.items():
                    storeless.start(keep_running(name, run, self._context.clock, self._context.rng))
            jobs = asyncio.create_task(self._opening.run(self._serve_jobs), name="jobs")
            stack.push_async_callback(end, jobs)
            await self._listen(stack)
            stopping = asyncio.create_task(self.stop.wait())
            stack.push_async_callback(end, stopping)
            await asyncio.wait([stopping, jobs], return_when=asyncio.FIRST_COMPLETED)
            if jobs.done():
                jobs.result()
            elif self._service is not None:
                # While the server still answers: what is being served gets out, everybody else is told to ask again.
                await self._service.stop()

    async def _listen(self, stack: AsyncExitStack) -> None:
        context, doors = self._context, self._doors
        if doors.metrics is not None:
            # What shows names of accounts and repositories is here, where no runner Pod and no stranger comes.
            sock = bind(doors.metrics[1], "--metrics-bind-address", doors.metrics[0])
            await stack.enter_async_context(listening(self._operators, sock))
            stack.callback(self._end_page)
        if doors.internal is not None and doors.certificate is not None:
            sock = bind(doors.internal[1], "--internal-bind-address", doors.internal[0])
            internal = serving_when_there(self._internal, sock, Tls(*doors.certificate), context.clock)
            stack.push_async_callback(end, asyncio.create_task(internal, name="internal"))
        sock = bind(doors.outside[1], "--bind-address", doors.outside[0])
        await stack.enter_async_context(listening(self._outside, sock))

    async def _serve_jobs(self, ledger: Ledger) -> None:
        """All that needs the ledger is made here, once; from then on a database that goes away is its own business."""
        context, settings = self._context, self._settings
        runners = RunnerContext(
            ledger=ledger,
            listener=Listener(
                context.dsn, schema=context.schema, clock=context.clock, rng=context.rng, timeout=settings.backstop
            ),
            github=context.github,
            client=context.client,
            caches=self._caches,
            secrets=context.secrets,
            clock=context.clock,
            rng=context.rng,
            registry=context.registry,
            kube_metrics=context.kube_metrics,
            name=context.name,
            concerns=self.standing_concerns,
            scale_sets=context.scale_sets,
        )
        self._service = service = RunnerService(runners, settings)
        self._internal.serve(Starlette(routes=service.operators))
        outside = service.routes if self._doors.internal is None else service.strangers
        self._outside.serve(Starlette(routes=[*self._routes, *outside]))
        async with asyncio.TaskGroup() as group:
            group.create_task(service.run(), name="runners")
            if self._doors.metrics is not None:
                group.create_task(self._show(service, runners).run(), name="page")

    def _show(self, service: RunnerService, runners: RunnerContext) -> ReadingPage:
        self._page = page = ReadingPage(
            service,
            runners,
            environment=runners.client.config.server,
            names=self._context.page_hosts,
            healthy=lambda: None if (health := self.ready()).ok else health.text,
        )
        readable = guarded_routes(service.readable, self._names)
        self._operators.serve(Starlette(routes=[*self._readable, *readable, Mount("/", page.app)]))
        return page

    def concerns(self) -> list[Concern]:
        """What this process stands on, from its first second."""
        if self._service is not None:
            return self._service.concerns()
        unopened = unopened_concern(self._opening.unopened, self._context.clock.now())
        return [*unopened, *blind_concern(self._caches.problem()), *self.standing_concerns()]

    def standing_concerns(self) -> list[Concern]:
        """What is known of its ways in and out without asking anybody."""
        certificate = self._doors.certificate[0] if self._doors.internal and self._doors.certificate else None
        return [database_concern(self._context.dsn), certificate_concern(certificate, self._context.clock.now())]

    def ready(self) -> HealthProbes:
        return readiness(
            stopping=self.stop.is_set(),
            caches=[cache for part in self._storeless for cache in part.waiting_for()],
            unopened=self._opening.unopened is not None,
            alive_for=self._context.clock.monotonic() - self._began,
        )

    def _sentence(self) -> str:
        return "; ".join(
            f"{one.found} (since {one.since:%H:%M:%S} UTC); {one.fix}" if one.since else one.found
            for one in unopened_concern(self._opening.unopened, self._context.clock.now())
        )

    def _end_page(self) -> None:
        if self._page is not None:
            self._page.end()
