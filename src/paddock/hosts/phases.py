"""One series for each machine and one for each state of hosts, taken from the caches when somebody looks.

Nothing is set and nothing can be forgotten: a machine that is gone has no series, one that exists has exactly one, and a
fleet that lacks machines lacks series, which an alert can count.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.strays import State

__all__ = ["Phases"]


class Phases(Collector):
    """Registered once a process. The callables return what the caches hold now."""

    def __init__(
        self,
        machines: Callable[[], Iterable[ScalewayAppleSiliconMachine]],
        hosts: Callable[[], Iterable[ScalewayAppleSiliconHost]],
    ) -> None:
        self._machines = machines
        self._hosts = hosts

    def collect(self) -> Iterator[Metric]:
        phases = GaugeMetricFamily(
            "paddock_machine_phase",
            "1 for the phase that each machine is in.",
            labels=["namespace", "machine", "fleet", "phase", "failure_reason"],
        )
        for machine in self._machines():
            meta, status = machine.metadata, machine.status
            phase = status.phase or "Pending"
            labels = [meta.namespace, meta.name, machine.spec.fleet_name, phase, status.failure_reason]
            phases.add_metric(labels, 1)
        yield phases
        states = GaugeMetricFamily(
            "paddock_hosts", "Hosts by zone and by whose they are.", labels=["zone", "type", "state"]
        )
        counted = Counter((host.spec.zone, host.status.type, host.status.state or "unseen") for host in self._hosts())
        for zone, server_type in {(zone, server_type) for zone, server_type, _ in counted}:
            for state in (*State, "gone", "unseen"):
                states.add_metric([zone, server_type, str(state)], counted[zone, server_type, str(state)])
        yield states
