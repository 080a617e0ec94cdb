"""The agent's numbers. One object a process, registered where it is told."""

from prometheus_client import Counter, Gauge, Histogram

from paddock.base.metrics import CollectorRegistry

__all__ = ["AgentMetrics"]

_BUCKETS = (0.5, 1, 2, 5, 10, 20, 40, 60, 120, 300, 600, 1200)

_PULL_BUCKETS = (10, 60, 300, 600, 1200, 3600, 2 * 3600, 6 * 3600, 12 * 3600, 24 * 3600)


class AgentMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.vms = Gauge("paddock_node_vms", "Pods by the step that their VM is in.", ["step"], registry=self.registry)
        self.ends = Counter(
            "paddock_node_pods_ended", "Pods that ended, by reason.", ["reason"], registry=self.registry
        )
        self.phases = Histogram(
            "paddock_node_phase_seconds",
            "How long a Pod took from one step to the next.",
            ["phase"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.pulls = Counter("paddock_node_pulls", "Pulls of images, by result.", ["result"], registry=self.registry)
        self.pull_seconds = Histogram(
            "paddock_node_pull_seconds", "How long a pull took.", buckets=_PULL_BUCKETS, registry=self.registry
        )
        self.leaked = Counter(
            "paddock_node_vm_slots_leaked",
            "Seats for VMs that macOS did not give back, by macOS.",
            ["os"],
            registry=self.registry,
        )
        self.disk_free = Gauge("paddock_node_disk_free_bytes", "Free space for VMs.", registry=self.registry)
        self.adopted = Counter("paddock_node_vms_adopted", "VMs that a new agent found alive.", registry=self.registry)
        self.heartbeat = Gauge(
            "paddock_node_heartbeat_timestamp_seconds",
            "When the Lease was last renewed, or a report last answered.",
            registry=self.registry,
        )
        self.clock_skew = Gauge(
            "paddock_node_clock_skew_seconds",
            "How far the Mac's clock is ahead of the API server's, by the server's Date header.",
            registry=self.registry,
        )
        self.certificate_expires = Gauge(
            "paddock_node_certificate_expires_timestamp_seconds",
            "When the agent's certificate expires.",
            registry=self.registry,
        )
        self.token_age = Gauge(
            "paddock_node_token_age_seconds", "Age of the oldest Pod token in use.", registry=self.registry
        )
        self.failures = Counter(
            "paddock_node_step_failures", "Steps that failed and are repeated.", ["step"], registry=self.registry
        )
