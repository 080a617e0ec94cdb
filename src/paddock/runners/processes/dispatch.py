"""The dispatch process put together: webhook, dispatch, internal routes, healing, and what page and CLI read.

`paddock dispatch` runs this against a cluster and a Postgres of yours, `paddock up` against its own. Any number of
processes may run it at once: what must not happen twice is settled by the ledger.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.base.supervise import keep_running
from paddock.clients.github import GitHub, ScaleSets
from paddock.kube.client import Client
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api import RunnerPool
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.dispatch.service import DispatchContext, DispatchService
from paddock.runners.healing.last_words import LastWords
from paddock.runners.healing.service import HealingContext, HealingService
from paddock.runners.http.accounts import accounts_routes
from paddock.runners.http.budget_metrics import BudgetCollector
from paddock.runners.http.concern import Concern
from paddock.runners.http.concerns import blind_concern, writes_concern
from paddock.runners.http.ended import ended_routes
from paddock.runners.http.history import history_route
from paddock.runners.http.internal import internal_routes
from paddock.runners.http.job_costs import JobCosts
from paddock.runners.http.leaks import leaks_route
from paddock.runners.http.readonly import readonly_routes
from paddock.runners.http.rewind import rewind_route
from paddock.runners.http.why import Explainer, why_routes
from paddock.runners.ledger import Ledger, Listener
from paddock.runners.ledger.configured_limits import ConfiguredLimits
from paddock.runners.ledger.job_metrics import JobMetrics
from paddock.runners.ledger.queue_metrics import QueueCollector
from paddock.runners.ledger.retention import RetentionWorker
from paddock.runners.pools.retirement import LedgerRetirementApi
from paddock.runners.scale_sets.github_view import GitHubView
from paddock.runners.scale_sets.metrics import ScaleSetMetrics, SourceCollector
from paddock.runners.scale_sets.service import Listeners, ListenersContext
from paddock.runners.tenants.configured import ConfiguredAccounts
from paddock.runners.webhooks.receive import webhook_route
from paddock.runners.webhooks.reconciled import enqueue_from_github
from paddock.runners.webhooks.rerouting import Rerouter
from paddock.runners.webhooks.worker import WebhookWorker

__all__ = ["RunnerContext", "RunnerService"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """What a dispatch process works with. `secrets` gives the webhook secrets that are valid now; `name` is its own."""

    ledger: Ledger
    listener: Listener
    github: GitHub
    client: Client
    caches: RunnerCaches
    """The caller runs them."""
    secrets: Callable[[], Sequence[Secret]]
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry
    kube_metrics: KubeMetrics
    name: str = "dispatch"
    concerns: Callable[[], Sequence[Concern]] = tuple
    """What the process knows of what it stands on, beside what the service sees itself."""
    scale_sets: ScaleSets | None = None
    """Without it pools with `jobSource: ScaleSet` hear of no job."""


class RunnerService:
    """Serve `routes`, run `run()`, and at the end `await stop()` before the HTTP server goes."""

    def __init__(self, context: RunnerContext, settings: DispatchSettings) -> None:
        ledger, github, client = context.ledger, context.github, context.client
        clock, rng, registry, kube_metrics = context.clock, context.rng, context.registry, context.kube_metrics
        self._clock, self._rng = clock, rng
        self._process_concerns = context.concerns
        self.ledger = ledger
        self.github = github
        self.settings = settings
        self._caches = context.caches
        self.pools = context.caches.pools
        self.dispatch = DispatchService(
            DispatchContext(
                ledger=ledger,
                github=github,
                client=client,
                caches=context.caches,
                listener=context.listener,
                clock=clock,
                rng=rng,
                registry=registry,
                name=context.name,
                scale_sets=context.scale_sets,
            ),
            settings,
        )
        self.webhooks = WebhookWorker(ledger, self._known_pools, clock, rng, registry)
        self.rerouter = Rerouter(ledger, self._known_pools, clock)
        self.healing = HealingService(
            HealingContext(
                ledger=ledger,
                github=GitHubView(github, ledger.assignments),
                client=client,
                announce=enqueue_from_github(ledger, self.pools.reader.list, clock),
                clock=clock,
                rng=rng,
                registry=registry,
                kube_metrics=kube_metrics,
                webhooks=bool(context.secrets()),
            ),
            settings,
        )
        self.dispatch.pods.add_handler(self.healing.watch)
        self.retirement = LedgerRetirementApi(
            ledger,
            clock,
            recheck=self.healing.check,
            last_words=LastWords(client, clock, settings.namespace),
        )
        self.queue = QueueCollector(
            ledger,
            lambda: [pool.metadata.name for pool in self.pools.reader.list()],
            clock,
            scale_sets=lambda: any(pool.spec.job_source == "ScaleSet" for pool in self.pools.reader.list()),
        )
        self.explainer = Explainer(
            ledger, self.queue.of_pool, self.dispatch.pods.reader, self.pools.reader, settings, clock
        )
        self.costs = JobCosts(ledger, self.pools.reader.list)
        registry.register(self.queue)
        self.sources = SourceCollector(ledger, clock)
        registry.register(self.sources)
        self.listeners = None if context.scale_sets is None else self._listeners(context, context.scale_sets)
        ledger.jobs.metrics = JobMetrics(registry)
        registry.register(BudgetCollector(github.budgets))
        self.retention = RetentionWorker(ledger, settings.retention, clock, registry)
        internal = internal_routes(
            self.retirement, self.dispatch.tokens, ledger.progress.note, ledger.runner_logs.append, settings
        )
        self.strangers: list[Route] = [
            webhook_route(ledger, context.secrets, settings, inbox=self.webhooks, registry=registry),
            *self.dispatch.routes,
            *internal.pods,
        ]
        """What GitHub and Pods come to."""
        self.operators: list[Route] = internal.operators
        """What the operator asks, and nobody else may: where it has a listener of its own, it is served there alone."""
        self.routes: list[Route] = [*self.strangers, *self.operators]
        self.readable: list[Route] = [
            *readonly_routes(ledger, self.queue.summary, self.costs),
            *why_routes(self.explainer),
            leaks_route(self.healing.healer),
            rewind_route(ledger, clock),
            history_route(ledger, clock),
            *ended_routes(self.costs, clock),
            *accounts_routes(ledger, github, self.dispatch.tokens, settings),
        ]
        """What only operators may reach: it shows names of every account. `concerns` are served by the process, which has some before it has this."""

    async def run(self) -> None:
        """Work until cancelled; each part is started again when it fails."""
        work = {
            "dispatch": self.dispatch.run,
            "webhooks": self.webhooks.run,
            "routing": self.rerouter.run,
            "queue metrics": self.queue.run,
            "healing": self.healing.run,
            "retention": self.retention.run,
            "limits": ConfiguredLimits(self.ledger, self.settings.limits, self._clock).run,
            "job sources": self.sources.run,
            "accounts": ConfiguredAccounts(self.ledger, self.github, self.settings.allow_accounts, self._clock).run,
        }
        if self.listeners is not None:
            work["scale sets"] = self.listeners.run
        async with asyncio.TaskGroup() as group:
            for name, run in work.items():
                group.create_task(keep_running(name, run, self._clock, self._rng), name=name)

    def _listeners(self, context: RunnerContext, scale_sets: ScaleSets) -> Listeners:
        return Listeners(
            ListenersContext(
                ledger=context.ledger,
                github=context.github,
                scale_sets=scale_sets,
                pools=self._known_pools,
                dispatcher=self.dispatch.dispatcher_number,
                clock=context.clock,
                rng=context.rng,
                metrics=ScaleSetMetrics(context.registry),
                name=context.name,
                every=self.settings.beat,
                silent=self.settings.healing.silent_dispatcher,
            )
        )

    async def stop(self) -> None:
        """Claim nothing more, finish what is being served, send everybody else away with a word. Bounded."""
        await self.dispatch.stop()

    def concerns(self) -> list[Concern]:
        """What this process stands on and how that is: the same for status, page, `/healthz` and doctor."""
        refused = writes_concern(self.ledger.refusals.standing(), "the ledger's database", "no job is claimed")
        return [*refused, *blind_concern(self._caches.problem()), *self._process_concerns()]

    def _known_pools(self) -> Sequence[RunnerPool] | None:
        """None until they were read once: without pools every event would be ignored for want of one."""
        return self.pools.reader.list() if self.pools.synced.is_set() else None
