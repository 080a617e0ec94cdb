"""What a Mac's Node says is wrong is said by `paddock why machine`, with since when and the remedy."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, machine

from paddock.base.failing_mac import JOBS_FAIL, JobsFail
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.why import why_machine
from paddock.kube.builtin import Node, NodeCondition, NodeStatus
from paddock.kube.objects import Condition, ObjectMeta

SINCE = NOW - timedelta(minutes=5)
WELL = (NodeCondition(type="Ready", status="True"), NodeCondition(type="DiskPressure", status="False"))


def _node(*conditions: NodeCondition, seats: str | None = "2") -> Node:
    said = {each.type: each for each in (*WELL, *conditions)}
    offered = {"tuist.dev/vm": seats} if seats is not None else {}
    status = NodeStatus(conditions=tuple(said.values()), allocatable=offered)
    return Node(metadata=ObjectMeta(name="m-1"), status=status)


def _bad(kind: str, status: str = "True") -> NodeCondition:
    return NodeCondition(type=kind, status=status, message="this is wrong: do that", last_transition_time=SINCE)


def _ready_machine() -> ScalewayAppleSiliconMachine:
    return machine(
        ready=True, conditions=(Condition(type="Ready", status="True", reason="Ready", message="all is well"),)
    )


@pytest.mark.parametrize(
    ("condition", "sentence", "healthy"),
    [
        (_bad("Ready", "False"), "its Node m-1 is not ready for 5 min: this is wrong: do that", False),
        (_bad("DiskPressure"), "DiskPressure for 5 min: this is wrong: do that", False),
        (_bad("VMSlotsLeaked"), "VMSlotsLeaked for 5 min: this is wrong: do that", False),
        (_bad("ClockSkewed"), "ClockSkewed for 5 min: this is wrong: do that", False),
        (_bad("JournalUnreadable"), "JournalUnreadable for 5 min: this is wrong: do that", False),
        (_bad("OtherClusterVMs"), "OtherClusterVMs for 5 min: this is wrong: do that", True),
        (_bad("LongUptime"), "LongUptime for 5 min: this is wrong: do that", True),
    ],
)
def test_a_ready_machine_says_what_its_node_complains_of(condition, sentence: str, healthy: bool) -> None:
    mine = _ready_machine()
    answer = why_machine(mine, [], NOW, node=_node(condition))
    assert answer.sentence.endswith(f"all is well; but {sentence}")
    assert answer.healthy is healthy
    assert ("host", sentence) in [(each.ledger, each.fact) for each in answer.evidence]
    assert answer.commands == ("kubectl describe node m-1",)


@pytest.mark.parametrize(("hours", "said"), [(23, False), (25, True)])
def test_an_agent_that_is_silent_for_longer_than_its_certificate_lasts_is_said_to_need_a_new_one(
    hours: int, said: bool
) -> None:
    silent = NodeCondition(
        type="Ready", status="Unknown", message="no status any more", last_transition_time=NOW - timedelta(hours=hours)
    )
    mine = machine(conditions=(Condition(type="Ready", status="False", reason="NodeNotReady", message="no Node"),))
    answer = why_machine(mine, [], NOW, node=_node(silent))
    (fact,) = [each.fact for each in answer.evidence if each.ledger == "host"]
    assert "no status any more" in fact
    assert ("certificate has expired" in fact and "over SSH" in fact and "release it" in fact) is said


def test_a_node_that_offers_no_vm_seats_is_named() -> None:
    mine = _ready_machine()
    answer = why_machine(mine, [], NOW, node=_node(seats=None))
    assert "offers no tuist.dev/vm" in answer.sentence
    assert not answer.healthy


def test_a_node_that_is_well_or_unknown_changes_nothing() -> None:
    mine = _ready_machine()
    assert why_machine(mine, [], NOW, node=_node()) == why_machine(mine, [], NOW)


def test_a_machine_that_is_not_ready_shows_its_nodes_complaints_as_evidence() -> None:
    waits = machine(conditions=(Condition(type="Ready", status="False", reason="NodeMissing", message="no Node"),))
    answer = why_machine(waits, [], NOW, node=_node(_bad("VMSlotsLeaked")))
    assert [each.fact for each in answer.evidence if each.ledger == "host"] == [
        "VMSlotsLeaked for 5 min: this is wrong: do that"
    ]


def test_a_mac_on_which_jobs_fail_says_so_although_its_node_is_well() -> None:
    mark = JobsFail("a boot", SINCE, NOW, "3 jobs of 3 accounts failed: it gets no job until 12:00 UTC")
    well = _node()
    marked = replace(
        well,
        metadata=ObjectMeta(name="m-1", annotations={JOBS_FAIL: mark.annotation()}),
        status=replace(well.status, node_info={"bootID": "a boot"}),
    )
    answer = why_machine(_ready_machine(), [], NOW, node=marked)
    assert answer.sentence.endswith(
        "but jobs fail at once on its Node m-1 for 5 min: 3 jobs of 3 accounts failed: it gets no job until 12:00 UTC"
    )
    assert not answer.healthy
