"""What the page watches: the caches of the operator, and those that only a page needs."""

import random
from collections.abc import Callable
from typing import Any

from paddock.base.clock import Clock
from paddock.hosts.api import MacFleet
from paddock.hosts.operator import HostOperator
from paddock.kube.builtin import Event, Pod
from paddock.kube.client import Client
from paddock.kube.informer import Informer
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api import RunnerPool
from paddock.web.view import FleetView, picture

__all__ = ["Watched"]


class Watched:
    """Takes pictures of the caches, and tells when they changed."""

    def __init__(
        self,
        manager: Manager,
        operator: HostOperator,
        client: Client,
        clock: Clock,
        chance: random.Random,
        metrics: KubeMetrics,
    ) -> None:
        self._manager = manager
        self._operator = operator
        self._clock = clock
        self._fleets = Informer(client, MacFleet, clock=clock, chance=chance, metrics=metrics)
        self._pools = Informer(client, RunnerPool, clock=clock, chance=chance, metrics=metrics)
        self._pods = Informer(client, Pod, clock=clock, chance=chance, metrics=metrics)
        self._events = Informer(client, Event, clock=clock, chance=chance, metrics=metrics)
        for informer in self._own():
            manager.add_informer(informer)

    def _own(self) -> list[Informer[Any]]:
        return [self._fleets, self._pools, self._pods, self._events]

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever something that the page shows may have changed."""
        for informer in (*self._own(), self._operator.hosts, self._operator.machines):
            informer.add_handler(lambda _: tell())

    def view(self) -> FleetView:
        """The picture of this moment."""
        return picture(
            self._operator.hosts.reader.list(),
            self._operator.machines.reader.list(),
            self._fleets.reader.list(),
            self._pools.reader.list(),
            self._pods.reader.list(),
            self._events.reader.list(),
            [*self._manager.problems().values(), *self._operator.inventory.problems.values()],
            self._clock.now(),
        )
