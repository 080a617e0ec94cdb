"""How many machines a MacFleet should have, and which one goes first."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import NOW, host, later, machine

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.fleet import plan


def fleet(replicas: int) -> MacFleet:
    return MacFleet(spec=MacFleetSpec(replicas=replicas))


def names(machines: Any) -> list[str]:
    return [each.metadata.name for each in machines]


def test_missing_machines_are_made():
    decided = plan(fleet(3), [machine("a", ready=True)], {}, NOW)
    assert (decided.create, decided.delete) == (2, ())
    assert decided.message == "1 of 3 ready; 2 more are being made"


def test_a_complete_fleet_is_left_alone():
    decided = plan(fleet(1), [machine("a", ready=True)], {}, NOW)
    assert (decided.create, decided.delete, decided.message) == (0, (), "1 of 1 ready")


def test_a_machine_that_is_being_deleted_no_longer_counts_so_its_seat_is_filled_at_once():
    decided = plan(fleet(1), [machine("a", deleted=True)], {}, NOW)
    assert decided.create == 1


def test_a_machine_that_is_not_ready_goes_before_one_that_is():
    machines = [machine("ready", ready=True, made=NOW), machine("waiting", made=later(days=-9))]
    assert names(plan(fleet(1), machines, {}, NOW).delete) == ["waiting"]


def test_among_ready_machines_the_one_whose_host_is_past_its_billing_floor_goes_first():
    young = machine("young", ready=True, host_name="young", made=NOW)
    old = machine("old", ready=True, host_name="old", made=later(days=-9))
    hosts = {"young": host(deletable_at=later(hours=3)), "old": host(deletable_at=later(days=-8))}
    assert names(plan(fleet(1), [young, old], hosts, NOW).delete) == ["old"]


def test_among_equals_the_newest_goes_first():
    machines = [machine(f"m{age}", ready=True, made=later(hours=-age)) for age in (3, 1, 2)]
    assert names(plan(fleet(0), machines, {}, NOW).delete) == ["m1", "m2", "m3"]


def test_the_whole_order_of_scaling_down():
    floors = {"below": host(deletable_at=later(hours=1)), "past": host(deletable_at=later(hours=-1))}
    machines = [
        machine("ready-below-old", ready=True, host_name="below", made=later(days=-2)),
        machine("ready-below-new", ready=True, host_name="below", made=later(days=-1)),
        machine("ready-past", ready=True, host_name="past", made=later(days=-3)),
        machine("waiting-below", host_name="below", made=later(days=-1)),
        machine("waiting-hostless", made=later(days=-1)),
    ]
    decided = plan(fleet(0), machines, floors, NOW)
    assert names(decided.delete) == [
        "waiting-hostless",
        "waiting-below",
        "ready-past",
        "ready-below-new",
        "ready-below-old",
    ]
    assert "5 are being given back" in decided.message


def test_a_fleet_grows_by_ten_machines_without_a_host_at_a_time():
    waiting = [machine(f"w{n}", made=NOW) for n in range(4)]
    owned = [machine(f"o{n}", made=later(days=-1), server_id="x", ready=True) for n in range(5)]
    decided = plan(fleet(10_000), [*owned, *waiting], {}, NOW)
    assert (decided.create, decided.growing, decided.short) == (6, True, False)
    assert decided.message == (
        "5 of 10000 ready; 9 are made, 4 of them wait for a host; 9991 more follow in steps, 10 at a time"
    )


def test_machines_that_wait_long_hold_the_others_back_and_the_fleet_says_what_to_do():
    waiting = [machine(f"w{n}", made=later(minutes=-2)) for n in range(10)]
    decided = plan(fleet(11), waiting, {}, NOW)
    assert (decided.create, decided.growing, decided.short) == (0, True, True)
    assert decided.message == (
        "0 of 11 ready; 10 are made, 10 of them wait for a host already; more are made when those have one: "
        "add hosts, or ask for fewer replicas"
    )
    assert not plan(fleet(10), waiting, {}, NOW).short, "nothing is held back"


def test_macs_that_are_ordered_are_ordered_three_at_a_time():
    template = MacFleetTemplate(spec=MachineSpec(source="Order"))
    ordering = MacFleet(spec=MacFleetSpec(replicas=50, template=template))
    assert plan(ordering, [], {}, NOW).create == 3
    coming = [machine(f"w{n}", made=later(minutes=-20), ordering="minis-1") for n in range(3)]
    decided = plan(ordering, coming, {}, NOW)
    assert (decided.create, decided.short) == (0, False)
    assert "paid for a day" in decided.message
    late = [machine(f"w{n}", made=later(hours=-2), ordering="minis-1") for n in range(3)]
    assert plan(ordering, late, {}, NOW).short


@given(
    replicas=st.integers(0, 8), ready=st.lists(st.booleans(), max_size=8), deleted=st.lists(st.booleans(), max_size=8)
)
def test_after_the_plan_the_fleet_has_as_many_machines_as_were_asked_for(
    replicas: int, ready: list[bool], deleted: list[bool]
):
    machines = [
        machine(f"m{n}", ready=up, deleted=gone) for n, (up, gone) in enumerate(zip(ready, deleted, strict=False))
    ]
    decided = plan(fleet(replicas), machines, {}, NOW)
    living = [each for each in machines if each.metadata.deletion_timestamp is None]
    assert len(living) + decided.create - len(decided.delete) == replicas
    assert not (decided.create and decided.delete)
    assert set(names(decided.delete)) <= set(names(living))
    assert decided.message


def test_no_machine_that_works_goes_while_there_is_one_that_does_not():
    machines = [
        machine("two-jobs", ready=True, made=NOW),
        machine("lost-with-a-job", made=NOW),
        machine("one-job", ready=True, made=NOW),
        machine("idle", ready=True, made=later(days=-9)),
        machine("waiting", made=later(days=-9)),
    ]
    jobs = {"two-jobs": 2, "one-job": 1, "lost-with-a-job": 1}
    decided = plan(fleet(0), machines, {}, NOW, jobs)
    assert names(decided.delete) == ["waiting", "idle", "lost-with-a-job", "one-job", "two-jobs"]
    assert decided.message == "3 ready, 0 wanted; 5 are being given back, 3 of them when their jobs have ended"


def test_no_machine_is_made_of_a_template_that_cannot_work():
    decided = plan(fleet(3), [machine("a", ready=True)], {}, NOW, impossible="template.spec.type 'BOGUS' is not rented")
    assert (decided.create, decided.growing) == (0, False)
    assert decided.message == (
        "1 of 3 ready; 2 are not made, because the template cannot work: template.spec.type 'BOGUS' is not rented"
    )
