"""Healing put together: which workers one process runs, what they read, and what a watch event sets off.

The order of reading is each worker's own affair (`docs/design/healing.md`); here is only who is given what.
"""

import asyncio
import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.metrics import CollectorRegistry
from paddock.clients.github import GitHub
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.events import EventRecorder
from paddock.kube.metrics import KubeMetrics
from paddock.kube.reader import FreshReader
from paddock.kube.store import CacheChange
from paddock.runners.api.settings import DispatchSettings, HealingSettings
from paddock.runners.healing.healer import Healer
from paddock.runners.healing.hung_listeners import HungListeners
from paddock.runners.healing.immortal_pods import ImmortalPods
from paddock.runners.healing.leaked_pods import LeakedPods
from paddock.runners.healing.left_claims import LeftClaims
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.missing_pods import MissingPods
from paddock.runners.healing.observations import count_pods
from paddock.runners.healing.offline_runners import OfflineRunners
from paddock.runners.healing.orphaned_jobs import OrphanedJobs
from paddock.runners.healing.queued_jobs import Announce, LongQueued, UnheardJobs
from paddock.runners.healing.reaping import ReapContext
from paddock.runners.healing.redelivery import Redelivery
from paddock.runners.healing.service_accounts import OrphanServiceAccounts
from paddock.runners.healing.worker import Report, Worker
from paddock.runners.ledger import Ledger

__all__ = ["HealingContext", "HealingService"]

_log = get_logger("healing")


@dataclass(frozen=True, slots=True, kw_only=True)
class HealingContext:
    """What healing reads and acts with; `announce` is how a job that GitHub never announced enters the queue."""

    ledger: Ledger
    github: GitHub
    client: Client
    announce: Announce
    clock: Clock
    rng: random.Random
    registry: CollectorRegistry
    kube_metrics: KubeMetrics
    webhooks: bool = True
    """Whether webhooks are taken at all: where they are not, GitHub is not asked to deliver them again."""


class HealingService:
    """Runs every worker of this process. `watch` is the handler for an informer of runner Pods."""

    def __init__(self, context: HealingContext, settings: DispatchSettings) -> None:
        self._context = context
        self._settings = settings
        self._fresh = FreshReader(context.client)
        self._count = count_pods(self._fresh, settings.namespace)
        self._tasks: set[asyncio.Task[None]] = set()
        self.metrics = HealingMetrics(context.registry)
        self._events = EventRecorder(
            context.client, "paddock", clock=context.clock, rng=context.rng, metrics=context.kube_metrics
        )
        self.orphans = self._orphans(settings.healing)
        dry = replace(settings.healing, report_only=frozenset({"*"}))
        self.healer = Healer(
            self._workers(settings.healing, self.orphans),
            context.ledger,
            context.clock,
            context.rng,
            metrics=self.metrics,
            rehearsals=self._workers(dry, self._orphans(dry)),
        )

    def _orphans(self, settings: HealingSettings) -> OrphanedJobs:
        given = self._context
        return OrphanedJobs(given.ledger, given.github, self._count, settings, given.clock)

    def _workers(self, settings: HealingSettings, orphans: OrphanedJobs) -> Sequence[Worker]:
        given = self._context
        ledger, github, client, clock = given.ledger, given.github, given.client, given.clock
        namespace, metrics = self._settings.namespace, self.metrics
        reaping = ReapContext(
            ledger=ledger,
            client=client,
            github=github,
            clock=clock,
            namespace=namespace,
            metrics=metrics,
            events=self._events,
            ask=self.check,
        )
        return (
            LeftClaims(ledger, github, settings, clock),
            orphans,
            LeakedPods(reaping, settings),
            HungListeners(reaping, settings),
            MissingPods(ledger, client, github, settings, clock, namespace=namespace, metrics=metrics, ask=self.check),
            LongQueued(ledger, github, settings, clock),
            UnheardJobs(ledger, github, given.announce, settings, clock),
            Redelivery(ledger, {"github": github} if given.webhooks else {}, settings, clock),
            OrphanServiceAccounts(client, settings, clock, namespace=namespace, metrics=metrics),
            ImmortalPods(client, settings, clock, namespace=namespace, metrics=metrics),
            OfflineRunners(ledger, github, self._count, settings, clock),
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._events.run(), name="healing events")
            group.create_task(self.healer.run(), name="healing")

    async def check(self, job_ids: Collection[int], pod_uid: str) -> Report:
        """These jobs ran on a Pod that ended: GitHub is asked about them now, and what was healed is written down."""
        report = await self.orphans.check(job_ids, pod_uid)
        await self.healer.note(self.orphans.name, report, keep=False)
        return report

    def watch(self, change: CacheChange[Pod]) -> None:
        """A runner Pod was seen to go: what it held is let go now, not at the next sweep."""
        if change.kind != "deleted" or change.old is None:
            return
        pod = change.old
        task = asyncio.create_task(self._gone(pod), name=f"pod {pod.metadata.name} is gone")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _gone(self, pod: Pod) -> None:
        ended = [
            s.state.terminated.finished_at for s in pod.status.container_statuses if s.state.terminated is not None
        ]
        last = max((moment for moment in ended if moment is not None), default=pod.metadata.deletion_timestamp)
        await self.healer.pod_gone(pod.metadata.uid, name=pod.metadata.name, ended_at=last)
