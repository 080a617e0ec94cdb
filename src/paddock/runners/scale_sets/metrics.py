"""What listeners count, and how each source fares, for every process to show."""

from collections import Counter as Tally
from collections.abc import Iterable
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.runners.ledger import Ledger, LedgerError
from paddock.runners.ledger.scale_sets import Source

__all__ = ["ScaleSetMetrics", "SourceCollector"]

_EVERY = 10.0
_STATES = ("Starting", "Listening", "Conflict", "Lost", "Refused", "Stopped")
log = get_logger("scale sets")


class ScaleSetMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.entries = Counter(
            "paddock_scale_set_entries",
            "Entries of scale sets' messages that were written down, by kind and what came of them.",
            ["kind", "outcome"],
            registry=registry,
        )
        self.quarantined = Counter(
            "paddock_scale_set_quarantined",
            "Entries that could not be read or written; they are kept in the table scale_set_messages.",
            registry=registry,
        )
        self.failures = Counter(
            "paddock_scale_set_failures",
            "How often listening to a scale set failed, by what that meant.",
            ["state"],
            registry=registry,
        )
        self.ghosts = Counter(
            "paddock_scale_set_ghosts",
            "Jobs that were closed because GitHub did not count them any more.",
            registry=registry,
        )
        self.nameless = Counter(
            "paddock_scale_set_nameless",
            "Jobs that GitHub counted and had not announced, for which runners were made all the same.",
            registry=registry,
        )


class SourceCollector(Collector):
    """Shows the sources as the ledger has them, so that a source that no process listens to shows, too."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._sources: list[Source] = []
        self._oldest: dict[str, datetime] = {}
        self._open: dict[str, int] = {}
        self._read_at = 0.0

    async def run(self) -> None:
        """Keep reading until cancelled."""
        while True:
            await self.look()
            await self._clock.sleep(_EVERY)

    async def look(self) -> None:
        """Read the ledger once."""
        try:
            self._sources = [s for s in await self._ledger.scale_sets.sources() if s.state != "Stopped"]
            self._oldest = await self._ledger.assignments.oldest()
            self._open = await self._ledger.assignments.count_open()
            self._read_at = self._clock.now().timestamp()
        except LedgerError as error:
            log.warning("the sources of jobs could not be read", error=str(error))

    def collect(self) -> Iterable[Metric]:
        states = GaugeMetricFamily(
            "paddock_scale_set_sources", "Scale sets that are to be listened to, by state.", labels=["pool", "state"]
        )
        silent = GaugeMetricFamily(
            "paddock_scale_set_silent_seconds",
            "Seconds since GitHub last answered a poll, of the pool's longest silent scale set.",
            labels=["pool"],
        )
        assigned = GaugeMetricFamily(
            "paddock_scale_set_assigned_jobs", "Jobs that GitHub counts as assigned to the pool.", labels=["pool"]
        )
        advertised = GaugeMetricFamily(
            "paddock_scale_set_advertised_jobs", "Jobs that GitHub was told it may assign.", labels=["pool"]
        )
        oldest = GaugeMetricFamily(
            "paddock_scale_set_oldest_assigned_seconds",
            "How long the pool's oldest assignment has waited for a runner to take it; GitHub takes it back after 300.",
            labels=["pool"],
        )
        rows = GaugeMetricFamily(
            "paddock_scale_set_open_assignments",
            "Assignments of the pool's scale sets that are not over in the ledger; GitHub's own count is paddock_scale_set_assigned_jobs.",
            labels=["pool"],
        )
        age = GaugeMetricFamily(
            "paddock_scale_set_session_age_seconds",
            "How long the pool's youngest session with GitHub's queue has stood; it stays small where sessions do not last.",
            labels=["pool"],
        )
        read = GaugeMetricFamily(
            "paddock_scale_set_read_timestamp_seconds", "When the state of the scale sets was last read; 0: never."
        )
        read.add_metric([], self._read_at)
        now = self._clock.now()
        for pool in sorted({source.pool for source in self._sources}):
            mine = [source for source in self._sources if source.pool == pool]
            tally = Tally(source.state for source in mine)
            for state in _STATES[:-1]:
                states.add_metric([pool, state], tally[state])
            silent.add_metric([pool], max((now - (s.heard_at or s.since)).total_seconds() for s in mine))
            assigned.add_metric([pool], sum(source.assigned for source in mine))
            advertised.add_metric([pool], sum(source.advertised for source in mine))
            rows.add_metric([pool], self._open.get(pool, 0))
            begun = [source.session_since for source in mine if source.session_id and source.session_since is not None]
            if begun:
                age.add_metric([pool], max(0.0, (now - max(begun)).total_seconds()))
            since = self._oldest.get(pool, now)
            oldest.add_metric([pool], max(0.0, (now - since).total_seconds()))
        return (read, states, silent, assigned, advertised, oldest, rows, age)
