"""The dispatch process put together: webhook, dispatch, internal routes, healing, and what page and CLI read.

`paddock dispatch` runs this against a cluster and a Postgres of yours, `paddock up` against its own. Any number of
processes may run it at once: what must not happen twice is settled by the ledger.
"""

import asyncio
import random
from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.base.supervise import keep_running
from paddock.clients.github import Forge
from paddock.kube.client import Client
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.runners.announcements.handling import Announcements
from paddock.runners.api import RunnerPool
from paddock.runners.books_ledger import LedgerBooks
from paddock.runners.dispatch.service import DispatchService
from paddock.runners.forgetting import Forgetting
from paddock.runners.healing.leaks_api import leaks_route
from paddock.runners.healing.ward import Ward
from paddock.runners.internal_api import internal_routes
from paddock.runners.ledger import Ledger, Listener
from paddock.runners.queue_metrics import QueueCollector
from paddock.runners.readonly_api import readonly_routes
from paddock.runners.rewind_api import rewind_route
from paddock.runners.settings import DispatchSettings
from paddock.runners.standing_limits import StandingLimits
from paddock.runners.token_authenticator import TokenAuthenticator
from paddock.runners.webhook import webhook_route
from paddock.runners.why_api import Explainer, why_routes

__all__ = ["RunnerService"]


class RunnerService:
    """Serve `routes`, run `run()`, and at the end `await stop()` before the HTTP server goes."""

    def __init__(
        self,
        ledger: Ledger,
        listener: Listener,
        forge: Forge,
        client: Client,
        *,
        secrets: Callable[[], Sequence[Secret]],
        settings: DispatchSettings,
        clock: Clock,
        chance: random.Random,
        registry: CollectorRegistry,
        kube_metrics: KubeMetrics,
        name: str = "dispatch",
    ) -> None:
        self._clock, self._chance = clock, chance
        self.ledger = ledger
        self.forge = forge
        self.settings = settings
        self.pools = Informer(
            client,
            RunnerPool,
            clock=clock,
            chance=chance,
            metrics=kube_metrics,
            namespace=settings.namespace,
            name="pools",
        )
        self.dispatch = DispatchService(
            ledger,
            forge,
            client,
            pools=self.pools.reader,
            listener=listener,
            settings=settings,
            clock=clock,
            chance=chance,
            registry=registry,
            name=name,
            kube_metrics=kube_metrics,
        )
        self.announcements = Announcements(ledger, self._known_pools, clock, chance, registry)
        self.ward = Ward(ledger, forge, client, self.pools.reader, settings, clock, chance, registry, kube_metrics)
        self.dispatch.pods.add_handler(self.ward.watch)
        self.books = LedgerBooks(ledger, clock, recheck=self.ward.check)
        self.queue = QueueCollector(ledger, lambda: [pool.metadata.name for pool in self.pools.reader.list()], clock)
        self.explainer = Explainer(ledger, self.dispatch.pods.reader, self.pools.reader, settings, clock)
        registry.register(self.queue)
        self.forgetting = Forgetting(ledger, settings.retention, clock, registry)
        self.routes: list[Route] = [
            webhook_route(ledger, secrets, settings, wake=self.announcements.wake, registry=registry),
            *self.dispatch.routes,
            *internal_routes(self.books, TokenAuthenticator(self.dispatch.tokens), ledger.progress.note, settings),
        ]
        self.readable: list[Route] = [
            *readonly_routes(ledger, self.queue.strip),
            *why_routes(self.explainer),
            leaks_route(self.ward.healer),
            rewind_route(ledger, clock),
        ]
        """What only operators may reach: it shows names of every account."""

    async def run(self) -> None:
        """Work until cancelled; each part is started again when it fails."""
        work = {
            "pools": self.pools.run,
            "dispatch": self.dispatch.run,
            "announcements": self.announcements.run,
            "queue metrics": self.queue.run,
            "healing": self.ward.run,
            "forgetting": self.forgetting.run,
            "limits": StandingLimits(self.ledger, self.settings.limits, self._clock).run,
        }
        async with asyncio.TaskGroup() as group:
            for name, run in work.items():
                group.create_task(keep_running(name, run, self._clock, self._chance), name=name)

    async def stop(self) -> None:
        """Claim nothing more, finish what is being served, send everybody else away with a word. Bounded."""
        await self.dispatch.stop()

    def waiting_for(self) -> list[str]:
        """The caches that are not complete yet, each with what keeps it from it; empty once it can serve."""
        informers = (self.pools, self.dispatch.pods, self.dispatch.accounts)
        return [f"{i.name}: {i.problem or 'the first list is under way'}" for i in informers if not i.synced.is_set()]

    def _known_pools(self) -> Sequence[RunnerPool] | None:
        """None until they were read once: without pools every announcement would be ignored for want of one."""
        return self.pools.reader.list() if self.pools.synced.is_set() else None
