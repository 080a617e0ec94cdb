"""When a fleet stops, on which evidence, and how it goes on."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, machine

from paddock.hosts.api import MachineStatus, Reinstall
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.breaker import PROBE, Halt, fleet_halt, remembered, same_fleet, signature
from paddock.kube.conditions import set_condition
from paddock.kube.objects import Condition

CONFIG = "config-1"


def failing(
    number: int, *, step: str = "agent", error: str = "did not start", config: str = CONFIG, at: datetime = NOW
) -> Machine:
    made = machine(f"m-{number}", uid=f"{number:08}-0000-4000-8000-000000000000", server_id=f"server-{number}")
    said = Condition(type="Bootstrapped", status="False", reason="BootstrapFailed", message="no")
    status = replace(made.status, bound_at=at, bootstrap_failed_at=at, conditions=set_condition((), said, at))
    return replace(made, status=remembered(status, step, error, config, at))


def ready(number: int, since: datetime) -> Machine:
    made = machine(f"m-{number}", uid=f"{number:08}-0000-4000-8000-000000000000", server_id=f"server-{number}")
    said = Condition(type="Bootstrapped", status="True", reason="Bootstrapped", message="yes")
    status = replace(made.status, ready=True, host_config_hash=CONFIG, conditions=set_condition((), said, since))
    return replace(made, status=status)


def halted(*machines: Machine, now: datetime = NOW, config: str = CONFIG) -> Halt | None:
    return fleet_halt(machines, config, now)


def test_the_same_error_in_the_same_step_on_three_hosts_halts_the_fleet_and_says_so():
    assert halted(failing(1), failing(2)) is None
    halt = halted(failing(1), failing(2), failing(3))
    assert halt is not None
    assert "step agent failed in the same way 3 times on 3 hosts" in halt.message
    assert "Nothing is rebooted, wiped or ordered" in halt.message


@pytest.mark.parametrize("other", [{"step": "reach-ssh"}, {"error": "no space left"}, {"config": "config-0"}])
def test_what_differs_is_counted_apart(other: dict[str, Any]):
    assert halted(failing(1), failing(2), failing(3, **other)) is None


def test_three_lives_of_one_host_count_as_three_because_a_wipe_did_not_help():
    one = failing(1)
    for life in (1, 2):
        later = NOW + timedelta(hours=life)
        status = replace(one.status, bound_at=later)
        one = replace(one, status=remembered(status, "agent", "did not start", CONFIG, later))
    assert halted(one, now=NOW + timedelta(hours=2)) is not None


def test_where_each_host_is_bought_two_are_enough():
    ordered = [replace(each, spec=replace(each.spec, source="Order")) for each in (failing(1), failing(2))]
    assert halted(*ordered) is not None


def test_a_success_since_then_a_changed_configuration_or_a_day_ends_it():
    three = (failing(1), failing(2), failing(3))
    assert halted(*three, ready(4, NOW + timedelta(minutes=1)), now=NOW + timedelta(minutes=2)) is None
    assert halted(*three, ready(4, NOW - timedelta(days=3))) is not None, "one that was well before proves nothing"
    assert halted(*three, config="config-2") is None
    assert halted(*three, now=NOW + timedelta(days=1, seconds=1)) is None


def test_one_host_is_tried_again_every_quarter_of_an_hour_the_one_that_waited_longest():
    three = (failing(1), failing(2, at=NOW - timedelta(minutes=5)), failing(3))
    early, due = halted(*three, now=NOW + PROBE - timedelta(seconds=1)), halted(*three, now=NOW + PROBE)
    assert early is not None
    assert early.probe == ""
    assert due is not None
    assert due.probe == "m-2"


def test_only_where_other_hosts_are_well_with_this_configuration_may_one_be_broken_after_all():
    three = (failing(1), failing(2), failing(3))
    alone, beside = halted(*three), halted(*three, ready(4, NOW - timedelta(days=3)))
    assert alone is not None
    assert not alone.elsewhere_well
    assert beside is not None
    assert beside.elsewhere_well


def test_a_signature_leaves_out_what_is_each_hosts_own():
    first = "curl 10.0.0.7 failed after 31 s for 7b7aaea6-af5e-4bf2-8309-e75c62d9a5c6 in /tmp/paddock.Ab12Cd"
    second = "curl 10.9.1.44 failed after 7 s for 1300d0c0-69e7-4ecd-bb5e-3e599b6739ef in /tmp/paddock.zz99Qq"
    assert signature(first) == signature(second)
    assert signature("checksum") != signature("timeout")


def test_a_failure_that_repeats_on_one_host_is_kept_once_and_the_memory_is_bounded():
    status = MachineStatus(server_id="a", bound_at=NOW)
    for _ in range(9):
        status = remembered(status, "agent", "no", CONFIG, NOW)
    assert len(status.failures) == 1
    for life in range(40):
        status = remembered(replace(status, server_id=f"s-{life}"), "agent", "no", CONFIG, NOW)
    assert len(status.failures) <= 6


def test_a_machine_without_a_fleet_is_alone_and_other_namespaces_are_other_fleets():
    one, two = machine("m-1"), machine("m-2", uid="cccccccc-cccc-4ccc-8ccc-cccccccccccc")
    assert same_fleet(one, [one, two]) == [one]
    named = [replace(each, spec=replace(each.spec, fleet_name="mini")) for each in (one, two)]
    assert same_fleet(named[0], named) == named
    away = replace(named[1], metadata=replace(named[1].metadata, namespace="elsewhere"))
    assert same_fleet(named[0], [named[0], away]) == [named[0]]


def test_a_machine_that_cannot_be_tried_is_never_the_next_one():
    later, tried = NOW + PROBE, [failing(1), failing(2), failing(3)]
    first = replace(tried[0], status=replace(tried[0].status, bootstrap_failed_at=None))
    paused = replace(first, metadata=replace(first.metadata, annotations={"cluster.x-k8s.io/paused": "true"}))
    unknown = Condition(type="Bootstrapped", status="False", reason="FirstContactExpired", message="no")
    strange = replace(first, status=replace(first.status, conditions=set_condition((), unknown, NOW)))
    wiped = replace(first, status=replace(first.status, reinstall=Reinstall(wipe="started")))
    for each, expected in ((first, "m-1"), (paused, "m-2"), (strange, "m-2"), (wiped, "m-2")):
        halt = halted(each, *tried[1:], now=later)
        assert halt is not None
        assert halt.probe == expected
