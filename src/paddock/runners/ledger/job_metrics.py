"""What Prometheus reads of the life of jobs. No account, repository or Pod is ever a label; conclusions are a fixed set."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

__all__ = ["JobMetrics"]

_CONCLUSIONS: Final = frozenset(
    {"success", "failure", "cancelled", "timed_out", "skipped", "neutral", "action_required", "stale"}
)
_WAITS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14_400.0)
_RUNS = (10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 14_400.0, 21_600.0)


class JobMetrics:
    """Each change is counted by the one process that wrote it first, so that sums over processes are right."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._enqueued = Counter(
            "paddock_jobs_enqueued", "Jobs that were put into the line.", ("pool",), registry=registry
        )
        self._started = Counter(
            "paddock_jobs_started", "Jobs that a runner of ours took up.", ("pool",), registry=registry
        )
        self._completed = Counter(
            "paddock_jobs_completed", "Jobs that ended, by their conclusion.", ("pool", "conclusion"), registry=registry
        )
        self._wait = Histogram(
            "paddock_job_wait_seconds",
            "From the moment that a job may run (its webhook, or its approval) until a runner took it up.",
            ("pool",),
            registry=registry,
            buckets=_WAITS,
        )
        self._run = Histogram(
            "paddock_job_run_seconds", "How long jobs ran.", ("pool",), registry=registry, buckets=_RUNS
        )

    def enqueued(self, pool: str) -> None:
        self._enqueued.labels(pool).inc()

    def started(self, pool: str, waited: float) -> None:
        self._started.labels(pool).inc()
        self._wait.labels(pool).observe(max(0.0, waited))

    def completed(self, pool: str, conclusion: str, ran: float | None) -> None:
        self._completed.labels(pool, conclusion if conclusion in _CONCLUSIONS else "other").inc()
        if ran is not None:
            self._run.labels(pool).observe(max(0.0, ran))
