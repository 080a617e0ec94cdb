"""The page beside a dispatch process: for reading, from caches of its own, on the port that only operators reach."""

import asyncio
from collections.abc import Callable, Collection
from functools import partial

from starlette.types import ASGIApp

from paddock.base.supervise import keep_running
from paddock.kube.builtin import Lease
from paddock.kube.informer import Informer
from paddock.kube.leader import OPERATOR_LEASE
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.web.app import Pages, create_app
from paddock.web.front import front_parts
from paddock.web.guard import LOOPBACK
from paddock.web.ledger_reader import LedgerReader
from paddock.web.live import Live
from paddock.web.runbooks import Runbooks
from paddock.web.sampler import Sampler
from paddock.web.session_authentication import SessionAuthentication
from paddock.web.shell import Site
from paddock.web.watched import Sources, Watched

__all__ = ["ReadingPage"]


class ReadingPage:
    """Serve `app` and run `run()`; call `end()` before the server goes, or open pages would hold it up."""

    def __init__(
        self,
        service: RunnerService,
        context: RunnerContext,
        *,
        environment: str,
        names: Collection[str] = (),
        healthy: Callable[[], str | None],
    ) -> None:
        """`context` is the service's own. `names` are the host names that the page answers to besides those of loopback,
        which port-forwarding uses.
        """
        clock, rng, registry = context.clock, context.rng, context.registry
        self._clock, self._rng = clock, rng
        self._sources = Sources.of(
            context.client, clock, rng, context.kube_metrics, pools=service.pools, pods=service.dispatch.pods
        )
        self._ledger = LedgerReader(service, clock)
        self._leases = Informer(
            context.client,
            Lease,
            clock=clock,
            rng=rng,
            metrics=context.kube_metrics,
            field_selector=f"metadata.name={OPERATOR_LEASE}",
            name="page operator lease",
        )
        watched = Watched(self._sources, clock, ledger=self._ledger, concerns=service.concerns, leases=self._leases)
        runbooks = Runbooks()
        self._live = Live(
            lambda: partial(front_parts, watched.seen(), runbooks.href), clock, f"{rng.getrandbits(32):08x}"
        )
        watched.on_change(self._live.touch)
        self._sampler = Sampler(
            context.ledger, watched.complete, service.queue.summary, clock, who=f"dispatch {context.name}"
        )
        pages = Pages(
            watched,
            self._live,
            Site(environment),
            SessionAuthentication(None, clock, rng),
            None,
            runbooks=runbooks,
            past=True,
        )
        self.app: ASGIApp = create_app(pages, registry, healthy=healthy, names={*LOOPBACK, *names})

    async def run(self) -> None:
        """Until cancelled."""
        work = {informer.name: informer.run for informer in (*self._sources.own, self._leases)}
        work |= {"page's ledger": self._read, "live page": self._live.run, "sampler": self._sampler.run}
        async with asyncio.TaskGroup() as group:
            for name, run in work.items():
                group.create_task(keep_running(name, run, self._clock, self._rng), name=name)

    def end(self) -> None:
        self._live.end()

    async def _read(self) -> None:
        await self._ledger.run(self._live.touch)
