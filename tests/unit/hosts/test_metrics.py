"""What an alert can count: each machine's phase, and whose the hosts are."""

from typing import Any

from prometheus_client import CollectorRegistry
from unit.hosts.made import OTHER_ID, OTHER_UID, host, machine

from paddock.base.metrics import exposition
from paddock.hosts.api.host import HostHistory
from paddock.hosts.metrics import HostCollector


def shown(machines: Any, hosts: Any = ()) -> list[str]:
    registry = CollectorRegistry()
    registry.register(HostCollector(lambda: machines, lambda: hosts))
    return [line for line in exposition(registry).decode().splitlines() if not line.startswith("#")]


def phases(machines: Any) -> list[str]:
    return [line for line in shown(machines) if line.startswith("paddock_machine_phase")]


def test_each_machine_has_exactly_one_series_whatever_phases_it_had():
    machines = [machine(phase="Bootstrapping", spec={"fleet_name": "blue"})]
    assert phases(machines) == [
        'paddock_machine_phase{failure_reason="",fleet="blue",machine="m-1",namespace="default",phase="Bootstrapping"} 1.0'
    ]
    machines[:] = [machine(phase="Ready")]
    assert [line.count('phase="Ready"') for line in phases(machines)] == [1]
    machines.clear()
    assert phases(machines) == []


def test_a_machine_without_a_phase_is_pending():
    assert 'phase="Pending"' in phases([machine()])[0]


def test_a_failed_machine_shows_why():
    (line,) = phases([machine(phase="Failed", failure_reason="UpdateExceededRetries")])
    assert 'failure_reason="UpdateExceededRetries"' in line


def test_machines_of_the_same_name_in_two_namespaces_are_two_series():
    assert len(phases([machine(), machine(namespace="blue", uid=OTHER_UID)])) == 2


def test_hosts_are_counted_by_whose_they_are_and_zero_is_shown_too():
    lines = shown([], [host(), host(OTHER_ID, state="stranded")])
    assert 'paddock_hosts{state="pooled",type="M2-L",zone="fr-par-1"} 1.0' in lines
    assert 'paddock_hosts{state="stranded",type="M2-L",zone="fr-par-1"} 1.0' in lines
    assert 'paddock_hosts{state="foreign",type="M2-L",zone="fr-par-1"} 0.0' in lines


def test_a_host_that_was_not_judged_yet_is_counted_all_the_same():
    assert 'paddock_hosts{state="unseen",type="M2-L",zone="fr-par-1"} 1.0' in shown([], [host(state="")])


def test_what_went_wrong_with_the_hosts_is_summed_by_zone_and_type():
    tried = HostHistory(bootstrap_failures=3, reboots=1)
    lines = shown([], [host(history=tried), host(OTHER_ID, history=tried)])
    assert 'paddock_hosts_bootstrap_failures{type="M2-L",zone="fr-par-1"} 6.0' in lines
    assert 'paddock_hosts_recovery_reboots{type="M2-L",zone="fr-par-1"} 2.0' in lines
