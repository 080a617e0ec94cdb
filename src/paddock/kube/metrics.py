"""What the runtime counts. One `KubeMetrics` a registry; the registry is injected, so that two processes fit in one test."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["KubeMetrics"]

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class KubeMetrics:
    """Every metric of `paddock.kube`, registered at once."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        where = registry if registry is not None else CollectorRegistry()
        self.registry = where

        # The client.
        self.requests = Counter(
            "paddock_kube_requests_total",
            "Requests to the API server by method and answer; `none` when there was no answer.",
            ["method", "code"],
            registry=where,
        )
        self.request_seconds = Histogram(
            "paddock_kube_request_duration_seconds",
            "Length of one request to the API server, watches left out.",
            ["method"],
            buckets=_SECONDS,
            registry=where,
        )

        # Informers: is the cache there, does it still follow, and how often did it have to start over?
        self.informer_synced = Gauge(
            "paddock_informer_synced", "1 once the cache holds a complete list.", ["informer"], registry=where
        )
        self.informer_objects = Gauge("paddock_informer_objects", "Objects in the cache.", ["informer"], registry=where)
        self.informer_unreadable = Gauge(
            "paddock_informer_unreadable_objects",
            "Objects on the server that do not fit their schema, and are therefore stale or missing in the cache.",
            ["informer"],
            registry=where,
        )
        self.informer_event_age = Gauge(
            "paddock_informer_last_event_age_seconds",
            "Seconds since the server last said anything to this cache: a list, an event or a bookmark.",
            ["informer"],
            registry=where,
        )
        self.informer_relists = Counter(
            "paddock_informer_relists_total",
            "Complete lists read, the first one included.",
            ["informer"],
            registry=where,
        )
        self.informer_ends = Counter(
            "paddock_informer_watch_ends_total",
            "Ends of watches and failed lists.",
            ["informer", "reason"],
            registry=where,
        )
        self.informer_handler_errors = Counter(
            "paddock_informer_handler_errors_total", "Handlers that raised.", ["informer"], registry=where
        )

        # Work queues, in client-go's terms.
        self.queue_depth = Gauge("paddock_workqueue_depth", "Keys that wait for a worker.", ["queue"], registry=where)
        self.queue_adds = Counter("paddock_workqueue_adds_total", "Keys that became ready.", ["queue"], registry=where)
        self.queue_retries = Counter(
            "paddock_workqueue_retries_total", "Adds after a failure.", ["queue"], registry=where
        )
        self.queue_latency = Histogram(
            "paddock_workqueue_queue_duration_seconds",
            "Seconds from ready to taken by a worker.",
            ["queue"],
            buckets=_SECONDS,
            registry=where,
        )

        # Controllers.
        self.reconciles = Counter(
            "paddock_reconcile_total",
            "Reconciles by outcome: done, requeue_after, error, timeout, terminal.",
            ["controller", "outcome"],
            registry=where,
        )
        self.reconcile_seconds = Histogram(
            "paddock_reconcile_duration_seconds",
            "Length of one reconcile.",
            ["controller"],
            buckets=_SECONDS,
            registry=where,
        )
        self.reconcile_active = Gauge(
            "paddock_reconcile_active", "Reconciles under way.", ["controller"], registry=where
        )

        # The process.
        self.leader = Gauge("paddock_leader", "1 while this process leads.", ["lease"], registry=where)
        self.leader_losses = Counter(
            "paddock_leader_losses_total", "Leaderships that were lost rather than released.", ["lease"], registry=where
        )
        self.runnable_failures = Counter(
            "paddock_runnable_failures_total",
            "Runnables that failed and were started again.",
            ["runnable"],
            registry=where,
        )
        self.events_dropped = Counter(
            "paddock_events_dropped_total", "Events not recorded, by reason.", ["reason"], registry=where
        )
