"""What Prometheus reads of the runner subsystem's pools: counted from the caches at the moment of the scrape.

Nothing is set and nothing can be forgotten: a pool that is gone has no series.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.base.clock import Clock
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import RunnerPool
from paddock.runners.pools.autoscaler import Outlook
from paddock.runners.pools.capacity import free_places, healthy_nodes
from paddock.runners.pools.scaling import warm_deficit

__all__ = ["PoolCollector"]

_OF_POOL: dict[str, tuple[str, Callable[[RunnerPool], int]]] = {
    "want": ("Pods that the pool should have.", lambda pool: pool.spec.replicas),
    "idle": ("Pods that wait for a job.", lambda pool: pool.status.idle),
    "busy": ("Pods that hold a job.", lambda pool: pool.status.busy),
    "starting": ("Pods that do not wait for a job yet.", lambda pool: pool.status.starting),
}
_OF_OUTLOOK: dict[str, tuple[str, Callable[[Outlook], float]]] = {
    "queued": ("Jobs that wait and may run now.", lambda seen: seen.signals.queued),
    "withheld": ("Jobs that their accounts' limits hold back.", lambda seen: seen.signals.withheld),
    "oldest_dispatchable_seconds": (
        "How long the oldest job that may run now has waited.",
        lambda seen: seen.signals.oldest_dispatchable_seconds,
    ),
    "warm_deficit": (
        "Warm Pods that the pool should have beyond its load, and that its fleet has no room for.",
        lambda seen: warm_deficit(seen.want, seen.granted),
    ),
}


class PoolCollector(Collector):
    """Registered once a process. Queue and deficit are shown for autoscaled pools only: for others the operator does not ask the ledger."""

    def __init__(
        self,
        pools: Callable[[], Iterable[RunnerPool]],
        nodes: Callable[[], Iterable[Node]],
        outlook: Callable[[RunnerPool], Outlook | None],
        pods: Callable[[], Iterable[Pod]],
        clock: Clock,
        start_timeouts: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._pools = pools
        self._nodes = nodes
        self._pods = pods
        self._clock = clock
        self._start_timeouts = start_timeouts
        self._outlook = outlook

    def collect(self) -> Iterator[Metric]:
        pools, nodes = sorted(self._pools(), key=lambda pool: pool.metadata.name), list(self._nodes())
        for name, (text, value) in _OF_POOL.items():
            found = _family(name, text)
            for pool in pools:
                found.add_metric([pool.metadata.name], value(pool))
            yield found
        seen = [(pool.metadata.name, outlook) for pool in pools if (outlook := self._outlook(pool)) is not None]
        for name, (text, measure) in _OF_OUTLOOK.items():
            found = _family(name, text)
            for pool_name, outlook in seen:
                found.add_metric([pool_name], measure(outlook))
            yield found
        found = _family("ready_nodes", "Nodes of the pool's fleet that can take Pods now.")
        for pool in pools:
            found.add_metric([pool.metadata.name], len(healthy_nodes(pool, nodes)))
        yield found
        found = _family(
            "unused_places", "Warm Pods without a job, and places on good Macs that no Pod has or waits for."
        )
        pods, now = list(self._pods()), self._clock.now()
        for pool in pools:
            found.add_metric([pool.metadata.name], pool.status.idle + free_places(pool, pools, nodes, pods, now))
        yield found
        late = CounterMetricFamily(
            "paddock_runner_pool_start_timeouts", "Pods that did not start in time and were replaced.", labels=["pool"]
        )
        for pool in pools:
            late.add_metric([pool.metadata.name], self._start_timeouts().get(pool.metadata.name, 0))
        yield late


def _family(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"paddock_runner_pool_{name}", text, labels=["pool"])
