"""Who works on a Mac, and whether it may be taken from under them: tables of the pure decisions."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, later

from paddock.base.clock import rfc3339
from paddock.hosts.delete import HostUnknown, RecordRelease, SkipRelease, gives_back, may_end_jobs
from paddock.hosts.disruption import (
    CORDONED_AT,
    FORCE,
    Busy,
    Clear,
    Cordon,
    Force,
    Idle,
    Job,
    Unknown,
    Wait,
    drain_step,
    force_of,
    jobs_by_node,
    occupancy,
)
from paddock.kube.builtin import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus
from paddock.kube.objects import ObjectMeta

RUNNER = {"tuist.dev/runner": "true"}
STAMPED = {**RUNNER, "tuist.dev/runner-pool-owner": "acme"}
COMMITTED = {**RUNNER, "tuist.dev/runner-account": "7"}
LONG_AGO = later(hours=-2)
WORKS = Busy((Job("job", "acme"),))
EVERYTHING = Force(everything=True)


def node(*, open_: bool = False, fenced: datetime | None = LONG_AGO, silent: datetime | None = None) -> Node:
    ready = NodeCondition("Ready", "Unknown" if silent else "True", last_transition_time=silent or LONG_AGO)
    marks = {CORDONED_AT: rfc3339(fenced)} if fenced else {}
    return Node(
        metadata=ObjectMeta(name="m-1", annotations=marks),
        spec=NodeSpec(unschedulable=not open_),
        status=NodeStatus(conditions=(ready,)),
    )


def pod(
    name: str = "job", labels: dict[str, str] | None = None, *, phase: str = "Running", deleting: bool = False
) -> Pod:
    meta = ObjectMeta(name=name, labels=labels or {}, deletion_timestamp=LONG_AGO if deleting else None)
    return Pod(metadata=meta, spec=PodSpec(node_name="m-1"), status=PodStatus(phase=phase))


@pytest.mark.parametrize(
    ("pods", "seen"),
    [
        pytest.param([], Idle(), id="nobody"),
        pytest.param([pod(labels=STAMPED)], WORKS, id="the stamp"),
        pytest.param(
            [pod(labels=COMMITTED)], Busy((Job("job", "7"),)), id="the account alone, when the stamp was lost"
        ),
        pytest.param([pod(labels=STAMPED, deleting=True)], WORKS, id="a deletion does not end the VM at once"),
        pytest.param([pod(labels=STAMPED, phase="Pending")], WORKS, id="claimed before it ran"),
        pytest.param([pod(labels=STAMPED, phase="")], WORKS, id="a phase that nobody wrote is no end"),
        pytest.param([pod(labels=STAMPED, phase="Unknown")], WORKS, id="a silent kubelet is no end"),
        pytest.param([pod(labels=STAMPED, phase="Succeeded")], Idle(), id="ended well"),
        pytest.param([pod(labels=STAMPED, phase="Failed")], Idle(), id="ended badly"),
        pytest.param([pod("warm", RUNNER)], Busy((), ("warm",)), id="idle by its looks"),
        pytest.param([pod("warm", RUNNER, deleting=True)], Busy((), ("warm",)), id="idle and going"),
        pytest.param([pod("logs", {"app": "logs"})], Idle(), id="not a runner"),
    ],
)
def test_who_works_there(pods: list[Pod], seen: Any) -> None:
    assert occupancy(node(), pods, NOW) == seen


def test_a_job_does_not_end_because_its_node_is_silent() -> None:
    assert occupancy(node(silent=later(days=-1)), [pod(labels=STAMPED, deleting=True)], NOW) == WORKS


def test_nothing_works_on_a_server_that_is_gone_once_its_node_has_been_silent_for_half_an_hour() -> None:
    at_work = [pod(labels=STAMPED)]
    assert occupancy(node(silent=later(minutes=-30)), at_work, NOW, server_gone=True) == Idle()
    assert occupancy(node(silent=later(minutes=-29)), at_work, NOW, server_gone=True) == WORKS
    assert occupancy(node(), at_work, NOW, server_gone=True) == WORKS


def test_what_is_not_a_job_and_is_being_deleted_on_a_silent_node_does_not_hold_for_ever() -> None:
    silent = node(silent=later(minutes=-30))
    assert occupancy(silent, [pod("warm", RUNNER, deleting=True)], NOW) == Idle()
    assert occupancy(silent, [pod("warm", RUNNER)], NOW) == Busy((), ("warm",))


def step(seen: Any, on: Node | None = None, **how: Any) -> Any:
    return drain_step(seen, on, **{"since": None, "now": NOW, **how})


def test_unknown_waits_whatever_anybody_says() -> None:
    for on in (None, node(), node(open_=True)):
        waits = step(Unknown("the list failed"), on, force=EVERYTHING, timeout=timedelta(seconds=1), since=LONG_AGO)
        assert isinstance(waits, Wait)
        assert "the list failed" in waits.message


@pytest.mark.parametrize("seen", [Idle(), WORKS])
def test_an_open_node_is_fenced_before_anything_else(seen: Any) -> None:
    fences = step(seen, node(open_=True))
    assert isinstance(fences, Cordon)
    assert ("job (of acme)" in fences.message) == (seen == WORKS)
    assert isinstance(step(seen, node(open_=True, fenced=None)), Cordon)


def test_a_cordon_of_unknown_age_is_dated_first() -> None:
    assert isinstance(step(Idle(), node(fenced=None)), Cordon)


def test_an_idle_mac_is_taken_only_when_its_fence_has_settled() -> None:
    assert step(Idle(), node(fenced=later(seconds=-4))) == Wait(
        "waits; its Node takes no more work, and who works there is read again in some seconds", 6.0
    )
    assert step(Idle(), node(fenced=later(seconds=-10))) == Clear()


def test_a_mac_without_a_node_and_without_pods_is_taken_at_once() -> None:
    assert step(Idle()) == Clear()


def test_a_job_is_waited_for_by_name_without_a_limit() -> None:
    waits = step(WORKS, node(), since=later(minutes=-5))
    assert waits == Wait("waits for 1 job: job (of acme), since 2026-06-01 11:55 UTC, for as long as that takes")
    assert isinstance(step(WORKS, node(), since=later(days=-30)), Wait)


def test_a_job_is_waited_for_even_when_its_node_is_gone() -> None:
    assert isinstance(step(WORKS), Wait)


def test_the_limit_of_the_machine_ends_the_wait_and_names_what_it_ends() -> None:
    hour = timedelta(hours=1)
    waits = step(WORKS, node(), since=later(minutes=-30), timeout=hour)
    assert isinstance(waits, Wait)
    assert "until 2026-06-01 12:30 UTC at most" in waits.message
    assert step(WORKS, node(), since=later(minutes=-60), timeout=hour) == Clear(WORKS.jobs, "drain_timeout")
    assert isinstance(step(WORKS, node(), timeout=hour), Wait), "a drain that begins now has all of its time"


def test_force_does_not_wait_and_names_what_it_ends() -> None:
    assert step(WORKS, node(open_=True), force=EVERYTHING) == Clear(WORKS.jobs, "force")


def test_the_value_of_force_is_everything_or_the_pods_that_were_shown() -> None:
    assert force_of({FORCE: "true"}) == EVERYTHING
    assert force_of({FORCE: "uid-1,uid-2"}) == Force(pods=frozenset({"uid-1", "uid-2"}))
    assert force_of({}) == force_of({FORCE: ""}) == force_of({FORCE: ","}) == Force()


def test_a_job_that_was_given_up_is_not_waited_for_and_any_other_is_behind_the_fence() -> None:
    shown, came = Job("shown", "acme", "uid-1"), Job("came", "globex", "uid-2")
    force = Force(pods=frozenset({"uid-1"}))
    fences = step(Busy((shown,)), node(open_=True), force=force)
    assert isinstance(fences, Cordon)
    assert step(Busy((shown,)), node(), force=force) == Clear((shown,), "force")
    waits = step(Busy((shown, came)), node(), force=force)
    assert isinstance(waits, Wait)
    assert "waits for 1 job: came (of globex), since" in waits.message
    idle = step(Busy((shown,), ("idle-1",)), node(), force=force)
    assert isinstance(idle, Wait)
    assert "1 idle runner" in idle.message, "it may have a job that nothing on it shows"
    hour = timedelta(hours=1)
    late = step(Busy((shown, came)), node(), since=later(hours=-2), timeout=hour, force=force)
    assert late == Clear((shown, came), "drain_timeout")


def test_who_gives_up_certain_jobs_gives_up_nobody_that_cannot_be_named() -> None:
    force = Force(pods=frozenset({"uid-1"}))
    elsewhere = Busy((Job("a VM that another cluster started", "another cluster"),))
    assert isinstance(step(elsewhere, node(), force=force), Wait)
    assert isinstance(step(Unknown("its agent has not reported", silent=True), node(), force=force), Wait)


def test_force_on_an_idle_mac_is_nothing_special() -> None:
    assert isinstance(step(Idle(), node(open_=True), force=EVERYTHING), Cordon)


def test_a_silent_node_is_told_with_the_remedy() -> None:
    waits = step(WORKS, node(silent=later(minutes=-40)))
    assert FORCE in waits.message
    assert "silent since 2026-06-01 11:20 UTC" in waits.message


def test_many_jobs_are_not_a_page_of_text() -> None:
    many = Busy(tuple(Job(f"job-{number}", "acme") for number in range(9)))
    assert "9 jobs: " in step(many, node()).message
    assert "and 5 more" in step(many, node()).message


def test_jobs_are_counted_by_node() -> None:
    pods = [pod(labels=STAMPED), pod(labels=COMMITTED), pod(labels=RUNNER), pod(labels=STAMPED, phase="Failed")]
    assert jobs_by_node(pods) == {"m-1": 2}


@pytest.mark.parametrize(
    ("decided", "ends", "back"),
    [
        (RecordRelease("pool", "p-"), True, True),
        (SkipRelease("ReleaseSkipped", ""), True, False),
        (SkipRelease("ReleaseRecorded", ""), False, True),
        (HostUnknown(""), False, False),
        (None, True, False),
    ],
)
def test_what_a_deletion_may_end(decided: Any, ends: bool, back: bool) -> None:
    assert (may_end_jobs(decided), gives_back(decided)) == (ends, back)


@pytest.mark.parametrize(("reason", "count"), [("OneJob", 1), ("2Jobs", 2), ("of a version to come", 1)])
def test_jobs_that_came_with_a_moved_mac_count_by_the_condition_of_its_node(reason: str, count: int) -> None:
    moved = node()
    said = NodeCondition("OtherClusterVMs", "True", reason=reason)
    moved = replace(moved, status=replace(moved.status, conditions=(*moved.status.conditions, said)))
    seen = occupancy(moved, [], NOW)
    assert isinstance(seen, Busy)
    assert [job.account for job in seen.jobs] == ["another cluster"] * count
    step = drain_step(seen, moved, since=None, now=NOW)
    assert isinstance(step, Wait)
    assert "OtherClusterVMs" in step.message
    over = replace(moved, status=replace(moved.status, conditions=(replace(said, status="False"),)))
    assert occupancy(over, [], NOW) == Idle()


def test_a_mac_that_says_nothing_is_waited_for_unless_a_person_or_the_limit_says_otherwise():
    seen = Unknown("its agent has not reported", silent=True)
    waits = drain_step(seen, None, since=NOW, now=later(hours=9))
    assert isinstance(waits, Wait)
    assert "who works there is not known: its agent has not reported; since 2026-06-01 12:00 UTC" in waits.message
    assert f"{FORCE}=true" in waits.message
    assert drain_step(seen, None, since=NOW, now=NOW, force=EVERYTHING) == Clear((), "force")
    limit = timedelta(minutes=10)
    assert isinstance(drain_step(seen, None, since=NOW, now=later(minutes=9), timeout=limit), Wait)
    assert drain_step(seen, None, since=NOW, now=later(minutes=10), timeout=limit) == Clear((), "drain_timeout")


def test_no_force_and_no_limit_goes_past_a_read_that_failed():
    seen = Unknown("the Pods could not be listed")
    step = drain_step(seen, None, since=NOW, now=later(hours=9), timeout=timedelta(minutes=1), force=EVERYTHING)
    assert isinstance(step, Wait)
