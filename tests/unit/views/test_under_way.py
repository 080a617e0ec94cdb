"""What goes on and is no problem is named from its first second on: whoever wonders why something waits finds it in `status`."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, host, machine, release
from unit.views.test_health import CALM, look, pool, said

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetStatus
from paddock.hosts.disruption import CORDON_REASON
from paddock.kube.builtin import Node, NodeCondition, NodeSpec, NodeStatus
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.runners.ledger.views import JobSourceView

JUST_NOW = NOW - timedelta(minutes=3)


def node(*, cordoned: bool = True, annotations: dict[str, str] | None = None) -> Node:
    ready = NodeCondition(type="Ready", status="True", last_transition_time=NOW)
    meta = ObjectMeta(name="m-1", annotations=annotations or {})
    return Node(
        metadata=meta,
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(conditions=(ready,), allocatable={"tuist.dev/vm": "2"}),
    )


def told(**seen: Any) -> list[str]:
    health = look(**seen)
    assert health.ok, health.sentence
    return [f"{one.about}: {one.sentence}" for one in health.going_on]


def test_a_quiet_fleet_has_nothing_going_on():
    assert told(machines=[machine(ready=True)], nodes=[node(cordoned=False)]) == []


def test_a_machine_that_drains_is_named_with_the_jobs_that_it_waits_for():
    waits = "deletion waits for 1 job: job-1 (of acme), since 2026-06-01 11:57 UTC, for as long as that takes"
    draining = machine(deleted=True, conditions=said("Draining", waits, since=JUST_NOW))
    (one,) = told(machines=[draining])
    assert one.startswith("machine m-1: being deleted")
    assert waits in one


def test_what_lasts_too_long_is_a_problem_and_not_told_twice():
    draining = machine(deleted=True, conditions=said("Draining", "waits for 1 job"))
    late = NOW + timedelta(minutes=21)
    health = look(machines=[draining], now=late)
    assert [problem.about for problem in health.problems] == ["machine m-1"]
    assert health.going_on == ()


def test_a_mac_that_is_set_up_is_on_its_way():
    (one,) = told(machines=[machine(conditions=said("Bootstrapping", "bootstrapping: sudo", since=JUST_NOW))])
    assert "bootstrapping: sudo" in one


def test_many_alike_are_told_as_one():
    gone = [
        machine(f"m-{n}", uid=f"u-{n}", deleted=True, conditions=said("Draining", "waits for 1 job", since=JUST_NOW))
        for n in range(5)
    ]
    (one,) = told(machines=gone)
    assert one.startswith("5 machines: being deleted, such as machine m-")


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, "its Node is cordoned by a person, or by what drains it: it takes no new job"),
        ({CORDON_REASON: "reboot of machine m-1"}, "its Node is cordoned for the reboot of machine m-1: it takes no"),
    ],
)
def test_a_cordoned_node_is_named_with_who_cordoned_it(annotations: dict[str, str], expected: str):
    (one,) = told(machines=[machine(ready=True)], nodes=[node(annotations=annotations)])
    assert expected in one


def test_a_pool_that_rolls_or_is_deleted_says_so():
    busy = pool(conditions=said("AllReady", "0 of 4 Pods wait for a job, 4 run one", status="True", since=JUST_NOW))
    rolls = replace(busy, status=replace(busy.status, replicas=4, stale=2))
    drains = pool(conditions=said("Draining", "the pool is being deleted: 1 job runs", since=JUST_NOW))
    gone = replace(drains, metadata=replace(drains.metadata, name="old", deletion_timestamp=JUST_NOW))
    left, stays = told(pools=[rolls, gone])
    assert left == "pool old: the pool is being deleted: 1 job runs"
    assert stays.startswith("pool macs: 2 of 4 Pods are of an older image or shape and are replaced when idle: ")
    assert stays.endswith("0 of 4 Pods wait for a job, 4 run one")


def test_jobs_over_a_limit_are_counted():
    (one,) = told(summary=replace(CALM, withheld=3))
    assert one.startswith("limits: 3 jobs wait for the limit of their account")


def test_a_scale_set_that_is_replaced_is_named_with_its_sentence():
    source = JobSourceView(
        pool="macs", login="acme", repository="", state="Listening", sentence="the pool changed its label",
        since=NOW, heard_at=NOW, assigned=1, advertised=0,
    )  # fmt: skip
    assert told(summary=replace(CALM, job_sources=[source])) == [
        "pool macs: scale set of acme: the pool changed its label"
    ]
    assert told(summary=replace(CALM, job_sources=[replace(source, sentence="")])) == []


def test_a_host_that_is_to_be_retired_is_named_until_it_is_given_back():
    (one,) = told(hosts=[host(spec={"retire": "old"})])
    assert one == "host 11111111-1111-4111-8111-111111111111: to be retired: old; it is looked at soon"
    assert told(hosts=[host(spec={"retire": "old", "release": release(requested_at=JUST_NOW)})]) == []


def test_machines_of_an_older_template_are_named_with_what_becomes_of_them():
    owner = OwnerReference(api_version="v1", kind="MacFleet", name="blue", uid="f")
    old = machine(ready=True, spec={"zone": "fr-par-3"})
    old = replace(old, metadata=replace(old.metadata, owner_references=(owner,)))
    made = MacFleetStatus(replicas=1)
    fleet = MacFleet(metadata=ObjectMeta(name="blue", uid="f"), spec=MacFleetSpec(replicas=1), status=made)
    (one,) = told(machines=[old], fleets=[fleet])
    assert one.startswith("fleet blue: 1 of its machines is of an older template (m-1): kept until they are deleted")
