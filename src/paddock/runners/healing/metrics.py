"""What healing tells Prometheus. Every counter is low in cardinality: kinds, reasons and workers, never Pods or jobs."""

from prometheus_client import Counter, Gauge, Histogram

from paddock.base.metrics import CollectorRegistry, live_kills

__all__ = ["HealingMetrics"]


class HealingMetrics:
    """One a registry. `live_kills` must stay zero: anything else is a page, at any hour."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.heals = Counter("paddock_heals", "Disagreements undone.", ["kind"], registry=registry)
        self.heal_seconds = Histogram(
            "paddock_heal_seconds",
            "How long a disagreement lasted before it was undone.",
            ["kind"],
            buckets=(5, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 14400, 86400),
            registry=registry,
        )
        self.refused = Counter(
            "paddock_heal_refused", "What looked wrong and was left alone.", ["reason"], registry=registry
        )
        self.suspects = Gauge(
            "paddock_suspects", "What looked wrong in the last pass, proven or not.", ["kind"], registry=registry
        )
        self.live_kills = live_kills(registry).labels("reap")
        self.failed = Counter("paddock_heal_failed", "Items or passes that failed.", ["worker"], registry=registry)
        self.last_pass = Gauge(
            "paddock_healing_last_pass_timestamp_seconds",
            "When a worker last finished a pass, in Unix time.",
            ["worker"],
            registry=registry,
        )
