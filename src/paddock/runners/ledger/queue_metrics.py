"""What Prometheus reads of the queue. The gauges read the ledger itself, because a copy of it once said 78 for 3."""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.refusal_log import RefusalLog
from paddock.runners.ledger import Ledger, LedgerError, PoolSignals
from paddock.runners.ledger.eligible_waits import EligibleWaits
from paddock.runners.ledger.views import QueueSummary

__all__ = ["QueueCollector"]

_EVERY = 10.0
_SAID_EVERY = 300.0
_log = get_logger("ledger")


class QueueCollector(Collector):
    """Asks the ledger every few seconds, and shows its last answer; none at all while the ledger cannot be asked.

    A missing series pages through its `absent()` alert; an old number would look like health. `scale_sets` says whether
    some pool asks GitHub for its jobs.
    """

    def __init__(
        self,
        ledger: Ledger,
        pools: Callable[[], Iterable[str]],
        clock: Clock,
        *,
        scale_sets: Callable[[], bool] = lambda: False,
    ) -> None:
        self._ledger = ledger
        self._pools = pools
        self._clock = clock
        self.signals: dict[str, PoolSignals] = {}
        self.backlog: int | None = None
        self.lost_seconds: float | None = None
        self.unserved: int | None = None
        self.unsure: int | None = None
        self._timeout = EligibleWaits()
        self._unlisted = 0
        self._withheld = 0
        self._refusals = RefusalLog(_log, every=_SAID_EVERY)
        self._scale_sets = scale_sets

    async def run(self) -> None:
        """Keep asking until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(_EVERY)

    async def look(self) -> None:
        """Ask the ledger once."""
        try:
            self.signals, load = await self._ledger.signals.of_pools(self._pools())
            self.backlog = await self._ledger.deliveries.backlog()
            lost = await self._ledger.deliveries.lost()
            self.lost_seconds = 0.0 if lost is None else max(0.0, (self._clock.now() - lost.since).total_seconds())
            self.unserved = await self._ledger.signals.unserved()
            self.unsure = await self._ledger.rerouting.unsure()
            self._timeout.look(load.line, self._clock.now())
            self._say_who_may_not(sum(signals.not_allowed for signals in self.signals.values()))
            self._say_what_limits_hold(sum(signals.withheld for signals in self.signals.values()))
        except LedgerError:
            self.signals, self.backlog, self.unserved, self.unsure = {}, None, None, None
            self.lost_seconds = None
            self._timeout.forget()

    def _say_who_may_not(self, jobs: int) -> None:
        """When it begins, and not again before it was over: whoever installs the App decides how many there are."""
        if jobs and not self._unlisted:
            _log.warning(
                "jobs are kept and not run, because their accounts are not on the allow list",
                jobs=jobs,
                remedy="`paddock get jobs` names them, `paddock accounts allow NAME` allows one",
            )
        self._unlisted = jobs

    def _say_what_limits_hold(self, jobs: int) -> None:
        """When it begins, and no more than once in some minutes: an account at its limit comes and goes there all day."""
        if jobs and not self._withheld:
            why = "limits of their accounts hold jobs back"
            self._refusals.refused(
                "queue", why, usual=True, jobs=str(jobs), remedy="`paddock accounts list` shows limits"
            )
        self._withheld = jobs

    async def summary(self) -> QueueSummary:
        """The ledger's numbers of this moment; the wait of the oldest job counts from when its account had room."""
        summary, load = await self._ledger.overview.summary_and_line()
        now = self._clock.now()
        self._timeout.look(load.line, now)
        return replace(
            summary,
            oldest_dispatchable_seconds=self._eligible(summary.oldest_dispatchable_seconds, None),
            oldest_by_pool={pool: self._eligible(waited, pool) for pool, waited in summary.oldest_by_pool.items()},
            job_sources=await self._ledger.scale_sets.views(),
            undelivered=await self._ledger.deliveries.lost(),
            runner_troubles=await self._ledger.runner_troubles.now(),
            not_installed=await self._ledger.runner_troubles.not_installed(),
            not_listed=await self._ledger.scale_sets.not_listed() if self._scale_sets() else [],
        )

    async def of_pool(self, pool: str) -> PoolSignals:
        """The pool's load of this moment, with the same wait."""
        found, load = await self._ledger.signals.of_pools([pool])
        self._timeout.look(load.line, self._clock.now())
        waited = self._eligible(found[pool].oldest_dispatchable_seconds, pool)
        return replace(found[pool], oldest_dispatchable_seconds=waited)

    def _eligible(self, waited: float, pool: str | None) -> float:
        """Of that wait what was not for the limit of its account."""
        return max(0.0, min(waited, self._timeout.longest(self._clock.now(), pool).total_seconds()))

    def collect(self) -> Iterator[Metric]:
        oldest = GaugeMetricFamily(
            "paddock_queue_oldest_dispatchable_seconds",
            "How long the oldest job that may run now has waited since it may.",
            labels=["pool"],
        )
        jobs = GaugeMetricFamily(
            "paddock_queue_jobs",
            "Jobs that wait: those that may run now, those that a limit, a failed mint or an approval holds back, and those of nobody on the allow list.",
            labels=["pool", "state"],
        )
        claims = GaugeMetricFamily(
            "paddock_claims",
            "Claims that are held: being minted, handed out and not heard of yet, executing a job.",
            labels=["pool", "state"],
        )
        too_old = GaugeMetricFamily(
            "paddock_runners_too_old",
            "Runners in a row that GitHub called too old for it, of a pool in which none has got a job since.",
            labels=["pool"],
        )
        for pool, signals in sorted(self.signals.items()):
            too_old.add_metric([pool], signals.too_old)
            oldest.add_metric([pool], self._eligible(signals.oldest_dispatchable_seconds, pool))
            jobs.add_metric([pool, "dispatchable"], signals.queued)
            jobs.add_metric([pool, "withheld"], signals.withheld)
            jobs.add_metric([pool, "not_allowed"], signals.not_allowed)
            jobs.add_metric([pool, "resting"], signals.resting)
            jobs.add_metric([pool, "approval"], signals.held)
            claims.add_metric([pool, "minting"], signals.unminted)
            claims.add_metric([pool, "handed"], signals.claimed - signals.unminted - signals.executing)
            claims.add_metric([pool, "executing"], signals.executing)
        yield from (oldest, jobs, claims, too_old)
        if self.unserved is not None:
            unserved = GaugeMetricFamily("paddock_queue_unserved_jobs", "Jobs with labels that no pool offers.")
            unserved.add_metric([], self.unserved)
            yield unserved
        if self.unsure is not None:
            unsure = GaugeMetricFamily(
                "paddock_queue_unsure_jobs",
                "Jobs that no pool serves and that may be meant for other runners: they carry no dispatch label of ours.",
            )
            unsure.add_metric([], self.unsure)
            yield unsure
        if self.backlog is not None:
            backlog = GaugeMetricFamily("paddock_webhook_backlog", "Stored deliveries that are not handled yet.")
            backlog.add_metric([], self.backlog)
            yield backlog
        if self.lost_seconds is not None:
            lost = GaugeMetricFamily(
                "paddock_webhook_lost_seconds",
                "For how long GitHub has tried to deliver webhooks and none has arrived; 0 while they arrive, or while there are none.",
            )
            lost.add_metric([], self.lost_seconds)
            yield lost
