"""Dispatch as one object: what a process has to run and which route it has to serve."""

import asyncio
import random
from collections.abc import Sequence

from prometheus_client import CollectorRegistry
from starlette.routing import Route

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.clients.github.contract import GitHub
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.kube.reader import CachedReader
from paddock.runners.api import RUNNER_LABEL, RunnerPool
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.assignment import Assignments
from paddock.runners.dispatch.cluster import KeySource, Observations, PublishedKeys
from paddock.runners.dispatch.dispatcher import Dispatcher
from paddock.runners.dispatch.handover import Handover
from paddock.runners.dispatch.heartbeat import Heartbeat
from paddock.runners.dispatch.http import PATH, DispatchEndpoint
from paddock.runners.dispatch.identity import Tokens
from paddock.runners.dispatch.metrics import DispatchMetrics
from paddock.runners.dispatch.pending_releases import PendingReleases
from paddock.runners.dispatch.waiting_pods import WaitingPods
from paddock.runners.ledger import Ledger, Listener

__all__ = ["DispatchService"]

log = get_logger("dispatch")


class DispatchService:
    """Hands jobs to waiting Pods. Any number of processes may run one on the same ledger and cluster.

        async with Ledger.open(dsn, clock=clock) as ledger:
            listener = Listener(dsn, schema=SCHEMA, clock=clock, rng=rng, timeout=settings.backstop)
            dispatch = DispatchService(
                ledger, github, client, pools=pool_informer.reader, listener=listener,
                settings=settings, clock=clock, rng=rng, registry=registry, name=hostname,
            )
            app = Starlette(routes=[*dispatch.routes, ...])
            run `dispatch.run()` beside the HTTP server; at the end `await dispatch.stop()` first, then stop the
            server, so that the last answers still get out; then cancel `run()`.

    - `pools` follows RunnerPools of `settings.namespace`; the informer is the caller's.
    - Pods (label `tuist.dev/runner`), ServiceAccounts and Nodes are followed by informers of its own (`pods`,
      `accounts`, `nodes`), unless the caller hands in those it runs already.
    - `tokens.principal(token, audience)` tells who the holder of an operator's token is, for the other internal routes.
    - The client's identity needs: create tokenreviews; get, list, watch, patch pods; get, list, watch serviceaccounts,
      nodes and runnerpools; and `/openid/v1/jwks`, which every ServiceAccount may read.
    """

    def __init__(
        self,
        ledger: Ledger,
        github: GitHub,
        client: Client,
        *,
        pools: CachedReader[RunnerPool],
        listener: Listener,
        settings: DispatchSettings,
        clock: Clock,
        rng: random.Random,
        registry: CollectorRegistry | None = None,
        name: str = "dispatch",
        pods: Informer[Pod] | None = None,
        accounts: Informer[ServiceAccount] | None = None,
        nodes: Informer[Node] | None = None,
        keys: KeySource | None = None,
        kube_metrics: KubeMetrics | None = None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._listener = listener
        namespace = settings.namespace
        self._own: list[Informer[Pod] | Informer[ServiceAccount] | Informer[Node]] = []
        if pods is None:
            pods = Informer(
                client,
                Pod,
                clock=clock,
                rng=rng,
                metrics=kube_metrics,
                namespace=namespace,
                label_selector=f"{RUNNER_LABEL}=true",
                name="runner pods",
            )
            self._own.append(pods)
        if accounts is None:
            accounts = Informer(
                client,
                ServiceAccount,
                clock=clock,
                rng=rng,
                metrics=kube_metrics,
                namespace=namespace,
                name="runner serviceaccounts",
            )
            self._own.append(accounts)
        if nodes is None:
            nodes = Informer(client, Node, clock=clock, rng=rng, metrics=kube_metrics, name="nodes")
            self._own.append(nodes)
        self.pods = pods
        self.accounts = accounts
        self.nodes = nodes
        self.metrics = DispatchMetrics(registry)
        observations = Observations(
            client, namespace, pods=pods.reader, accounts=accounts.reader, pools=pools, nodes=nodes.reader
        )
        keys = keys or PublishedKeys(client, clock)
        self.tokens = Tokens(client, observations, keys, audience=settings.audience, clock=clock)
        self.waiting = WaitingPods()
        self._heartbeat = Heartbeat(ledger, name, clock, rng, every=settings.beat)
        self._pending_releases = PendingReleases(
            ledger, clock, rng, self.metrics, mine=self._heartbeat.mine, held=self.waiting.holds
        )
        assignments = Assignments(client, clock)
        serving = Handover(
            ledger,
            github,
            self.tokens,
            assignments,
            observations,
            self._pending_releases,
            clock,
            rng,
            self.metrics,
            deadline=settings.serve_deadline,
        )
        self.dispatcher = Dispatcher(
            ledger,
            self.waiting,
            serving,
            self._pending_releases,
            self._heartbeat,
            observations,
            settings,
            clock,
            rng,
            self.metrics,
        )
        pods.add_handler(self.dispatcher.see)
        nodes.add_handler(self.dispatcher.see_node)
        self._endpoint = DispatchEndpoint(self.tokens, self.dispatcher, settings, clock, self.metrics)

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
            **{informer.name: informer.run for informer in self._own},
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

    async def stop(self) -> None:
        """Claim nothing more, finish what is being served, tell everybody else to ask again. Bounded, repeatable."""
        await self.dispatcher.stop()

    async def _hear(self) -> None:
        async for pools in self._listener.hints():
            self.dispatcher.hear(pools)
