"""Every answer to "why?" has a sentence with its numbers, evidence by ledger, and what happens next."""

from datetime import timedelta
from typing import Literal

import pytest
from msgspec.structs import replace
from unit.hosts.made import FREE_NAME, NOW, claim, host, machine, release

from paddock.base.explanation import span
from paddock.hosts.api import (
    MacFleet,
    MacFleetSpec,
    MacFleetStatus,
    MacFleetTemplate,
    MachineSpec,
    Remediation,
    RemediationAttempt,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.listing import unlisted_zones
from paddock.hosts.recovery import Tiers, after_failure
from paddock.hosts.why import older_template, why_fleet, why_host, why_machine
from paddock.kube.builtin import Node, NodeCondition, NodeSpec, NodeStatus
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference


def ready(reason: str, message: str, status: str = "False", minutes: int = 7) -> tuple[Condition, ...]:
    since = NOW - timedelta(minutes=minutes)
    return (Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=since),)


def test_a_machine_without_a_host_is_told_what_its_claim_found_and_when_one_comes_free() -> None:
    waiting = machine(conditions=ready("NoAvailableHost", "no host fits"))
    wiped = host(spec={"release": release(wipe="started")}, state="releasing", cloud_name=FREE_NAME, type="M2-L")
    answer = why_machine(waiting, [wiped], NOW)
    assert answer.sentence == "not Ready for 7 min: no host fits"
    assert answer.next.startswith("1 of its type are being wiped")
    assert (answer.healthy, answer.runbook) == (False, "PaddockNoAvailableHost")


def test_a_settling_host_is_announced_with_the_time_that_is_left() -> None:
    waiting = machine(conditions=ready("NoAvailableHost", "no host fits"))
    settling = host(spec={"not_before": NOW + timedelta(seconds=45)})
    assert why_machine(waiting, [settling], NOW).next == ("A host of its type is claimable in 45 s.")


def test_a_bootstrap_that_failed_before_says_which_attempt_this_is() -> None:
    trying = machine(
        phase="Bootstrapping",
        conditions=ready("Bootstrapping", "reach-ssh, step 1 of 9", minutes=1),
        bootstrap_attempts=2,
        bootstrap_failed_at=NOW - timedelta(minutes=3),
    )
    answer = why_machine(trying, [], NOW)
    assert answer.sentence == (
        "not Ready for 60 s: reach-ssh, step 1 of 9; this is attempt 3: 2 failed, the last one 3 min ago"
    )
    assert answer.next == "The machine is Ready when the last step is done."
    assert "paddock events --for machine/m-1" in answer.commands
    assert answer.runbook == "PaddockRecoveryRate"


@pytest.mark.parametrize("reason", ["BootstrapFailed", "HostInTrouble"])
def test_what_comes_next_is_said_by_the_decision_that_waits_and_by_nobody_else(reason: str) -> None:
    """Its flags may allow no reboot, or give no host back: a second opinion was often wrong."""
    decided = after_failure(
        1, reboot_issued=False, can_release=True, tiers=Tiers(reboot_after=5, max_attempts=0)
    ).message
    answer = why_machine(machine(conditions=ready(reason, decided)), [], NOW)
    assert "it is rebooted after 5 failures" in answer.sentence
    assert answer.next == ""


def test_a_machine_of_a_zone_that_is_not_listed_is_not_told_to_order_a_mac() -> None:
    said = "zone fr-par-1 could not be listed: insufficient permissions"
    waiting = machine(conditions=ready("ZoneNotListed", said))
    answer = why_machine(waiting, [], NOW)
    assert said in answer.sentence
    assert "order" not in answer.sentence + answer.next
    (zone,) = unlisted_zones([], [waiting], [])
    assert (zone.zone, zone.sentence) == ("fr-par-1", said)


def test_a_paused_machine_says_how_to_go_on() -> None:
    answer = why_machine(machine(annotations={PAUSED: "true"}), [], NOW)
    assert "paused" in answer.sentence
    assert answer.commands == (f"kubectl annotate samm m-1 {PAUSED}-",)


def test_a_ready_machine_is_healthy_and_shows_what_the_cloud_says_of_its_host() -> None:
    mac = host(spec={"claim": claim()}, state="owned", cloud_name="m-1")
    mine = machine(ready=True, host_name=mac.metadata.name, conditions=ready("Ready", "all is well", "True"))
    answer = why_machine(mine, [mac], NOW)
    assert (answer.healthy, answer.sentence) == (True, "Ready for 7 min: all is well")
    assert {item.ledger for item in answer.evidence} == {"cloud", "cluster"}


def test_a_machine_being_deleted_says_that_nobody_waits_for_the_wipe() -> None:
    assert why_machine(machine(deleted=True), [], NOW).sentence.startswith("being deleted")


@pytest.mark.parametrize(
    ("given", "start"),
    [
        (host(spec={"quarantine": "the fan rattles"}), "quarantined: the fan rattles"),
        (host(spec={"release": release(wipe="started")}), "being given back"),
        (host(state="stranded"), "stranded"),
        (host(), "pooled"),
        (host(state="foreign"), "foreign"),
        (host(state=""), "not judged yet"),
    ],
)
def test_every_state_of_a_host_has_a_sentence_and_evidence_of_two_ledgers(given, start) -> None:
    answer = why_host(given, [], NOW)
    assert answer.sentence.startswith(start)
    assert {item.ledger for item in answer.evidence} == {"cloud", "cluster"}


def test_an_owned_host_points_at_its_machine() -> None:
    mine = machine(phase="Bootstrapping", conditions=ready("Bootstrapping", "step 3 of 9"))
    answer = why_host(host(spec={"claim": claim(mine)}), [mine], NOW)
    assert answer.sentence == "owned by machine m-1, which is not Ready: step 3 of 9"
    assert answer.next == "See `paddock why machine m-1`."


def test_a_fleet_counts_the_reasons_of_its_unready_machines() -> None:
    fleet = MacFleet(metadata=ObjectMeta(name="f", uid="fleet-uid"), spec=MacFleetSpec(replicas=2))
    mine = machine(conditions=ready("NoAvailableHost", "no host fits"))
    mine = replace(
        mine,
        metadata=replace(
            mine.metadata,
            owner_references=(OwnerReference(api_version="v1", kind="MacFleet", name="f", uid="fleet-uid"),),
        ),
    )
    answer = why_fleet(fleet, [mine], NOW)
    assert answer.sentence == "0 of 2 ready: 1 NoAvailableHost, 1 not made, because no operator has looked at it yet"
    assert (answer.healthy, answer.commands) == (False, ("paddock why machine m-1",))


def test_a_fleet_that_no_operator_has_looked_at_is_not_healthy() -> None:
    fleet = MacFleet(metadata=ObjectMeta(name="f", uid="fleet-uid"), spec=MacFleetSpec(replicas=2))
    answer = why_fleet(fleet, [], NOW)
    assert answer.sentence == "0 of 2 ready: 2 not made, because no operator has looked at it yet"
    assert (answer.healthy, answer.commands) == (False, ("paddock doctor",))


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7500, "2 h 05 min"), (200_000, "2 d")]
)
def test_lengths_of_time_are_in_peoples_words(seconds, words) -> None:
    assert span(timedelta(seconds=seconds)) == words


def test_a_machine_in_trouble_says_what_was_tried_and_what_is_next() -> None:
    tried = (
        RemediationAttempt(tier=1, at=NOW - timedelta(minutes=15)),
        RemediationAttempt(tier=2, at=NOW, note="lost"),
    )
    done = Remediation(since=NOW - timedelta(minutes=20), tier=2, at=NOW, tried=tried)
    draining = machine(remediation=done, server_id="s", conditions=ready("Draining", "reboot waits for 1 job"))
    answer = why_machine(draining, [], NOW)
    facts = [item.fact for item in answer.evidence]
    assert (
        "its Mac is in trouble for 20 min; tried: its agent was started anew at 2026-06-01 11:45 UTC, "
        "it was rebooted over SSH at 2026-06-01 12:00 UTC (lost)"
    ) in facts
    troubled = machine(remediation=done, server_id="s", conditions=ready("HostInTrouble", "its Node is not ready"))
    assert why_machine(troubled, [], NOW).sentence.endswith("its Node is not ready")


def a_node(*, cordoned: bool) -> Node:
    up = NodeCondition(type="Ready", status="True", last_transition_time=NOW)
    return Node(
        metadata=ObjectMeta(name="m-1"),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(conditions=(up,), allocatable={"tuist.dev/vm": "2"}),
    )


def test_a_ready_mac_that_takes_no_job_says_who_closed_it_whether_machine_or_host_is_asked() -> None:
    works = machine(ready=True, host_name="h", conditions=ready("NodeReady", "its Node is Ready", "True"))
    closed = "its Node is cordoned by a person, or by what drains it: it takes no new job"
    of_machine = why_machine(works, [], NOW, node=a_node(cordoned=True))
    assert closed in of_machine.sentence
    assert (of_machine.healthy, of_machine.commands) == (True, ("paddock undrain m-1",))
    owned = host(spec={"claim": claim(works)}, state="owned")
    of_host = why_host(owned, [works], NOW, node=a_node(cordoned=True))
    assert closed in of_host.sentence
    assert of_host.commands == ("paddock undrain m-1",)
    assert "cordoned" not in why_machine(works, [], NOW, node=a_node(cordoned=False)).sentence
    assert "cordoned" not in why_host(owned, [works], NOW, node=a_node(cordoned=False)).sentence


def of_fleet(name: str, uid: str, zone: str) -> ScalewayAppleSiliconMachine:
    owner = OwnerReference(api_version="v1", kind="MacFleet", name="blue", uid="f")
    made = machine(name, uid=uid, ready=True, spec={"zone": zone})
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,)))


@pytest.mark.parametrize(
    ("strategy", "then"),
    [
        ("OnDelete", "kept until they are deleted, or spec.strategy is RollingUpdate"),
        ("RollingUpdate", "replaced one after the other"),
    ],
)
def test_a_fleet_names_its_machines_of_an_older_template(strategy: Literal["OnDelete", "RollingUpdate"], then: str):
    template = MacFleetTemplate(spec=MachineSpec(zone="fr-par-1"))
    spec = MacFleetSpec(replicas=2, template=template, strategy=strategy)
    fleet = MacFleet(metadata=ObjectMeta(name="blue", uid="f"), spec=spec)
    old, new = of_fleet("m-old", "1", "fr-par-3"), of_fleet("m-new", "2", "fr-par-1")
    assert older_template(fleet, [old, new]) == f"1 of its machines is of an older template (m-old): {then}"
    assert older_template(fleet, [new]) == ""
    assert "1 of its machines is of an older template (m-old)" in why_fleet(fleet, [old, new], NOW).sentence


def test_a_fleet_whose_template_cannot_work_says_so_though_all_its_machines_are_ready() -> None:
    refused = Condition(
        type="TemplateValid",
        status="False",
        reason="InvalidTemplate",
        message="no machine of its template could work: Windows",
    )
    fleet = MacFleet(
        metadata=ObjectMeta(name="blue", uid="f"),
        spec=MacFleetSpec(replicas=0),
        status=MacFleetStatus(conditions=(refused,)),
    )
    answer = why_fleet(fleet, [], NOW)
    assert "no machine of its template could work: Windows" in answer.sentence
    assert not answer.healthy
