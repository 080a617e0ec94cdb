"""Which tier follows for a host that runs and is in trouble, and what holds all of them back."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, host, machine

from paddock.clients.scaleway import HealthDetails
from paddock.hosts.api import MachineStatus, Remediation
from paddock.hosts.remediation import (
    GiveUp,
    RebootHost,
    RestartAgent,
    Trouble,
    WaitForHost,
    next_step,
    proven_dead,
    trouble_of,
)
from paddock.kube.builtin import Node, NodeCondition, NodeStatus
from paddock.kube.objects import ObjectMeta

SILENT = Trouble("its Node is not ready", NOW)


def node(status: str, since: datetime = NOW) -> Node:
    said = NodeCondition(type="Ready", status=status, last_transition_time=since)
    return Node(metadata=ObjectMeta(name="m-1"), status=NodeStatus(conditions=(said,)))


def step(minutes: float, tier: int = 0, at: float | None = None, trouble: Trouble = SILENT):
    done = Remediation(since=NOW, tier=tier, at=None if at is None else NOW + timedelta(minutes=at))
    status = MachineStatus(remediation=done)
    return next_step(trouble, status, [replace(machine(), status=status)], NOW + timedelta(minutes=minutes))


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
        (19, 1, 5, WaitForHost),
        (20, 1, 5, RebootHost),
        (29, 2, 20, WaitForHost),
        (59, 2, 20, WaitForHost),
        (60, 2, 20, GiveUp),
        (66, 3, 60, WaitForHost),
        (600, 3, 60, WaitForHost),
    ],
)
def test_each_tier_has_its_time_its_pause_and_happens_once(minutes: float, tier: int, at: float | None, expected: type):
    found = step(minutes, tier, at)
    assert isinstance(found, expected)
    assert "since 2026-06-01 12:00 UTC" in found.message


def test_after_a_long_absence_of_ours_the_tiers_still_follow_one_another_with_their_pauses():
    assert isinstance(step(600), RestartAgent)
    assert isinstance(step(605, 1, 600), WaitForHost)
    assert isinstance(step(610, 1, 600), RebootHost)
    assert isinstance(step(620, 2, 610), GiveUp)


def test_when_many_of_a_fleet_are_in_trouble_it_is_not_the_hosts():
    troubled = replace(machine(), status=MachineStatus(remediation=Remediation(since=NOW)))
    well = replace(machine(), status=MachineStatus())
    late = NOW + timedelta(hours=3)
    some = next_step(SILENT, troubled.status, [troubled, well, well, well], late)
    many = next_step(SILENT, troubled.status, [troubled, troubled, well, well], late)
    assert isinstance(some, RestartAgent)
    assert isinstance(many, WaitForHost)
    assert "it is not the hosts" in many.message


def test_only_a_long_silence_and_the_providers_word_prove_that_a_mac_is_dead():
    dead, alive = HealthDetails(), HealthDetails(is_server_alive=True)
    late = NOW + timedelta(minutes=30)
    assert proven_dead(SILENT, dead, late)
    assert not proven_dead(SILENT, alive, late)
    assert not proven_dead(SILENT, None, late)
    assert not proven_dead(SILENT, dead, late - timedelta(seconds=1))
