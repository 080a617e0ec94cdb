"""A VM with a job and without a Pod here is a job: the gate reads it from the Node, and ends nothing under it."""

import pytest
from doubles.clocks import NOON
from msgspec.structs import replace
from unit.gateway.macs import POD, UID, accepted

from paddock.clients.gateway.messages import PodReport, PodState
from paddock.gateway.jobs_without_pods import other_cluster_vms

HANDED = replace(POD, state=PodState.HANDED, handed_at=NOON, vm="pdk-a")
OTHER = "0c1d2e3f-0000-4000-8000-000000000002"


@pytest.mark.parametrize(
    "pod",
    [
        HANDED,
        replace(HANDED, cluster=""),
        replace(HANDED, state=PodState.READY),
        replace(POD, state=PodState.UNREADABLE),
        replace(POD, state=PodState.OTHER),
    ],
)
def test_a_vm_that_may_have_a_job_and_has_no_pod_here_is_one(pod: PodReport):
    stated = other_cluster_vms(accepted({UID: pod}), frozenset())
    assert (stated.holds, stated.reason) == (True, "OneJob")
    assert "runners/p1" in stated.message


@pytest.mark.parametrize("state", [PodState.ENDED, PodState.CLEARED, PodState.REFUSED])
def test_what_is_over_is_no_job(state: PodState):
    assert not other_cluster_vms(accepted({UID: replace(HANDED, state=state)}), frozenset()).holds


def test_what_is_bound_here_or_waits_for_a_job_is_none_of_another_cluster():
    assert not other_cluster_vms(accepted({UID: HANDED}), frozenset({UID})).holds
    assert not other_cluster_vms(accepted({UID: POD}), frozenset()).holds


def test_the_reason_counts_the_jobs_with_those_that_a_report_could_not_name():
    stated = other_cluster_vms(accepted({UID: HANDED, OTHER: HANDED}, left_out=1), frozenset())
    assert stated.reason == "3Jobs"
    assert "1 more" in stated.message
