"""Dispatch as one object: what a process has to run and which route it has to serve."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.clients.github.contract import GitHub
from paddock.clients.github.scaleset import ScaleSets
from paddock.kube.client import Client
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.assignment import Assignments
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.dispatch.cluster import Observations, PublishedKeys
from paddock.runners.dispatch.dispatcher import Dispatcher
from paddock.runners.dispatch.handover import Handover, ServingContext
from paddock.runners.dispatch.heartbeat import Heartbeat
from paddock.runners.dispatch.held_requests import HeldRequests
from paddock.runners.dispatch.http import PATH, DispatchEndpoint
from paddock.runners.dispatch.identity import Tokens
from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.dispatch.pending_releases import PendingReleases
from paddock.runners.dispatch.review_limits import ReviewLimits
from paddock.runners.dispatch.waiting_pods import WaitingPods
from paddock.runners.ledger import Ledger, Listener
from paddock.runners.scale_sets.minting import ScaleSetMinting

__all__ = ["DispatchContext", "DispatchService"]

log = get_logger("dispatch")


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchContext:
    """What dispatch works with. `name` is the process's own."""

    ledger: Ledger
    github: GitHub
    client: Client
    caches: RunnerCaches
    listener: Listener
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry | None = None
    name: str = "dispatch"
    scale_sets: ScaleSets | None = None


class DispatchService:
    """Hands jobs to waiting Pods. Any number of processes may run one on the same ledger and cluster.

        async with Ledger.open(dsn, clock=clock) as ledger:
            listener = Listener(dsn, schema=SCHEMA, clock=clock, rng=rng, timeout=settings.backstop)
            dispatch = DispatchService(
                DispatchContext(
                    ledger=ledger, github=github, client=client, caches=caches, listener=listener,
                    clock=clock, rng=rng, registry=registry, name=hostname,
                ),
                settings,
            )
            app = Starlette(routes=[*dispatch.routes, ...])
            run `dispatch.run()` beside the HTTP server; at the end `await dispatch.stop()` first, then stop the
            server, so that the last answers still get out; then cancel `run()`.

    - `context.caches` follow the cluster; the caller runs them.
    - `tokens.principal(token, audience)` tells who the holder of an operator's token is, for the other internal routes.
    - The client's identity needs: create tokenreviews; get, list, watch, patch pods; get, list, watch serviceaccounts,
      nodes and runnerpools; and `/openid/v1/jwks`, which every ServiceAccount may read.
    """

    def __init__(self, context: DispatchContext, settings: DispatchSettings) -> None:
        ledger, client, clock, rng = context.ledger, context.client, context.clock, context.rng
        self._clock = clock
        self._rng = rng
        self._listener = context.listener
        self._notifications = ledger.notifications
        caches = context.caches
        self.pods, self.accounts, self.nodes = caches.pods, caches.accounts, caches.nodes
        self.metrics = DispatchMetrics(context.registry)
        observations = Observations(
            client,
            settings.namespace,
            pods=caches.pods.reader,
            accounts=caches.accounts.reader,
            pools=caches.pools.reader,
            nodes=caches.nodes.reader,
        )
        keys = PublishedKeys(client, clock)
        limits = ReviewLimits(clock, context.registry)
        self.tokens = Tokens(client, observations, keys, audience=settings.audience, clock=clock, limits=limits)
        self.waiting = WaitingPods()
        self._heartbeat = Heartbeat(ledger, context.name, clock, rng, every=settings.beat)
        self._pending_releases = PendingReleases(
            ledger, clock, rng, self.metrics, mine=self._heartbeat.mine, held=self.waiting.holds
        )
        serving = ServingContext(
            ledger=ledger,
            observations=observations,
            pending_releases=self._pending_releases,
            settings=settings,
            clock=clock,
            rng=rng,
            metrics=self.metrics,
        )
        minting = None if context.scale_sets is None else ScaleSetMinting(ledger, context.scale_sets)
        handover = Handover(serving, context.github, Assignments(client, clock), minting)
        self.dispatcher = Dispatcher(serving, self.waiting, handover, self._heartbeat)
        self.pods.add_handler(self.dispatcher.see)
        self.nodes.add_handler(self.dispatcher.see_node)
        self.requests = HeldRequests(self.dispatcher, clock)
        """Where a Pod waits that was proven otherwise than by its token."""
        self._endpoint = DispatchEndpoint(self.tokens, self.requests, settings, self.metrics)

    @property
    def routes(self) -> Sequence[Route]:
        """What the process's HTTP server has to serve."""
        return (Route(PATH, self._endpoint, methods=["POST"]),)

    async def run(self) -> None:
        """Dispatch until cancelled; the end is orderly (`stop`). Requests may arrive before it runs: they wait."""
        work = {
            "heartbeat": self._heartbeat.run,
            "hints": self._hear,
            "pending releases": self._pending_releases.run,
        }
        self.dispatcher.open()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(keep_running(name, run, self._clock, self._rng), name=name)
                for name, run in work.items()
            ]
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                # While the beat still goes: a process that finishes its claims must not be taken for dead.
                try:
                    await self.stop()
                finally:
                    for task in tasks:
                        task.cancel()

    async def dispatcher_number(self) -> int:
        """This process's number in the ledger, while it is believed to live."""
        return await self._heartbeat.current()

    async def stop(self) -> None:
        """Claim nothing more, finish what is being served, tell everybody else to ask again. Bounded, repeatable."""
        await self.dispatcher.stop()

    async def _hear(self) -> None:
        with self._notifications.heard_here(self.dispatcher.hear):
            async for pools in self._listener.hints(self._notifications.was_heard_here):
                self.dispatcher.hear(pools)
