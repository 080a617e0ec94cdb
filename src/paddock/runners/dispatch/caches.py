"""What a dispatch process knows of the cluster: pools, runner Pods, their accounts, Nodes. It needs the API server alone."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

from paddock.base.clock import Clock
from paddock.base.supervise import keep_running
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api import RUNNER_LABEL, RunnerPool

__all__ = ["RunnerCaches"]


class RunnerCaches:
    """One cache of each kind, for everybody in the process. Whoever makes them runs them, and does not wait for a store."""

    def __init__(
        self, client: Client, namespace: str, *, clock: Clock, rng: random.Random, metrics: KubeMetrics | None = None
    ) -> None:
        self._clock, self._rng = clock, rng
        self.pools = Informer(
            client, RunnerPool, clock=clock, rng=rng, metrics=metrics, namespace=namespace, name="pools"
        )
        self.pods = Informer(
            client,
            Pod,
            clock=clock,
            rng=rng,
            metrics=metrics,
            namespace=namespace,
            label_selector=f"{RUNNER_LABEL}=true",
            name="runner pods",
        )
        self.accounts = Informer(
            client,
            ServiceAccount,
            clock=clock,
            rng=rng,
            metrics=metrics,
            namespace=namespace,
            name="runner serviceaccounts",
        )
        self.nodes = Informer(client, Node, clock=clock, rng=rng, metrics=metrics, name="nodes")

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._all():
                group.create_task(keep_running(informer.name, informer.run, self._clock, self._rng), name=informer.name)

    def waiting_for(self) -> list[str]:
        """The caches that are not complete yet, each with what keeps it from it."""
        missing = [informer for informer in self._all() if not informer.synced.is_set()]
        return [f"{i.name}: {i.problem or 'the first list is under way'}" for i in missing]

    def problem(self) -> str | None:
        """Why one of them does not follow the cluster at the moment."""
        return next((informer.problem for informer in self._all() if informer.problem is not None), None)

    def _all(self) -> Sequence[Informer[Any]]:
        return (self.pools, self.pods, self.accounts, self.nodes)
