"""What dispatch counts. No account and no Pod is ever a label."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["DispatchMetrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0, 300.0)


class DispatchMetrics:
    """The counters of one dispatch process."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        registry = registry or CollectorRegistry()
        self.requests = Counter(
            "paddock_dispatch_requests",
            "Requests of waiting Pods by how they ended.",
            ("pool", "outcome"),
            registry=registry,
        )
        self.stage = Histogram(
            "paddock_dispatch_stage_seconds",
            "How long each part of serving a claim took; `queued` is from the job's webhook to its claim.",
            ("stage",),
            registry=registry,
            buckets=_SECONDS,
        )
        self.claims = Counter(
            "paddock_dispatch_claims", "Answers of the ledger to waiting Pods.", ("pool", "outcome"), registry=registry
        )
        self.undone = Counter(
            "paddock_dispatch_undone", "Won claims that were given back, by reason.", ("reason",), registry=registry
        )
        self.lost_answers = Counter(
            "paddock_dispatch_lost_answers", "Runners whose Pod hung up before it was answered.", registry=registry
        )
        self.waiting = Gauge("paddock_dispatch_waiting_pods", "Pods that wait for a job.", ("pool",), registry=registry)
        self.serving = Gauge("paddock_dispatch_serving_pods", "Claims that are being served.", registry=registry)
        self.owed = Gauge(
            "paddock_dispatch_owed_releases", "Claims that could not be given back yet.", registry=registry
        )
