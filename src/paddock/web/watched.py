"""What the pages watch: caches of the cluster, whoever keeps them, and the ledger where there is one."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from paddock.base.clock import Clock
from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Event, Lease, Node, Pod
from paddock.kube.client import Client
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.runners.api import RunnerPool
from paddock.runners.http.concern import Concern
from paddock.views.leadership import nobody_leads, observed
from paddock.web.ledger_reader import LedgerReader
from paddock.web.page_data import PageData

__all__ = ["Sources", "Watched"]


@dataclass(frozen=True, slots=True)
class Sources:
    """One cache a kind. `own` are those that no other component runs: run them (a manager's `add_informer` does)."""

    hosts: Informer[ScalewayAppleSiliconHost]
    machines: Informer[ScalewayAppleSiliconMachine]
    fleets: Informer[MacFleet]
    pools: Informer[RunnerPool]
    pods: Informer[Pod]
    nodes: Informer[Node]
    events: Informer[Event]
    own: tuple[Informer[Any], ...] = field(default=())

    @classmethod
    def of(
        cls,
        client: Client,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics,
        *,
        hosts: Informer[ScalewayAppleSiliconHost] | None = None,
        machines: Informer[ScalewayAppleSiliconMachine] | None = None,
        fleets: Informer[MacFleet] | None = None,
        pools: Informer[RunnerPool] | None = None,
        pods: Informer[Pod] | None = None,
    ) -> "Sources":
        """The caches that are given, and new ones for the rest."""
        own: list[Informer[Any]] = []

        def made(kind: Any, given: Informer[Any] | None = None) -> Informer[Any]:
            if given is not None:
                return given
            name = f"page {kind.RESOURCE.qualified}"
            own.append(Informer(client, kind, clock=clock, rng=rng, metrics=metrics, name=name))
            return own[-1]

        return cls(
            hosts=made(ScalewayAppleSiliconHost, hosts),
            machines=made(ScalewayAppleSiliconMachine, machines),
            fleets=made(MacFleet, fleets),
            pools=made(RunnerPool, pools),
            pods=made(Pod, pods),
            nodes=made(Node),
            events=made(Event),
            own=tuple(own),
        )

    def every(self) -> tuple[Informer[Any], ...]:
        return (self.hosts, self.machines, self.fleets, self.pools, self.pods, self.nodes, self.events)


class Watched:
    """Says what is seen at this moment, and tells when that may have changed."""

    def __init__(
        self,
        sources: Sources,
        clock: Clock,
        *,
        ledger: LedgerReader | None = None,
        told: Callable[[], Iterable[str]] = tuple,
        concerns: Callable[[], Sequence[Concern]] = tuple,
        leases: Informer[Lease] | None = None,
    ) -> None:
        """`leases` are those of operators; None where none is needed."""
        self.sources = sources
        self.ledger = ledger
        self._clock = clock
        self._told = told
        self._concerns = concerns
        self._leases = leases

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever something that a page shows may have changed."""
        for informer in self.sources.every():
            informer.add_handler(lambda _: tell())

    def seen(self) -> PageData:
        """This moment, from the caches and the ledger's last answer."""
        if self.ledger is not None:
            self.ledger.looked()
        return self._cached()

    def complete(self) -> PageData | None:
        """This moment where every cache is filled, else None; no browser looks, so the ledger is left alone."""
        filled = all(informer.synced.is_set() for informer in self.sources.every())
        return self._cached() if filled else None

    def _cached(self) -> PageData:
        sources, ledger = self.sources, self.ledger
        problems = [informer.problem for informer in sources.every() if informer.problem is not None]
        return PageData(
            now=self._clock.now(),
            hosts=sources.hosts.reader.list(),
            machines=sources.machines.reader.list(),
            fleets=sources.fleets.reader.list(),
            pools=sources.pools.reader.list(),
            pods=sources.pods.reader.list(),
            nodes=sources.nodes.reader.list(),
            events=sources.events.reader.list(),
            ledger=ledger.last if ledger is not None else None,
            runners=ledger is not None,
            budgets=ledger.budgets() if ledger is not None else (),
            report_only=ledger.report_only if ledger is not None else frozenset(),
            told=tuple(dict.fromkeys([*problems, *self._told()])),
            concerns=self._concerns(),
            unread=ledger.unread if ledger is not None else (),
            leaderless=self._leaderless(),
            leases=self._leases.reader.list() if self._leases is not None else (),
            heard_ago=min(informer.last_event_age() for informer in sources.every()),
        )

    def _leaderless(self) -> str:
        leases = self._leases
        if leases is None or not leases.synced.is_set() or leases.problem is not None:
            return ""  # where the leases cannot be seen, nobody can say
        looked_at = [
            *self.sources.machines.reader.list(),
            *self.sources.fleets.reader.list(),
            *self.sources.pools.reader.list(),
        ]
        return nobody_leads(leases.reader.list(), self._clock.now(), observed=observed(looked_at))

    async def look(self) -> PageData:
        """This moment, with the ledger asked if its last answer is old."""
        if self.ledger is not None:
            await self.ledger.fresh()
        return self.seen()
