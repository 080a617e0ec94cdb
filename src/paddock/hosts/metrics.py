"""What Prometheus reads of the host half: counted from the caches at the moment of the scrape, so it is never stale."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.conditions import get_condition
from paddock.kube.reader import CachedReader

__all__ = ["HostCollector"]


class HostCollector(Collector):
    """Hosts by zone and state, machines by fleet, phase and reason, and what an hour of them costs."""

    def __init__(
        self,
        hosts: CachedReader[ScalewayAppleSiliconHost],
        machines: CachedReader[ScalewayAppleSiliconMachine],
    ) -> None:
        self._hosts = hosts
        self._machines = machines

    def collect(self) -> Iterable[Metric]:
        yield self._host_states()
        yield self._costs()
        yield self._machine_phases()
        yield self._machine_reasons()

    def _host_states(self) -> Metric:
        found = GaugeMetricFamily("paddock_hosts", "Hosts by zone, type and state.", labels=["zone", "type", "state"])
        counts = Counter((h.spec.zone, h.status.type, h.status.state or "unknown") for h in self._hosts.list())
        for labels, count in sorted(counts.items()):
            found.add_metric(list(labels), count)
        return found

    def _costs(self) -> Metric:
        found = GaugeMetricFamily(
            "paddock_hosts_cost_per_hour", "What the hosts of a state cost in an hour.", labels=["state", "currency"]
        )
        sums: dict[tuple[str, str], float] = {}
        for host in self._hosts.list():
            if host.status.price_per_hour:
                key = (host.status.state or "unknown", host.status.currency)
                sums[key] = sums.get(key, 0.0) + float(host.status.price_per_hour)
        for labels, cost in sorted(sums.items()):
            found.add_metric(list(labels), cost)
        return found

    def _machine_phases(self) -> Metric:
        found = GaugeMetricFamily(
            "paddock_machine_phase",
            "1 for the phase that a machine is in.",
            labels=["namespace", "machine", "fleet", "phase"],
        )
        for machine in sorted(self._machines.list(), key=lambda m: (m.metadata.namespace, m.metadata.name)):
            meta = machine.metadata
            found.add_metric([meta.namespace, meta.name, machine.spec.fleet_name, machine.status.phase or "Pending"], 1)
        return found

    def _machine_reasons(self) -> Metric:
        found = GaugeMetricFamily(
            "paddock_machines_not_ready", "Machines that are not ready, by reason.", labels=["fleet", "reason"]
        )
        counts: Counter[tuple[str, str]] = Counter()
        for machine in self._machines.list():
            if not machine.status.ready:
                said = get_condition(machine.status.conditions, "Ready")
                counts[machine.spec.fleet_name, said.reason if said is not None else "NotSeenYet"] += 1
        for labels, count in sorted(counts.items()):
            found.add_metric(list(labels), count)
        return found
