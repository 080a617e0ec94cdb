"""What a Node's conditions say beside its agent's own words."""

from datetime import timedelta

import pytest
from doubles.clocks import NOON
from unit.gateway.macs import UID, accepted

from paddock.clients.gateway.messages import PodReport, PodState, Stated
from paddock.gateway.node_conditions import CLOCK_SKEWED, stated_of
from paddock.kube.builtin import NodeCondition


@pytest.mark.parametrize(
    ("seconds", "before", "wrong"),
    [(31, "False", True), (-31, "False", True), (29, "False", False), (29, "True", True), (19, "True", False)],
)
def test_a_clock_is_wrong_beyond_thirty_seconds_and_right_again_within_twenty(seconds: int, before: str, wrong: bool):
    shown = [NodeCondition(CLOCK_SKEWED, before)]
    stated = stated_of(accepted(clock=NOON + timedelta(seconds=seconds)), frozenset(), shown)
    assert stated[CLOCK_SKEWED].holds == wrong


def test_an_agent_that_does_not_say_that_vms_can_start_is_not_ready():
    assert stated_of(accepted(), frozenset(), ())["Ready"] == Stated(
        False, "NotStated", "the Mac's agent did not say whether VMs can start"
    )


def test_a_job_without_a_pod_is_stated_whatever_the_agent_says_of_it():
    pods = {UID: PodReport(state=PodState.HANDED, namespace="runners", name="p1")}
    assert stated_of(accepted(pods), frozenset(), ())["OtherClusterVMs"].holds
