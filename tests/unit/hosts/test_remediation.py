"""Which tier follows for a host that runs and is in trouble, and what holds all of them back."""

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, host, machine

from paddock.base.failing_mac import JOBS_FAIL, JobsFail
from paddock.clients.scaleway import HealthDetails
from paddock.hosts.api import MachineStatus, Reinstall, Remediation, RemediationAttempt
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.remediation import (
    AFTER,
    GIVE_BACK,
    KICK_SESSION,
    ORDER,
    REBOOT,
    REINSTALL,
    RESTART,
    SOFT_REBOOT,
    STRATEGIES,
    Asked,
    GiveUp,
    KickSession,
    RebootHost,
    ReinstallInPlace,
    RestartAgent,
    SoftReboot,
    Trouble,
    WaitForHost,
    next_step,
    proven_dead,
    rank,
    reboot_may_come,
    told,
    trouble_of,
    with_power,
)
from paddock.kube.builtin import Node, NodeCondition, NodeStatus
from paddock.kube.objects import ObjectMeta

SILENT = Trouble("its Node is not ready", NOW)
WELL = host(cloud_name="m-1", state="owned")


def node(status: str, since: datetime = NOW) -> Node:
    said = NodeCondition(type="Ready", status=status, last_transition_time=since)
    return Node(metadata=ObjectMeta(name="m-1"), status=NodeStatus(conditions=(said,)))


def says(**conditions: tuple[str, str]) -> Node:
    """A Node with these conditions, as (status, reason), since `NOW`."""
    said = [
        NodeCondition(type=kind, status=status, reason=reason, last_transition_time=NOW)
        for kind, (status, reason) in conditions.items()
    ]
    return Node(metadata=ObjectMeta(name="m-1"), status=NodeStatus(conditions=tuple(said)))


def looked_after(tier: int = 0, at: float | None = None, name: str = "m-1", **status: Any) -> Machine:
    """A machine on which a tier was tried, so many minutes after its trouble began."""
    moment = None if at is None else NOW + timedelta(minutes=at)
    tried = (RemediationAttempt(tier=tier, at=moment),) if tier else ()
    done = Remediation(since=NOW, tier=tier, at=moment, tried=tried)
    made = machine(name, uid=name)
    return replace(made, status=MachineStatus(remediation=done, **status))


def step(minutes: float, tier: int = 0, at: float | None = None, trouble: Trouble = SILENT, **status: Any) -> Any:
    one = looked_after(tier, at, **status)
    return next_step(trouble, one, [one], NOW + timedelta(minutes=minutes))


def marked(boot: str) -> Node:
    """A Node that is well by its own word, and on which jobs fail; `boot` is the one that it reports."""
    mark = JobsFail("the first boot", NOW, NOW + timedelta(hours=1), "3 jobs of 3 accounts failed")
    there = ObjectMeta(name="m-1", annotations={JOBS_FAIL: mark.annotation()})
    ready = NodeCondition(type="Ready", status="True", last_transition_time=NOW)
    return Node(metadata=there, status=NodeStatus(conditions=(ready,), node_info={"bootID": boot}))


def test_a_mac_on_which_jobs_fail_is_rebooted_once_nobody_works_there_and_is_well_in_its_next_boot():
    found = trouble_of(marked("the first boot"), WELL, None, NOW + timedelta(minutes=1))
    assert found is not None
    assert found.what == "jobs fail at once there: 3 jobs of 3 accounts failed"
    assert (found.since, found.urgent, found.heard) == (NOW, True, True)
    assert isinstance(step(0, trouble=found), SoftReboot)
    assert isinstance(step(25, 2, 0, trouble=found), RebootHost)
    assert "a person has to look" in step(60, 3, 25, trouble=found).message, "no disk is wiped for it"
    assert trouble_of(marked("the next boot"), WELL, None, NOW) is None


def test_a_node_that_is_ready_or_says_nothing_is_no_trouble():
    well = host(cloud_name="m-1", state="owned")
    assert trouble_of(node("True"), well, None, NOW) is None
    assert trouble_of(Node(metadata=ObjectMeta(name="m-1")), well, None, NOW) is None
    assert trouble_of(None, well, None, NOW) is None


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_silent_or_unready_node_is_trouble_since_it_turned(status: str):
    found = trouble_of(node(status), host(cloud_name="m-1", state="owned"), None, NOW + timedelta(hours=1))
    assert found is not None
    assert found.since == NOW


def test_what_the_cloud_says_counts_also_while_the_node_is_ready_and_a_lock_is_the_providers_own():
    broken = trouble_of(node("True"), host(cloud_name="m-1", state="owned", cloud_status="error"), None, NOW)
    locked = trouble_of(node("True"), host(cloud_name="m-1", state="owned", cloud_status="locked"), None, NOW)
    assert broken is not None
    assert not broken.locked
    assert locked is not None
    assert isinstance(step(600, trouble=locked), WaitForHost), "nothing of ours helps"


@pytest.mark.parametrize(
    ("minutes", "tier", "at", "expected"),
    [
        (4, 0, None, WaitForHost),
        (5, 0, None, RestartAgent),
        (14, 1, 5, WaitForHost),
        (15, 1, 5, SoftReboot),
        (24, 2, 15, WaitForHost),
        (25, 2, 15, RebootHost),
        (59, 3, 25, WaitForHost),
        (60, 3, 25, ReinstallInPlace),
        (89, 4, 60, WaitForHost),
        (109, 4, 80, WaitForHost),
        (110, 4, 80, GiveUp),
        (119, 5, 110, WaitForHost),
        (120, 5, 110, GiveUp),  # we may have died before it was recorded
    ],
)
def test_each_tier_has_its_time_its_pause_and_happens_once(minutes: float, tier: int, at: float | None, expected: type):
    found = step(minutes, tier, at)
    assert isinstance(found, expected)
    assert "since 2026-06-01 12:00 UTC" in found.message


def test_every_sentence_says_what_was_tried_and_what_is_next():
    waits = step(20, 2, 15)
    assert waits.message == (
        "its Node is not ready, since 2026-06-01 12:00 UTC; tried: it was rebooted over SSH at 2026-06-01 12:15 UTC; "
        "next: it is rebooted by the cloud after 2026-06-01 12:25 UTC, if that lasts"
    )
    one = looked_after(2, 15)
    assert one.status.remediation is not None
    noted = replace(one.status.remediation, tried=(RemediationAttempt(tier=2, at=NOW, note="it did not answer SSH"),))
    assert "tried: it was rebooted over SSH at 2026-06-01 12:00 UTC (it did not answer SSH)" in told(SILENT, noted)


def test_after_a_long_absence_of_ours_the_tiers_still_follow_one_another_with_their_pauses():
    assert isinstance(step(600), RestartAgent)
    assert isinstance(step(605, 1, 600), WaitForHost)
    assert isinstance(step(610, 1, 600), SoftReboot)
    assert isinstance(step(620, 2, 610), RebootHost)
    assert isinstance(step(630, 3, 620), ReinstallInPlace)
    assert isinstance(step(659, 4, 630), WaitForHost), "a new disk takes longer to show that it helped"
    assert isinstance(step(660, 4, 630), GiveUp)


def test_a_host_is_reinstalled_in_place_once_for_each_claim():
    assert isinstance(step(120, 3, 100, reinstalled_at=NOW - timedelta(days=3)), GiveUp)


def test_only_tiers_that_can_help_are_tried():
    session = trouble_of(says(Ready=("False", "NoSession")), host(cloud_name="m-1", state="owned"), None, NOW)
    leaked = trouble_of(says(Ready=("True", ""), VMSlotsLeaked=("True", "RebootNeeded")), WELL, None, NOW)
    opened = trouble_of(says(Ready=("False", "EgressOpen")), WELL, None, NOW)
    long = trouble_of(says(Ready=("True", ""), LongUptime=("True", "RebootNeeded")), WELL, None, NOW)
    assert session is not None
    assert leaked is not None
    assert opened is not None
    assert long is not None
    for trouble in (opened, long):
        assert isinstance(step(14, trouble=trouble), WaitForHost), "a new start of the agent cannot help"
    assert isinstance(step(1, trouble=leaked), SoftReboot), "waiting cannot help"
    assert isinstance(step(11, 2, 1, trouble=leaked), WaitForHost), "the next tier keeps its distance"
    for trouble in (session, leaked, opened, long):
        assert isinstance(step(15, trouble=trouble), SoftReboot)
    assert leaked.urgent
    assert not long.urgent
    given_up = step(600, 3, 30, trouble=leaked)
    assert isinstance(given_up, WaitForHost), "a new disk gives no seat back"
    never = step(600, 3, 30, trouble=long)
    assert isinstance(never, WaitForHost), "nobody is wiped for his age"
    assert "a person has to look" in never.message


NO_SESSION = Trouble("its Node is not ready (NoSession)", NOW, first=KICK_SESSION, heard=True)


def kicked(*minutes: float, tier: int = KICK_SESSION, at: float | None = None) -> Machine:
    """A machine whose user was logged in anew at these minutes, and on which a tier was tried."""
    moment = NOW + timedelta(minutes=minutes[0] if at is None else at)
    tried = tuple(RemediationAttempt(tier=KICK_SESSION, at=NOW + timedelta(minutes=each)) for each in minutes)
    one = machine()
    return replace(one, status=MachineStatus(remediation=Remediation(since=NOW, tier=tier, at=moment, tried=tried)))


@pytest.mark.parametrize(
    ("one", "minutes", "expected"),
    [
        (looked_after(), 0.4, WaitForHost),
        (looked_after(), 0.5, KickSession),
        (kicked(2), 6.9, WaitForHost),
        (kicked(2), 7, KickSession),
        (kicked(2, 7), 12, KickSession),
        (kicked(2, 7, 12), 14.9, WaitForHost),
        (kicked(2, 7, 12), 15, SoftReboot),
        (kicked(2, 7, 12, tier=SOFT_REBOOT, at=15), 19.9, WaitForHost),
        (kicked(2, 7, 12, tier=SOFT_REBOOT, at=15), 20, KickSession),  # the Mac came up without a session again
        (kicked(20, tier=SOFT_REBOOT, at=15), 25, RebootHost),
        (kicked(30, 35, tier=REBOOT, at=25), 40, KickSession),
        (kicked(55, tier=REBOOT, at=25), 60, ReinstallInPlace),
    ],
)
def test_a_lost_session_is_begun_anew_every_five_minutes_between_the_other_tiers(
    one: Machine, minutes: float, expected: type
):
    assert isinstance(next_step(NO_SESSION, one, [one], NOW + timedelta(minutes=minutes)), expected)


def test_whoever_waits_for_a_new_login_says_so():
    waits = next_step(NO_SESSION, kicked(2), [kicked(2)], NOW + timedelta(minutes=3))
    assert waits.message == (
        "its Node is not ready (NoSession), since 2026-06-01 12:00 UTC; tried: its user was logged in anew at 2026-06-01 12:02 UTC; "
        "next: its user is logged in anew after 2026-06-01 12:07 UTC, if that lasts"
    )


def test_a_rack_that_came_up_without_sessions_gets_them_all_back_whatever_cap_holds_the_rest():
    rack = [looked_after(name=f"m-{number}") for number in range(4)]
    for one in rack:
        assert isinstance(next_step(NO_SESSION, one, rack, NOW + timedelta(hours=1), halted="x"), KickSession)


def test_only_a_lost_session_is_begun_anew():
    for minutes in range(0, 120, 5):
        for tier in (0, *ORDER):
            assert not isinstance(step(minutes, tier, 0 if tier else None), KickSession)
    gentle = replace_last(NO_SESSION, STRATEGIES["RestartAgent"])
    assert isinstance(step(60, trouble=gentle), WaitForHost), (
        "a health check allows no more than a new start of the agent"
    )
    reboots = replace_last(NO_SESSION, STRATEGIES["Reboot"])
    assert isinstance(step(60, 3, 25, trouble=reboots), KickSession), "also when its other tiers are used up"


def replace_last(trouble: Trouble, last: int) -> Trouble:
    return dataclasses.replace(trouble, last=last)


def test_the_order_of_the_tiers_is_said_once_and_their_times_follow_it():
    assert sorted(ORDER) == [1, 2, 3, 4, 5, 6] == sorted(AFTER), "what is stored is never renumbered"
    once = [AFTER[tier] for tier in ORDER if tier != KICK_SESSION]
    assert once == sorted(once)
    assert [rank(tier) for tier in (0, RESTART, KICK_SESSION, SOFT_REBOOT)] == [-1, 0, 1, 2]
    node_without = says(Ready=("False", "NoSession"))
    limited = trouble_of(node_without, WELL, None, NOW, asked=Asked(NOW, last=REBOOT))
    assert limited is not None
    assert limited.last == REBOOT
    assert trouble_of(node_without, WELL, None, NOW, asked=Asked(NOW, last=GIVE_BACK)) == NO_SESSION


def test_a_missing_node_is_trouble_only_where_it_is_expected():
    assert trouble_of(None, WELL, None, NOW) is None
    found = trouble_of(None, WELL, Remediation(since=NOW - timedelta(hours=1)), NOW, missing=True)
    assert found == Trouble("its Node is missing", NOW - timedelta(hours=1))


def test_when_many_of_a_fleet_are_in_trouble_it_is_not_the_hosts():
    troubled, well = looked_after(), replace(machine("m-2"), status=MachineStatus())
    late = NOW + timedelta(hours=3)
    some = next_step(SILENT, troubled, [troubled, well, well, well], late)
    many = next_step(SILENT, troubled, [troubled, looked_after(name="m-3"), well, well], late)
    assert isinstance(some, RestartAgent)
    assert isinstance(many, WaitForHost)
    assert "it is not the hosts" in many.message


def test_one_mac_of_a_fleet_is_rebooted_or_reinstalled_at_a_time():
    late = NOW + timedelta(minutes=30)
    one, well = looked_after(1, 5), [replace(machine(f"m-{number}"), status=MachineStatus()) for number in range(4, 9)]
    reboots, rested = looked_after(3, 25, "m-2"), looked_after(3, 20, "m-2")
    installs = looked_after(4, 5, "m-3", reinstall=Reinstall(wipe="started"))
    assert isinstance(next_step(SILENT, one, [one, rested, *well], late), SoftReboot)
    for other in (reboots, installs):
        found = next_step(SILENT, one, [one, other, *well], late)
        assert isinstance(found, WaitForHost)
        assert f"after machine {other.metadata.name} of its fleet: one at a time" in found.message
    agent = looked_after()
    assert isinstance(next_step(SILENT, agent, [agent, reboots, *well], late), RestartAgent), "which disturbs nobody"


def test_no_disk_is_wiped_while_the_fleet_could_not_set_it_up_again():
    for tier, at in ((3, 25), (4, 60)):
        one = looked_after(tier, at)
        found = next_step(SILENT, one, [one], NOW + timedelta(hours=5), halted="three hosts failed alike")
        assert isinstance(found, WaitForHost)
        assert "the fleet is halted: three hosts failed alike" in found.message
    one = looked_after(2, 15)
    assert isinstance(next_step(SILENT, one, [one], NOW + timedelta(hours=5), halted="x"), RebootHost)


def test_a_mac_whose_ssh_is_down_is_rebooted_by_the_cloud():
    down, up = HealthDetails(is_server_alive=True), HealthDetails(is_server_alive=True, is_ssh_port_up=True)
    assert with_power(SOFT_REBOOT, down) == REBOOT
    assert with_power(SOFT_REBOOT, up) == SOFT_REBOOT
    assert with_power(SOFT_REBOOT, None) == SOFT_REBOOT, "a look that did not finish says nothing"
    assert with_power(REINSTALL, down) == REINSTALL


def test_a_mac_that_looks_well_takes_no_work_while_a_reboot_may_come():
    for tier, comes in ((1, False), (2, True), (3, True), (4, False)):
        done = Remediation(since=NOW, tier=tier, at=NOW)
        assert reboot_may_come(done, NOW + timedelta(minutes=2.9)) == comes
        assert not reboot_may_come(done, NOW + timedelta(minutes=3))


def test_only_a_long_silence_and_the_providers_word_prove_that_a_mac_is_dead():
    dead, alive = HealthDetails(), HealthDetails(is_server_alive=True)
    late = NOW + timedelta(minutes=30)
    assert proven_dead(SILENT, dead, late)
    assert not proven_dead(SILENT, alive, late)
    assert not proven_dead(SILENT, None, late)
    assert not proven_dead(SILENT, dead, late - timedelta(seconds=1))


def test_a_host_that_the_cloud_cannot_wipe_is_rebooted_and_neither_reinstalled_nor_given_back():
    for tier, waits in ((RESTART, False), (REBOOT, True), (REINSTALL, True)):
        tried = looked_after(tier, 0.0)
        step = next_step(SILENT, tried, [tried], NOW + timedelta(hours=9), unwipeable="it is a Runner of the cloud")
        assert isinstance(step, WaitForHost) is waits
        assert ("it is a Runner of the cloud" in step.message) is waits
