"""What Prometheus reads of the host subsystem: counted from the caches at the moment of the scrape.

Nothing is set and nothing can be forgotten: a machine that is gone has no series, one that exists has exactly one phase,
and a fleet that lacks machines lacks series, which an alert can count.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.orphans import HostState
from paddock.kube.conditions import get_condition

__all__ = ["HostCollector"]


class HostCollector(Collector):
    """Registered once a process. The callables return what the caches hold now."""

    def __init__(
        self,
        machines: Callable[[], Iterable[ScalewayAppleSiliconMachine]],
        hosts: Callable[[], Iterable[ScalewayAppleSiliconHost]],
    ) -> None:
        self._machines = machines
        self._hosts = hosts

    def collect(self) -> Iterator[Metric]:
        machines, hosts = list(self._machines()), list(self._hosts())
        yield _phases(machines)
        yield _not_ready(machines)
        yield _states(hosts)
        yield _costs(hosts)
        yield _failed_wipes(hosts)
        yield from _troubles(hosts)


def _phases(machines: Iterable[ScalewayAppleSiliconMachine]) -> Metric:
    found = GaugeMetricFamily(
        "paddock_machine_phase",
        "1 for the phase that each machine is in.",
        labels=["namespace", "machine", "fleet", "phase", "failure_reason"],
    )
    for machine in machines:
        meta, status = machine.metadata, machine.status
        phase = status.phase or "Pending"
        found.add_metric([meta.namespace, meta.name, machine.spec.fleet_name, phase, status.failure_reason], 1)
    return found


def _not_ready(machines: Iterable[ScalewayAppleSiliconMachine]) -> Metric:
    found = GaugeMetricFamily(
        "paddock_machines_not_ready", "Machines that are not ready, by reason.", labels=["fleet", "reason"]
    )
    counts: Counter[tuple[str, str]] = Counter()
    for machine in machines:
        if not machine.status.ready:
            said = get_condition(machine.status.conditions, "Ready")
            counts[machine.spec.fleet_name, said.reason if said is not None else "NotSeenYet"] += 1
    for labels, count in sorted(counts.items()):
        found.add_metric(list(labels), count)
    return found


def _states(hosts: Iterable[ScalewayAppleSiliconHost]) -> Metric:
    found = GaugeMetricFamily("paddock_hosts", "Hosts by zone and by whose they are.", labels=["zone", "type", "state"])
    counted = Counter((host.spec.zone, host.status.type, host.status.state or "unseen") for host in hosts)
    for zone, server_type in sorted({(zone, server_type) for zone, server_type, _ in counted}):
        for state in (*HostState, "gone", "unseen"):
            found.add_metric([zone, server_type, str(state)], counted[zone, server_type, str(state)])
    return found


def _costs(hosts: Iterable[ScalewayAppleSiliconHost]) -> Metric:
    found = GaugeMetricFamily(
        "paddock_hosts_cost_per_hour", "What the hosts of a state cost in an hour.", labels=["state", "currency"]
    )
    sums: dict[tuple[str, str], float] = {}
    for host in hosts:
        if host.status.price_per_hour:
            key = (host.status.state or "unseen", host.status.currency)
            sums[key] = sums.get(key, 0.0) + float(host.status.price_per_hour)
    for labels, cost in sorted(sums.items()):
        found.add_metric(list(labels), cost)
    return found


def _failed_wipes(hosts: Iterable[ScalewayAppleSiliconHost]) -> Metric:
    found = GaugeMetricFamily(
        "paddock_hosts_wipe_failed",
        "Hosts on their way back whose wipe the cloud ended in an error; asked for again every ten minutes.",
        labels=["zone"],
    )
    counts = Counter(host.spec.zone for host in hosts)
    failed = Counter(
        host.spec.zone for host in hosts if host.spec.release is not None and host.status.cloud_status == "error"
    )
    for zone in sorted(counts):
        found.add_metric([zone], failed[zone])
    return found


def _troubles(hosts: Iterable[ScalewayAppleSiliconHost]) -> Iterator[Metric]:
    """Gauges, because they are kept by the hosts: a host that goes takes its own with it."""
    failures = GaugeMetricFamily(
        "paddock_hosts_bootstrap_failures",
        "Failed bootstraps in the lives of the hosts that there are.",
        labels=["zone", "type"],
    )
    reboots = GaugeMetricFamily(
        "paddock_hosts_recovery_reboots",
        "Recovery reboots in the lives of the hosts that there are.",
        labels=["zone", "type"],
    )
    failed: Counter[tuple[str, str]] = Counter()
    rebooted: Counter[tuple[str, str]] = Counter()
    for host in hosts:
        key = (host.spec.zone, host.status.type)
        failed[key] += host.status.history.bootstrap_failures
        rebooted[key] += host.status.history.reboots
    for labels in sorted(failed):
        failures.add_metric(list(labels), failed[labels])
        reboots.add_metric(list(labels), rebooted[labels])
    yield failures
    yield reboots
