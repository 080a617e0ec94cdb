"""The first thing that is named is the cause: incidents as they look in the ledgers, with the true cause of each."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, OTHER_ID, SERVER_ID, claim, host, machine, release
from unit.views.test_health import CALM, LONG_AGO, look, mac, pod, pool, said

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetStatus
from paddock.kube.builtin import NodeCondition, PodSpec
from paddock.kube.objects import ObjectMeta
from paddock.runners.ledger.views import QueueSummary
from paddock.views.health import FleetHealth
from paddock.views.problem import Problem

DOCUMENT = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
WAITING = QueueSummary(3600.0, 5, 0, 0, 0, 0, 0, 7)
AWAY = "zone fr-par-1 could not be listed, its hosts are shown as last seen: 503"
SHORT = pool(conditions=said("Unschedulable", "2 Pods find no Node with a free seat"))
WARM = pool(idle=3)
NO_HOST = machine("blue-2", conditions=said("NoAvailableHost", "no host is free"))
FAILED = machine("blue-1", failure_reason="BootstrapExhausted", conditions=said("BootstrapExhausted", "given up"))
BROKEN = machine("blue-1", host_name=SERVER_ID, conditions=said("HostInTrouble", "its Node is silent"))
ORPHAN = host(OTHER_ID, state="stranded", conditions=said("NoOwner", "no machine names it"))
FLEET = MacFleet(
    metadata=ObjectMeta(name="blue", generation=1),
    spec=MacFleetSpec(replicas=3),
    status=MacFleetStatus(replicas=1, observed_generation=1, conditions=said("FleetHalted", "halted")),
)
STUCK = pod("runner-9", creation_timestamp=LONG_AGO)
WIPED = host(OTHER_ID, spec={"release": replace(release(), requested_at=NOW - timedelta(hours=2))})
QUARANTINED = host(OTHER_ID, spec={"quarantine": "a person looks at it"})

INCIDENTS: dict[str, tuple[dict[str, Any], str]] = {
    "a Mac is orphaned and its successor finds no host": (
        {"hosts": [ORPHAN], "machines": [NO_HOST], "pools": [SHORT], "summary": WAITING},
        f"host {OTHER_ID}",
    ),
    "a Mac is orphaned, nothing lacks it": ({"hosts": [ORPHAN], "pools": [WARM]}, f"host {OTHER_ID}"),
    "a wipe does not end and a machine waits for a host": (
        {"hosts": [WIPED], "machines": [NO_HOST], "pools": [SHORT], "summary": WAITING},
        f"host {OTHER_ID}",
    ),
    "no host is free": ({"machines": [NO_HOST], "pools": [SHORT], "summary": WAITING}, "machine blue-2"),
    "a bootstrap was given up": ({"machines": [FAILED], "pools": [SHORT], "summary": WAITING}, "machine blue-1"),
    "a running Mac is broken": (
        {"machines": [BROKEN], "pools": [SHORT], "pods": [STUCK], "summary": WAITING},
        "machine blue-1",
    ),
    "a broken Mac, jobs still served": ({"machines": [BROKEN], "pools": [WARM]}, "machine blue-1"),
    "the cloud is away": (
        {"told": [AWAY], "machines": [NO_HOST], "fleets": [FLEET], "pools": [SHORT], "summary": WAITING},
        "paddock",
    ),
    "the cloud is away and a Mac is orphaned": ({"told": [AWAY], "hosts": [ORPHAN]}, "paddock"),
    "a fleet is halted": ({"fleets": [FLEET], "pools": [SHORT], "summary": WAITING}, "fleet blue"),
    "dispatch does not answer": ({"pools": [SHORT], "pods": [STUCK], "summary": None}, "dispatch"),
    "dispatch does not answer while a Mac is broken": (
        {"pools": [SHORT], "machines": [BROKEN], "summary": None},
        "dispatch",
    ),
    "Pods do not start": ({"pods": [STUCK], "pools": [SHORT], "summary": WAITING}, "pod runner-9"),
    "a pool has no room": ({"pools": [SHORT], "summary": WAITING}, "pool macs"),
    "jobs wait beside warm Pods": ({"pools": [WARM], "summary": WAITING}, "queue"),
    "jobs wait beside warm Pods while a Mac is broken": (
        {"pools": [WARM], "machines": [BROKEN], "summary": WAITING},
        "queue",
    ),
    "healing killed a live job": (
        {"summary": replace(WAITING, killed_last_day=1), "machines": [BROKEN]},
        "healing",
    ),
    "a host is set aside": ({"hosts": [QUARANTINED], "machines": [NO_HOST], "pools": [SHORT]}, "machine blue-2"),
}


def first(health: FleetHealth) -> Problem:
    return health.problems[0]


@pytest.mark.parametrize("incident", INCIDENTS)
def test_the_first_cause_named_is_the_true_one(incident: str):
    world, cause = INCIDENTS[incident]
    health = look(**world)
    assert first(health).about == cause, [problem.about for problem in health.problems]
    assert health.sentence.startswith(f"Not healthy: {cause}: ")


def test_what_hangs_on_a_cause_is_below_it_and_nowhere_else():
    health = look(**INCIDENTS["a Mac is orphaned and its successor finds no host"][0])
    [root] = health.problems
    assert [one.about for one in root.symptoms] == ["queue", "pool macs", "machine blue-2"]
    assert root.impact == root.symptoms[0].impact, "it weighs what the worst of them weighs"
    assert health.sentence.endswith("(4 problems in all)")


def test_waiting_jobs_are_not_blamed_on_a_broken_mac_while_pods_are_warm():
    health = look(**INCIDENTS["jobs wait beside warm Pods while a Mac is broken"][0])
    assert [(one.about, one.symptoms) for one in health.problems] == [("queue", ()), ("machine blue-1", ())]


def roots(**seen: Any) -> list[str]:
    return [problem.about for problem in look(**seen).problems]


def test_a_mac_that_went_dark_is_not_blamed_on_a_cloud_that_is_away_or_on_an_orphan():
    assert set(roots(told=[AWAY], machines=[BROKEN])) == {"paddock", "machine blue-1"}
    seen = look(hosts=[ORPHAN], machines=[BROKEN, NO_HOST])
    assert {root.about: [one.about for one in root.symptoms] for root in seen.problems} == {
        f"host {OTHER_ID}": ["machine blue-2"],
        "machine blue-1": [],
    }


def test_a_mac_is_not_blamed_for_another_fleets_pool():
    green = machine("green-1", spec={"fleet_name": "green"}, host_name=SERVER_ID, conditions=said("HostInTrouble"))
    assert set(roots(machines=[green], pools=[SHORT])) == {"pool macs", "machine green-1"}
    blue = machine("blue-1", spec={"fleet_name": "blue"}, host_name=SERVER_ID, conditions=said("HostInTrouble"))
    assert roots(machines=[blue], pools=[SHORT]) == ["machine blue-1"]


def test_a_mac_is_not_blamed_for_pods_on_other_macs():
    elsewhere = replace(STUCK, spec=PodSpec(node_name="blue-7"))
    assert set(roots(machines=[BROKEN], pods=[elsewhere])) == {"machine blue-1", "pod runner-9"}
    there = replace(STUCK, spec=PodSpec(node_name="blue-1"))
    assert roots(machines=[BROKEN], pods=[there]) == ["machine blue-1"]


def test_labels_that_nobody_offers_are_blamed_on_no_mac():
    unserved = replace(CALM, unserved=2, unserved_why="gpu")
    assert roots(machines=[BROKEN], pools=[SHORT], summary=unserved) == ["queue", "machine blue-1"]


def test_a_field_that_a_person_wrote_wrong_is_blamed_on_no_mac():
    refused = pool(conditions=said("InvalidConfiguration", "no Pod is created: spec.image"))
    assert roots(machines=[BROKEN], pools=[refused]) == ["pool macs", "machine blue-1"]


def test_a_bootstrap_that_has_failed_before_is_told_while_it_is_tried_again():
    young = said("Bootstrapping", since=NOW - timedelta(minutes=5))
    assert roots(machines=[machine(conditions=young)]) == []
    assert roots(machines=[machine(conditions=young, bootstrap_attempts=2)]) == ["machine m-1"]


def test_pods_that_are_given_up_and_made_again_for_ever_are_their_pools_problem():
    starting = pool(conditions=said("Starting", "4 start", since=NOW - timedelta(minutes=9)))
    none = replace(starting, status=replace(starting.status, replicas=4, starting=4))
    some = replace(starting, status=replace(starting.status, replicas=4, starting=3))
    assert roots(pools=[some]) == []
    health = look(pools=[none], summary=WAITING)
    assert health.sentence.startswith("Not healthy: pool macs: none of its Pods has got ready for 9 min: 4 start")
    assert [one.about for one in health.problems[0].symptoms] == ["queue"]


def test_a_github_that_makes_no_runners_is_named_once_a_job_has_waited_for_it():
    resting = replace(CALM, resting=3, resting_why="GitHub answered 500", resting_since=NOW - timedelta(seconds=20))
    assert roots(summary=resting) == []
    health = look(machines=[BROKEN], summary=replace(resting, resting_since=LONG_AGO))
    assert health.sentence.startswith(
        "Not healthy: github: 3 jobs wait because GitHub makes no runner: GitHub answered"
    )
    assert [root.about for root in health.problems] == ["github", "machine blue-1"]


def test_a_ready_mac_whose_node_takes_no_job_is_told():
    full = NodeCondition(type="DiskPressure", status="True", message="8 GB are free; make room", reason="DiskIsShort")
    good = mac("blue-1")
    short = replace(good, status=replace(good.status, conditions=(*good.status.conditions, full)))
    ready = machine("blue-1", ready=True, host_name=SERVER_ID)
    assert roots(machines=[ready], nodes=[good]) == []
    health = look(machines=[ready], nodes=[short], summary=WAITING)
    assert health.sentence.startswith("Not healthy: machine blue-1: DiskPressure: 8 GB are free")
    assert [one.about for one in health.problems[0].symptoms] == ["queue"]


def test_nothing_is_lost_or_told_twice():
    for world, _ in INCIDENTS.values():
        health = look(**world)
        told = [one.about for root in health.problems for one in (root, *root.symptoms)]
        assert len(told) == len(set(told))


def test_a_quiet_fleet_has_no_cause():
    owner = machine(ready=True, server_id=SERVER_ID, host_name=SERVER_ID)
    assert (
        look(hosts=[host(spec={"claim": claim(owner)}, state="owned")], machines=[owner], summary=CALM).problems == ()
    )


def test_the_document_has_this_table():
    text = DOCUMENT.read_text(encoding="utf-8")
    rows = {cells[1].strip(): cells[2].strip() for line in text.splitlines() if len(cells := line.split("|")) == 5}
    assert {incident: rows.get(incident) for incident in INCIDENTS} == {
        incident: cause.split()[0] for incident, (_, cause) in INCIDENTS.items()
    }
