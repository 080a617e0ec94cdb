"""What can be told from looking at a Pod."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from unit.runners.pools.built import NOW, ago, pod, pool, starting, waiting

from paddock.kube.builtin import ContainerState, ContainerStateTerminated
from paddock.runners.api import ACCOUNT_LABEL
from paddock.runners.pools import pod_predicates
from paddock.runners.pools.pod_names import REVISION


@pytest.mark.parametrize(
    ("each", "is_busy"),
    [
        (pod("idle"), False),
        (pod("stamped", owner="acme"), True),
        (pod("empty-stamp", labels={"tuist.dev/runner-pool-owner": ""}), False),
        (pod("committed", labels={ACCOUNT_LABEL: "7"}), True),
        (waiting("waits"), False),
        (pod("polled", phase="Running", poller="done"), True),
        (starting("pulling", poller="waiting"), False),
    ],
)
def test_a_pod_is_busy_by_its_stamp_or_by_a_poller_that_is_done(each, is_busy) -> None:
    assert pod_predicates.busy(each) is is_busy


@pytest.mark.parametrize(
    ("each", "os", "is_warm"),
    [
        (pod("vm"), "darwin", True),
        (pod("vm that never asks", ready="False"), "darwin", False),
        (pod("vm of an agent that is silent", ready="Unknown"), "darwin", False),
        (starting("vm"), "darwin", False),
        (waiting("linux"), "linux", True),
        (starting("linux", poller="waiting"), "linux", False),
        (starting("linux", node=""), "linux", False),
    ],
)
def test_warm_is_a_vm_that_asks_for_a_job_or_a_running_poller(each, os, is_warm) -> None:
    assert pod_predicates.warm(each, os) is is_warm


_RAN = ContainerState(terminated=ContainerStateTerminated(exit_code=1))


def _because(each, why):
    return replace(each, status=replace(each.status, reason=why))


@pytest.mark.parametrize(
    ("each", "to_blame"),
    [
        (pod("refused", phase="Failed"), True),
        (pod("refused", phase="Failed", poller="waiting"), True),
        (_because(pod("vm", phase="Failed", runner=_RAN), "VMStartFailed"), True),
        (_because(pod("vm of a job", phase="Failed", runner=_RAN, owner="acme"), "VMStartFailed"), False),
        (_because(pod("vm", phase="Failed", runner=_RAN), "HostRebooted"), False),
        (pod("poller that was sent away", phase="Failed", poller="done"), False),
        (pod("runner that failed", phase="Failed", runner=_RAN), False),
        (pod("ended well", phase="Succeeded"), False),
        (pod("nowhere", phase="Failed", node=""), False),
        (starting("starts"), False),
    ],
)
def test_a_node_is_to_blame_for_a_pod_that_failed_there_before_anything_ran(each, to_blame) -> None:
    assert pod_predicates.failed_to_start(each) is to_blame


def test_a_pod_of_another_image_or_runtime_class_revision_is_stale() -> None:
    rolled = pool(annotations={REVISION: "b"})
    assert not pod_predicates.stale(pod("current"), pool())
    assert pod_predicates.stale(pod("old", image="macos:14"), pool())
    assert pod_predicates.stale(pod("old", annotations={REVISION: "a"}), rolled)
    assert not pod_predicates.stale(pod("current", annotations={REVISION: "b"}), rolled)


def test_a_pod_of_a_pool_of_the_same_name_in_an_earlier_life_is_not_ours() -> None:
    again = pool()
    assert pod_predicates.of_pool(pod("p"), again)
    earlier = pod("p", of="mac", labels={})
    assert not pod_predicates.of_pool(earlier, pool("other"))


def test_the_end_of_a_pod_is_the_latest_end_of_its_containers() -> None:
    ended = ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=137, reason="OOMKilled", message="out", finished_at=ago(minutes=3)
        )
    )
    told = pod_predicates.ending_of(pod("p", phase="Failed", runner=ended), NOW)
    assert (told.at, told.exit_code, told.reason, told.message) == (ago(minutes=3), 137, "OOMKilled", "out")
    assert told.abnormal


def test_the_last_lines_explain_an_end_that_was_not_meant_and_a_good_end_needs_no_words() -> None:
    printed = "starting\nlistening\nrunning\nout of memory\nrunner ended with 137\n"
    died = pod_predicates.PodEnding(NOW, 137, "Error", printed)
    assert died.sentence == "ended with exit code 137 (Error): out of memory; runner ended with 137"
    assert pod_predicates.PodEnding(NOW, 0, "Completed", printed).sentence == "ended with exit code 0 (Completed)"


def test_without_containers_the_end_is_the_deletion_or_now_and_never_in_the_future() -> None:
    assert pod_predicates.ending_of(pod("p", deleted=ago(minutes=1)), NOW).at == ago(minutes=1)
    assert pod_predicates.ending_of(pod("p"), NOW).at == NOW
    assert pod_predicates.ending_of(pod("p", deleted=NOW + timedelta(seconds=30)), NOW).at == NOW


def test_a_drain_mark_of_unknown_age_has_no_age() -> None:
    assert pod_predicates.drain_since(pod("p", annotations={"tuist.dev/drain-eligible-since": "yesterday"})) is None
