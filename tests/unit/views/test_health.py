"""Is all well, and if not, what first: the survey that the page and `paddock status` share."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace
from unit.hosts.made import NOW, OTHER_ID, SERVER_ID, claim, host, later, machine, release

from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetStatus
from paddock.kube.builtin import Node, NodeCondition, NodeStatus, Pod, PodCondition, PodSpec, PodStatus
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference
from paddock.runners.api import (
    FLEET_LABEL,
    OWNER_LABEL,
    POOL_LABEL,
    RUNNER_LABEL,
    VM_RESOURCE,
    RunnerPool,
    RunnerPoolSpec,
    RunnerPoolStatus,
)
from paddock.runners.ledger.views import QueueSummary
from paddock.views.health import FleetHealth, survey

CALM = QueueSummary(0.0, 0, 0, 0, 0, 2, 2, 7)
LONG_AGO = NOW - timedelta(hours=1)


def said(reason: str, message: str = "", *, status: str = "False", since: Any = LONG_AGO) -> tuple[Condition, ...]:
    return (Condition(type="Ready", status=status, reason=reason, message=message, last_transition_time=since),)


def pool(name: str = "macs", *, idle: int = 0, conditions: tuple[Condition, ...] = (), **spec: Any) -> RunnerPool:
    given = RunnerPoolSpec(
        **{"image": "i", "fleet_selector": "blue", "dispatch_label": "mac", "runner_labels": ("macOS",), **spec}
    )
    return RunnerPool(
        metadata=ObjectMeta(name=name), spec=given, status=RunnerPoolStatus(idle=idle, conditions=conditions)
    )


def pod(name: str, *, pool: str = "", **meta: Any) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, labels={RUNNER_LABEL: "true", POOL_LABEL: pool}, **meta),
        spec=PodSpec(),
        status=PodStatus(phase="Pending"),
    )


def look(**seen: Any) -> FleetHealth:
    nothing: dict[str, Any] = dict.fromkeys(("hosts", "machines", "fleets", "pools", "pods"), ())
    return survey(**{**nothing, "summary": CALM, "now": NOW, **seen})


def abouts(health: FleetHealth) -> list[str]:
    return [problem.about for problem in health.problems]


def test_a_quiet_fleet_is_healthy_in_one_sentence():
    owner = machine(ready=True, server_id=SERVER_ID, host_name=SERVER_ID)
    health = look(hosts=[host(spec={"claim": claim(owner)}, state="owned")], machines=[owner])
    assert health.ok
    assert health.sentence == "Healthy: 1 of 1 Mac is ready, 2 jobs run, nothing needs a person."


def test_what_cannot_be_reconciled_is_a_problem_with_its_error():
    stalled = Condition(
        type="Stalled", status="True", reason="ReconcileFailed", message="the fleet controller has failed"
    )
    fleet = MacFleet(
        metadata=ObjectMeta(name="blue"), spec=MacFleetSpec(replicas=0), status=MacFleetStatus(conditions=(stalled,))
    )
    [problem] = look(fleets=[fleet]).problems
    assert (problem.about, problem.sentence) == ("fleet blue", "the fleet controller has failed")


def test_macs_that_nobody_wants_now_are_not_missing_and_those_on_their_way_are_counted():
    owner = machine(ready=True, server_id=SERVER_ID, host_name=SERVER_ID)
    verifying = machine("m-2", conditions=said("Verifying", since=NOW))
    health = look(hosts=[host(spec={"claim": claim(owner)}), host(OTHER_ID)], machines=[owner, verifying])
    assert health.sentence == "Healthy: 1 of 2 Macs are ready, 1 is on the way, 2 jobs run, nothing needs a person."


def test_a_quarantine_says_no_age_that_is_another_conditions():
    aside = host(spec={"quarantine": "fans"}, conditions=said("Pooled", since=LONG_AGO))
    health = look(hosts=[aside])
    assert (health.ok, [problem.since for problem in health.problems]) == (True, [None])


def test_foreign_and_gone_hosts_are_not_counted():
    health = look(hosts=[host(state="foreign"), host(OTHER_ID, state="gone"), host("x")])
    assert (health.numbers.hosts_ready, health.numbers.hosts) == (0, 1)


def test_a_mac_that_boots_is_no_problem_until_it_has_taken_too_long():
    booting = machine(conditions=said("Bootstrapping", since=NOW - timedelta(minutes=5)))
    assert look(machines=[booting]).ok
    stuck = machine(conditions=said("Bootstrapping"))
    assert abouts(look(machines=[stuck])) == ["machine m-1"]


def test_a_machine_without_a_host_is_a_problem_at_once_with_what_to_type():
    [problem] = look(machines=[machine(conditions=said("NoAvailableHost", "none is free", since=NOW))]).problems
    assert problem.commands[0] == "paddock why machine m-1"
    assert problem.runbook == "PaddockNoAvailableHost"


def test_what_a_person_paused_is_left_alone():
    paused = machine(annotations={"cluster.x-k8s.io/paused": "true"}, conditions=said("BootstrapFailed"))
    assert look(machines=[paused]).ok


def test_many_of_one_kind_are_told_as_one_by_the_oldest():
    waiting = [
        machine(
            f"m-{number}", uid=str(number), conditions=said("NoAvailableHost", since=NOW - timedelta(minutes=number))
        )
        for number in range(1, 5)
    ]
    [problem] = look(machines=waiting).problems
    assert problem.about == "4 machines"
    assert problem.sentence.startswith("NoAvailableHost, such as machine m-4: ")
    assert problem.since == NOW - timedelta(minutes=4)


def test_jobs_come_before_macs_and_macs_before_money_below_their_cause():
    health = look(
        hosts=[host(state="stranded", conditions=said("NoOwner"))],
        machines=[machine(conditions=said("BootstrapFailed"))],
        summary=QueueSummary(900.0, 3, 0, 0, 0, 0, 0, 0),
        pools=[pool(conditions=said("NoHealthyNode", "no Node"))],
    )
    [root] = health.problems
    assert [root.about, *(one.about for one in root.symptoms)] == [
        f"host {SERVER_ID}",
        "queue",
        "pool macs",
        "machine m-1",
    ]
    assert root.symptoms[0].sentence.startswith("a job that may run now has waited 15 min")


def test_a_pool_that_still_has_warm_pods_weighs_less_than_a_mac_that_is_down():
    short = pool(idle=3, conditions=said("Unschedulable", "no room"))
    [root] = look(machines=[machine(conditions=said("BootstrapFailed"))], pools=[short]).problems
    assert (root.about, [one.about for one in root.symptoms]) == ("machine m-1", ["pool macs"])
    assert root.impact > root.symptoms[0].impact


def test_a_pool_that_is_starting_is_no_problem():
    assert look(pools=[pool(conditions=said("Starting"))]).ok


def test_a_warm_window_that_cannot_be_read_is_a_problem_that_names_the_field():
    refused = Condition(
        type="WarmWindows",
        status="False",
        reason="InvalidConfiguration",
        message="spec.autoscaling.warmWindows[0].start",
    )
    [problem] = look(pools=[pool(idle=1, conditions=(refused,))]).problems
    assert (problem.about, problem.sentence) == ("pool macs", "spec.autoscaling.warmWindows[0].start")


def test_a_quarantined_host_is_listed_and_no_reason_for_alarm():
    health = look(hosts=[host(spec={"quarantine": "broken fan"})])
    assert health.ok
    assert abouts(health) == [f"host {SERVER_ID}"]


def test_a_release_is_a_problem_only_when_it_takes_much_longer_than_a_wipe():
    def given_back(minutes: int) -> FleetHealth:
        return look(hosts=[host(spec={"release": release(requested_at=later(minutes=-minutes))}, state="releasing")])

    assert given_back(30).ok
    assert abouts(given_back(60)) == [f"host {SERVER_ID}"]


def test_a_silent_ledger_is_the_worst_unless_there_are_no_runners():
    assert abouts(look(summary=None)) == ["dispatch"]
    quiet = look(summary=None, runners=False)
    assert quiet.ok
    assert quiet.numbers.running is None


def test_a_killed_job_is_worse_than_anything():
    worse = look(summary=replace(CALM, killed_last_day=1, killed_since=NOW), hosts=[host(state="stranded")])
    assert abouts(worse)[0] == "healing"
    assert worse.problems[0].since == NOW
    forced = look(summary=replace(CALM, killed_last_day=2, forced_last_day=2))
    assert (forced.ok, forced.numbers.live_jobs_killed) == (True, 2), "a person gave them up: told, and no fault"
    both = look(summary=replace(CALM, killed_last_day=3, forced_last_day=2))
    assert "1 live job was killed by healing" in both.problems[0].sentence


def test_a_dispatch_that_writes_no_kills_down_is_not_taken_for_one_without_any():
    older = look(summary=replace(CALM, killed_last_day=None))
    assert (older.ok, older.numbers.live_jobs_killed) == (True, None)
    assert look(summary=None).numbers.live_jobs_killed is None


def test_a_fleet_whose_machines_are_not_even_made_is_told():
    meta = ObjectMeta(name="blue", generation=2)
    status = MacFleetStatus(replicas=1, observed_generation=2, conditions=said("NotAllReady", "1 of 3"))
    fleet = MacFleet(metadata=meta, spec=MacFleetSpec(replicas=3), status=status)
    assert abouts(look(fleets=[fleet])) == ["fleet blue"]
    assert look(fleets=[replace(fleet, metadata=replace(meta, generation=3))]).ok


def test_pods_that_start_or_end_for_ever_are_told():
    slow, leaving = pod("slow", creation_timestamp=LONG_AGO), pod("leaving", deletion_timestamp=LONG_AGO)
    young = pod("young", creation_timestamp=NOW)
    assert abouts(look(pods=[slow, leaving, young])) == ["pod leaving", "pod slow"]


def test_what_processes_say_of_themselves_is_passed_on():
    [problem] = look(told=["hosts: the watch stalls"]).problems
    assert problem.sentence == "hosts: the watch stalls"


# Idle capacity beside jobs, and jobs on Macs that are gone


def mac(name: str, *, ready: str = "True", since: Any = LONG_AGO) -> Node:
    said = NodeCondition(type="Ready", status=ready, last_transition_time=since)
    return Node(
        metadata=ObjectMeta(name=name, labels={FLEET_LABEL: "blue"}),
        status=NodeStatus(conditions=(said,), allocatable={VM_RESOURCE: "2"}),
    )


def busy(name: str, node: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, labels={RUNNER_LABEL: "true", OWNER_LABEL: "acme"}),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase="Running"),
    )


def waiting(seconds: float, jobs: int = 8) -> QueueSummary:
    return replace(
        CALM,
        oldest_dispatchable_seconds=seconds,
        dispatchable=jobs,
        dispatchable_by_pool={"macs": jobs},
        oldest_by_pool={"macs": seconds},
    )


def test_jobs_that_wait_beside_idle_macs_are_a_problem_with_a_cause_long_before_they_wait_too_long():
    macs = [mac(f"mac-{number}") for number in range(10)]
    assert look(pools=[pool()], nodes=macs, summary=waiting(25.0)).ok, "a Pod is made and booted within a minute"
    health = look(pools=[pool()], nodes=macs, summary=waiting(65.0))
    assert not health.ok
    (found,) = health.problems
    assert (found.about, found.runbook) == ("pool macs", "PaddockIdleBesideJobs")
    assert found.sentence == (
        "8 jobs that may run wait beside 20 free places on good Macs;"
        " the pool is kept at 0 Pods (replicas), and autoscaling is off"
    )


def test_a_busy_pool_that_has_only_just_found_no_room_is_no_problem_and_one_that_finds_none_is():
    def full(since: timedelta) -> RunnerPool:
        placeable = Condition("Placeable", "False", "Unschedulable", "no Node has room for 1 Pods", NOW - since)
        return pool(conditions=(*said("Unschedulable", "0 of 12 Pods wait for a job, 11 run one"), placeable))

    assert look(pools=[full(timedelta(seconds=5))]).ok
    [found] = look(pools=[full(timedelta(minutes=5))]).problems
    assert found.about == "pool macs"


def test_warm_pods_beside_waiting_jobs_are_dispatchs_fault():
    health = look(pools=[pool(idle=3)], nodes=[], summary=waiting(25.0, 1))
    assert not health.ok
    assert (
        "1 job that may run waits beside 3 warm Pods without a job; dispatch has not handed"
        in health.problems[0].sentence
    )


def test_a_hand_over_under_way_and_full_macs_are_no_idle_capacity():
    macs = [mac("mac-1")]
    assert look(pools=[pool()], nodes=macs, summary=waiting(5.0)).ok
    full = [busy("macs-1", "mac-1"), busy("macs-2", "mac-1")]
    assert look(pools=[pool()], nodes=macs, pods=full, summary=waiting(25.0)).ok
    assert look(pools=[pool()], nodes=[mac("mac-1", ready="Unknown")], summary=waiting(25.0)).ok


def test_a_place_that_a_siblings_pod_is_on_its_way_to_is_not_free():
    seen: dict[str, Any] = {"nodes": [mac("mac-1")], "summary": waiting(65.0, 1)}
    alone = look(pools=[pool()], pods=[busy("large-1", "mac-1")], **seen)
    (found,) = [one for one in alone.problems if one.about == "pool macs"]
    assert "1 job that may run waits beside 1 free place on good Macs" in found.sentence
    on_its_way = pod("large-2", pool="large", uid="2")
    taken = [busy("large-1", "mac-1"), on_its_way]
    assert abouts(look(pools=[pool(), pool("large")], pods=taken, **seen)) == ["queue"]
    elsewhere = pool("large", fleet_selector="green")
    assert "pool macs" in abouts(look(pools=[pool(), elsewhere], pods=taken, **seen)), "it waits for another Mac"


def test_half_a_mac_is_no_place_for_a_pool_that_shares_none():
    seen: dict[str, Any] = {"nodes": [mac("mac-1")], "summary": waiting(65.0, 1)}
    exclusive = pool(isolation="exclusive")
    assert abouts(look(pools=[exclusive], pods=[busy("other-1", "mac-1")], **seen)) == ["queue"]
    assert "beside 1 free place on good Macs" in look(pools=[exclusive], **seen).problems[0].sentence


def test_the_pods_of_a_pool_are_known_by_their_label_and_not_by_how_their_names_begin():
    warm = pod("macs-large-1", pool="macs-large")
    [found] = look(pools=[pool(idle=1)], pods=[warm], nodes=[], summary=waiting(25.0, 1)).problems
    assert "its status is old" not in found.sentence
    stale = look(pools=[pool(idle=2)], pods=[warm, pod("x", pool="macs")], nodes=[], summary=waiting(25.0, 1))
    assert "the pool counts 2 warm Pods and has 1, because its status is old" in stale.problems[0].sentence


def test_jobs_on_macs_that_were_wiped_are_not_shown_as_running_in_silence():
    pods = [busy(f"macs-{number}", f"mac-{number}") for number in range(16)]
    health = look(pools=[pool()], pods=pods, nodes=[])
    assert not health.ok
    assert health.problems[0].sentence == (
        "16 Pods with a job are on Macs that are gone or silent, such as macs-0 on mac-0; 16 of their Nodes are gone"
    )
    silent = look(pools=[pool()], pods=pods[:1], nodes=[mac("mac-0", ready="Unknown")])
    assert "a Pod with a job is on Macs that are gone or silent" in silent.sentence
    assert look(pools=[pool()], pods=pods[:1], nodes=[mac("mac-0")]).ok
    assert look(pools=[pool()], pods=pods).ok, "where Nodes were not read nothing is said of them"


def test_labels_that_nobody_offers_are_a_problem_that_names_them():
    health = look(
        summary=replace(CALM, unserved=2, unserved_why="no pool has one of these: gpu", unserved_since=LONG_AGO)
    )
    assert not health.ok
    assert health.problems[0].sentence == "2 jobs have labels that no pool offers: no pool has one of these: gpu"
    assert (health.numbers.unserved, health.problems[0].since) == (2, LONG_AGO)


def test_jobs_that_wait_for_an_approval_are_no_problem():
    health = look(summary=replace(CALM, held=4))
    assert (health.ok, health.numbers.held) == (True, 4)


def test_a_fleet_that_was_only_just_made_counts_with_all_that_it_wants():
    new = MacFleet(metadata=ObjectMeta(name="blue", uid="f", creation_timestamp=NOW), spec=MacFleetSpec(replicas=20))
    owner = OwnerReference(api_version="v1", kind="MacFleet", name="blue", uid="f")
    first = machine(conditions=said("Claiming", since=NOW))
    first = replace(first, metadata=replace(first.metadata, owner_references=(owner,)))
    health = look(fleets=[new], machines=[first])
    assert health.sentence.startswith("Starting: 0 of 20 Macs are ready, 20 are on the way")


def growing(reason: str, made: int, since: Any = NOW) -> MacFleet:
    conditions = said(reason, "0 of 20 ready; 7 more follow in steps, 10 at a time", since=since)
    return MacFleet(
        metadata=ObjectMeta(name="blue", generation=2),
        spec=MacFleetSpec(replicas=20),
        status=MacFleetStatus(replicas=made, observed_generation=2, conditions=conditions),
    )


def test_a_fleet_whose_macs_are_all_on_their_way_starts_up_and_is_neither_well_nor_wrong():
    machines = [machine(f"m-{number}", uid=str(number), conditions=said("Claiming", since=NOW)) for number in range(13)]
    health = look(fleets=[growing("NotAllReady", 13)], machines=machines)
    assert (health.ok, health.starting, abouts(health)) == (True, True, [])
    assert health.sentence == "Starting: 0 of 20 Macs are ready, 20 are on the way, 2 jobs run, nothing needs a person."
    [made] = [one for one in health.going_on if one.about == "fleet blue"]
    assert made.sentence.startswith("7 of its 20 machines are still to be made: 0 of 20 ready")


def test_a_fleet_that_waits_for_hosts_or_is_halted_is_a_problem_at_once():
    for reason in ("WaitingForHosts", "Halted"):
        assert abouts(look(fleets=[growing(reason, 13)])) == ["fleet blue"]


def test_a_fleet_without_a_single_mac_that_comes_is_not_starting():
    health = look()
    assert (health.starting, health.sentence) == (
        False,
        "Healthy: 0 of 0 Macs are ready, 2 jobs run, nothing needs a person.",
    )


def test_one_failure_of_the_cloud_is_asked_again_and_a_cloud_that_goes_on_failing_is_a_problem():
    failed = machine(conditions=said("ScalewayAdoptFailed", "answered 500", since=NOW - timedelta(seconds=20)))
    assert look(machines=[failed]).ok
    lasting = machine(conditions=said("ScalewayAdoptFailed", "answered 500", since=NOW - timedelta(minutes=3)))
    assert abouts(look(machines=[lasting])) == ["machine m-1"]


def test_a_template_that_cannot_work_is_a_problem_though_every_machine_is_ready():
    wrong = Condition(
        type="TemplateValid",
        status="False",
        reason="InvalidTemplate",
        message="no machine of its template could work: Windows",
    )
    fleet = growing("AllReady", 20)
    fleet = replace(fleet, status=replace(fleet.status, conditions=(*fleet.status.conditions, wrong)))
    [problem] = look(fleets=[fleet]).problems
    assert (problem.about, problem.sentence) == ("fleet blue", "no machine of its template could work: Windows")


def test_a_pool_whose_numbers_are_old_says_that_the_operator_is_slow():
    counted = pool(conditions=said("AllReady", status="True"))
    for age, told in ((timedelta(minutes=2), []), (timedelta(minutes=5), ["pool macs"])):
        seen = replace(counted, status=replace(counted.status, observed_at=NOW - age))
        assert abouts(look(pools=[seen])) == told
    [problem] = look(pools=[seen]).problems
    assert problem.sentence.startswith("its numbers are 5 min old, and the operator counts every minute")


def warm_pod(since: Any) -> Pod:
    up = PodCondition(type="Ready", status="True", last_transition_time=since)
    one = pod("macs-warm", pool="macs", creation_timestamp=LONG_AGO)
    return replace(one, status=PodStatus(phase="Running", conditions=(up,)))


def test_a_pod_that_has_just_begun_to_wait_is_given_its_job_and_the_age_is_that_of_both_together():
    waiting = replace(CALM, dispatchable=1, dispatchable_by_pool={"macs": 1}, oldest_by_pool={"macs": 50.0})
    assert look(pools=[pool(idle=1)], pods=[warm_pod(NOW - timedelta(seconds=5))], summary=waiting).ok
    [problem] = look(pools=[pool(idle=1)], pods=[warm_pod(NOW - timedelta(seconds=25))], summary=waiting).problems
    assert problem.since == NOW - timedelta(seconds=25), "the job has waited longer, and not beside a warm Pod"
