"""What a pool does about its Pods, as tables."""

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from unit.runners.pools.built import (
    NOW,
    ago,
    let_go,
    message,
    node,
    planned,
    pod,
    pool,
    reason,
    starting,
    waiting,
)

from paddock.kube.builtin import ContainerState, ContainerStateRunning, ContainerStateWaiting, Node, NodeCondition, Pod
from paddock.kube.objects import Condition
from paddock.runners.api import DRAIN_ELIGIBLE_LABEL, OPERATOR_DRAIN_LABEL, Autoscaling, Provisioning, Rollout
from paddock.runners.pools.admission import Reservation
from paddock.runners.pools.nodes import StartFailure
from paddock.runners.pools.plan import GonePool
from paddock.runners.pools.pod_names import DRAIN_SINCE, REVISION

MARKED = {DRAIN_ELIGIBLE_LABEL: "true"}


def names(pods) -> list[str]:
    return [each.metadata.name for each in pods]


# Warm replicas


def test_what_is_missing_is_created() -> None:
    made = planned(pool(replicas=3), [pod("a")])
    assert (made.create, let_go(made), reason(made)) == (2, {}, "Starting")


def test_what_has_ended_is_reaped_and_does_not_count() -> None:
    made = planned(pool(), [pod("a"), pod("b", phase="Succeeded"), pod("c", phase="Failed", owner="acme")])
    assert (names(made.reap), made.create) == (["b", "c"], 1)


def test_a_pod_that_is_being_deleted_is_neither_reaped_again_nor_counted() -> None:
    made = planned(pool(), [pod("a"), pod("b", phase="Succeeded", deleted=NOW)])
    assert (made.reap, made.create) == ((), 1)


def test_a_pool_with_all_its_pods_does_nothing_and_says_so() -> None:
    made = planned(pool(), [pod("a"), pod("b", owner="acme")])
    assert not made.acts
    assert (made.conditions[0].status, reason(made)) == ("True", "AllReady")
    assert (made.counts.idle, made.counts.busy, made.counts.starting) == (1, 1, 0)


# Scaling down


def test_scale_down_takes_idle_pods_only_however_many_are_too_many() -> None:
    made = planned(pool(replicas=0), [pod("a", owner="acme"), pod("b"), waiting("c", poller="done")])
    assert let_go(made) == {"b": "scaled_down"}


def test_scale_down_takes_what_was_never_warm_first_then_odd_nodes_then_the_newest() -> None:
    pods = [
        waiting("oldest", node="n1", made=ago(hours=3)),
        waiting("newest", node="n1", made=ago(minutes=1)),
        starting("never-warm", node="n1", made=ago(minutes=30)),
        waiting("lonely", node="n2", made=ago(hours=5)),
        waiting("unwell", node="n3", made=ago(hours=6)),
    ]
    nodes = [node("n1", os="linux"), node("n2", os="linux"), node("n3", os="linux", ready="False")]
    gone = []
    for replicas in (4, 3, 2, 1, 0):
        (leaving,) = let_go(planned(pool(replicas=replicas, os="linux"), pods, *nodes)).keys()
        gone.append(leaving)
        pods = [each for each in pods if each.metadata.name != leaving]
    assert gone == ["never-warm", "unwell", "lonely", "newest", "oldest"]


def test_scale_down_prefers_stale_pods_to_current_ones() -> None:
    pods = [pod("current", made=ago(minutes=1)), pod("stale", image="macos:14")]
    assert let_go(planned(pool(replicas=1), pods)) == {"stale": "scaled_down"}


def test_a_pod_that_the_ledger_refused_to_let_go_is_busy_whatever_it_looks_like() -> None:
    made = planned(pool(replicas=1), [pod("a"), pod("b")], held=frozenset({"uid-a"}))
    assert let_go(made) == {"b": "scaled_down"}
    assert made.counts.busy == 1


def test_a_pod_that_is_let_go_is_replaced_only_after_it_is_gone() -> None:
    made = planned(pool(replicas=1), [pod("a", labels={OPERATOR_DRAIN_LABEL: "true"})])
    assert (let_go(made), made.create) == ({"a": "operator_drain"}, 0)


# Rolls


@pytest.mark.parametrize(
    ("replicas", "percent", "cap"), [(40, 5, 2), (10, 5, 1), (1, 5, 1), (40, 100, 40), (30, 10, 3)]
)
def test_a_roll_marks_no_more_idle_running_pods_than_its_cap(replicas, percent, cap) -> None:
    of = pool(replicas=replicas, rollout=Rollout(max_concurrent_percent=percent))
    made = planned(of, [pod(f"p{i:02}", image="macos:14") for i in range(replicas)])
    assert (len(made.mark), made.retire) == (cap, ())


def test_a_roll_leaves_claimed_and_polled_pods_alone() -> None:
    of = pool(replicas=2, rollout=Rollout(max_concurrent_percent=100))
    made = planned(of, [pod("a", image="macos:14", owner="acme"), pod("b", image="macos:14", poller="done")])
    assert not made.acts
    assert made.counts.stale == 2


def test_stale_pending_pods_are_replaced_within_the_cap() -> None:
    of = pool(replicas=40, os="linux")
    made = planned(of, [waiting(f"p{i:02}", image="old") for i in range(40)])
    assert list(let_go(made).values()) == ["rolled", "rolled"]


@pytest.mark.parametrize(
    "unavailable",
    [
        [pod("m", image="macos:14", labels=MARKED)],
        [starting("s")],
        [],  # one is missing
    ],
)
def test_whatever_is_unavailable_pauses_a_roll(unavailable) -> None:
    made = planned(pool(replicas=3), [pod("a", image="macos:14"), pod("b", image="macos:14"), *unavailable])
    assert (made.mark, made.retire) == ((), ())


def test_a_changed_runtime_class_replaces_pods_that_dispatch_would_not_drain() -> None:
    """The image is the same, so dispatch sees nothing stale: the Pod is retired instead."""
    made = planned(pool(replicas=1, annotations={REVISION: "b"}), [pod("a", annotations={REVISION: "a"})])
    assert (let_go(made), made.mark) == ({"a": "rolled"}, ())


def test_a_pod_that_does_not_listen_to_a_drain_is_replaced_after_a_while() -> None:
    def drained(since):
        at = pod("a", image="macos:14", labels=MARKED, annotations={DRAIN_SINCE: since.isoformat()})
        return planned(pool(replicas=1), [at])

    assert let_go(drained(ago(minutes=3))) == {"a": "drain_ignored"}
    early = drained(ago(minutes=1))
    assert let_go(early) == {}
    assert early.due == timedelta(minutes=1)


# Deletion of the pool


def test_a_deleted_pool_lets_idle_pods_go_and_waits_for_busy_ones() -> None:
    made = planned(pool(replicas=5, deleted=True), [pod("idle"), starting("young"), pod("busy", owner="acme")])
    assert let_go(made) == {"idle": "pool_deleted", "young": "pool_deleted"}
    assert (made.create, reason(made)) == (0, "Draining")


# Nodes


@pytest.mark.parametrize("closed", [{"cordoned": True}, {"deleted": True}])
def test_idle_pods_leave_a_closed_node_and_busy_ones_stay(closed) -> None:
    pods = [
        pod("idle", node="n1"),
        pod("stamped", node="n1", owner="a"),
        waiting("polled", node="n1", poller="done"),
        pod("elsewhere", node="n2"),
    ]
    made = planned(pool(replicas=4), pods, node(**closed), node("n2"))
    assert let_go(made) == {"idle": "node_closed"}


@pytest.mark.parametrize(
    ("scaling", "create"),
    [
        (Autoscaling(), 2),
        (Autoscaling(enabled=True, max_replicas=2), 2),
        # The load that it follows has those two jobs in it.
        (Autoscaling(enabled=True, max_replicas=9), 0),
    ],
)
def test_a_mac_that_came_in_place_of_one_that_drains_is_filled_at_once(scaling: Autoscaling, create: int) -> None:
    finishing = [pod("a", node="n1", owner="acme"), pod("b", node="n1", owner="acme")]
    wanted = pool(replicas=2, autoscaling=scaling)
    made = planned(wanted, finishing, node(cordoned=True), node("n2"))
    assert made.create == create
    assert "(2 on Macs that drain)" in message(made) or not create
    # Where no Mac has room nothing is missing, and when all are there none is too many.
    alone = planned(
        wanted,
        finishing,
        node(cordoned=True),
        node("n2"),
        sibling_pods=[pod("c", of="x", node="n2"), pod("d", of="x", node="n2")],
    )
    assert (alone.create, alone.blocked) == (0, False)
    both = planned(wanted, [*finishing, pod("c", node="n2"), pod("d", node="n2")], node(cordoned=True), node("n2"))
    assert let_go(both) == ({} if create else {"c": "scaled_down", "d": "scaled_down"})


def test_jobs_that_finish_on_a_linux_node_that_drains_count_as_before() -> None:
    finishing = [waiting("a", node="n1", poller="done"), waiting("b", node="n1", poller="done")]
    made = planned(pool(replicas=2, os="linux"), finishing, node(os="linux", cordoned=True), node("n2", os="linux"))
    assert made.create == 0


def test_a_node_that_the_cache_does_not_show_is_not_taken_for_gone() -> None:
    assert let_go(planned(pool(replicas=1), [pod("a", node="hidden")])) == {}
    made = planned(pool(replicas=1), [pod("a", node="hidden")], gone=frozenset({"hidden"}))
    assert let_go(made) == {"a": "node_gone"}


def test_a_busy_pod_on_a_node_that_is_gone_is_left_to_the_ledgers() -> None:
    made = planned(pool(replicas=1), [pod("a", node="hidden", owner="acme")], gone=frozenset({"hidden"}))
    assert not made.acts


@pytest.mark.parametrize(
    ("minutes", "neighbour", "gone"),
    [(6, "True", {"idle": "node_unready"}), (4, "True", {}), (60, "False", {})],
)
def test_of_a_node_that_is_not_heard_of_only_idle_pods_are_let_go_and_only_if_others_are_well(
    minutes, neighbour, gone
) -> None:
    silent = _saying("n1", "Unknown", ago(minutes=minutes))
    pods = [pod("idle", node="n1"), pod("busy", node="n1", owner="acme")]
    assert let_go(planned(pool(replicas=2), pods, silent, _saying("n2", neighbour, ago(days=1)))) == gone


def _saying(name: str, ready: str, since: datetime) -> Node:
    said = NodeCondition(type="Ready", status=ready, last_transition_time=since)
    made = node(name)
    return replace(made, status=replace(made.status, conditions=(said,)))


def test_a_deleted_pod_that_cannot_end_is_left_to_healing() -> None:
    made = planned(pool(replicas=0), [pod("a", node="n9", deleted=ago(days=1))], gone=frozenset({"n9"}))
    assert not made.acts


def test_of_a_pool_that_is_gone_what_ended_is_reaped_and_what_looks_idle_is_let_go() -> None:
    pods = [
        pod("ended", phase="Succeeded"),
        pod("idle"),
        pod("busy", owner="acme"),
        pod("held"),
        pod("leaving", deleted=ago(minutes=1)),
    ]
    gone = GonePool(name="mac", pods=pods, held=frozenset({pods[3].metadata.uid}))
    assert names(gone.reap) == ["ended"]
    assert [(each.pod.metadata.name, each.kind) for each in gone.retire] == [("idle", "pool_deleted")]


def test_a_pod_without_its_service_account_is_replaced() -> None:
    made = planned(pool(replicas=2), [pod("a"), pod("b", owner="acme")], homeless=frozenset({"uid-a", "uid-b"}))
    assert let_go(made) == {"a": "no_service_account"}


# Start timeouts


@pytest.mark.parametrize(
    ("each", "kind"),
    [
        (starting("a", scheduled=ago(seconds=301)), "start_timeout"),
        (starting("a", scheduled=ago(seconds=299)), None),
        (starting("a", node="", unschedulable=ago(seconds=301)), "unschedulable"),
        (starting("a", node="", unschedulable=ago(seconds=299)), None),
        (starting("a", node="", made=ago(hours=2)), None),
        (starting("a", scheduled=ago(hours=1), owner="acme"), None),
        (starting("a", scheduled=ago(hours=1), poller="done"), None),
        (waiting("a", scheduled=ago(hours=1)), None),
    ],
)
def test_the_clock_of_a_start_is_the_schedulers_word(each, kind) -> None:
    made = planned(pool(replicas=1, os="linux"), [each])
    assert let_go(made) == ({"a": kind} if kind else {})


@pytest.mark.parametrize(
    ("more", "ready", "kind"),
    [
        ({"unready": ago(minutes=4)}, "True", None),
        ({"unready": ago(minutes=6)}, "True", "start_timeout"),
        ({"unready": ago(minutes=6), "owner": "acme"}, "True", None),
        ({"unready": ago(minutes=6)}, "Unknown", None),  # its Node is silent, and so are all others
    ],
)
def test_a_vm_that_runs_and_never_asks_for_a_job_is_replaced_like_one_that_does_not_start(more, ready, kind) -> None:
    vm = pod("a", node="n1", scheduled=ago(hours=2), ready="False", **more)
    made = planned(pool(replicas=1), [vm], _saying("n1", ready, ago(minutes=2)))
    assert let_go(made) == ({"a": kind} if kind else {})
    assert made.counts.idle == 0


def test_a_vm_that_does_not_ask_cannot_hear_of_a_drain_and_is_let_go() -> None:
    old = [pod("a", node="n1", image="macos:14", ready="False"), pod("b", node="n2", image="macos:14")]
    made = planned(pool(replicas=2), old)
    assert (let_go(made), made.mark) == ({"a": "rolled"}, ())


@pytest.mark.parametrize(
    ("more", "asked"),
    [
        ({"polled": ago(minutes=6)}, True),
        ({"polled": ago(minutes=4)}, False),
        ({"polled": ago(minutes=6), "owner": "acme"}, False),
        ({"polled": ago(minutes=6), "runner": ContainerState(running=ContainerStateRunning())}, False),
        ({}, False),
    ],
)
def test_the_ledger_is_asked_about_a_pod_between_its_poller_and_a_runner_that_does_not_start(more, asked) -> None:
    """A drained Pod whose runner image cannot be had ends never; nothing but the ledger knows that it has no job."""
    made = planned(pool(replicas=1, os="linux"), [waiting("a", poller="done", **more)])
    assert let_go(made) == ({"a": "runner_not_started"} if asked else {})


def test_a_pod_whose_image_is_being_pulled_is_not_replaced_however_long_that_takes() -> None:
    pulling = ContainerState(waiting=ContainerStateWaiting(reason="ImagePulling", message="3 of 65 GB"))
    failing = ContainerState(waiting=ContainerStateWaiting(reason="ErrImagePull"))
    of = pool(replicas=1)
    for state, expected in ((pulling, {}), (failing, {"a": "start_timeout"})):
        slow = [pod("a", node="n1", phase="Pending", scheduled=ago(hours=9), runner=state)]
        assert let_go(planned(of, slow, node(golden=False))) == expected
    slow = [pod("a", node="n1", phase="Pending", scheduled=ago(hours=9), runner=pulling)]
    assert let_go(planned(of, slow, node(golden=True))) == {"a": "start_timeout"}, "the image is here"


def test_zero_switches_start_timeouts_off() -> None:
    of = pool(replicas=1, os="linux", provisioning=Provisioning(start_timeout_seconds=0))
    assert let_go(planned(of, [starting("a", scheduled=ago(hours=9))])) == {}


def test_a_mac_that_fetches_the_image_gets_the_time_for_it() -> None:
    slow = [starting("a", node="n1", scheduled=ago(minutes=20))]
    assert let_go(planned(pool(replicas=1), slow, node(golden=False))) == {}
    assert let_go(planned(pool(replicas=1), slow, node(golden=True))) == {"a": "start_timeout"}


def test_a_node_that_fails_many_pods_is_named_and_avoided_while_it_is_in_the_minority() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    failures = [StartFailure("n1", ago(minutes=each)) for each in (1, 5, 9)]
    made = planned(pool(replicas=3), [], *nodes, failures=failures)
    assert made.avoid == ("n1",)
    assert "n1 (3 Pods)" in message(made)


@pytest.mark.parametrize(
    ("failing", "pods", "nodes"),
    [
        ({"n1": 2}, [], 3),  # not many
        ({"n1": 3}, [], 2),  # half of the fleet is no minority
        ({"n1": 3, "n2": 3}, [], 3),
    ],
)
def test_no_node_is_avoided_without_a_majority_that_works(failing, pods, nodes) -> None:
    failures = [StartFailure(name, ago(minutes=1)) for name, count in failing.items() for _ in range(count)]
    made = planned(pool(replicas=1), pods, *(node(f"n{i + 1}") for i in range(nodes)), failures=failures)
    assert made.avoid == ()


def test_a_node_that_takes_no_pods_is_no_majority_that_works() -> None:
    """Were both avoided, no Node were left: the three others are closed, silent or under pressure."""
    others = [node("n3", cordoned=True), node("n4", ready="Unknown"), node("n5", pressure="DiskPressure")]
    failures = [StartFailure(name, ago(minutes=1)) for name in ("n1", "n2") for _ in range(3)]
    made = planned(pool(replicas=1), [], node("n1"), node("n2"), *others, failures=failures)
    assert made.avoid == ()
    assert "look at the image first" in message(made)


def test_a_mac_on_which_jobs_fail_gets_no_pod_and_loses_those_that_wait_there() -> None:
    nodes = [node("n1", failing=True), node("n2"), node("n3")]
    idle, busy = pod("a", node="n1"), pod("b", node="n1", owner="acme")
    made = planned(pool(replicas=4), [idle, busy], *nodes)
    assert made.avoid == ("n1",)
    assert let_go(made) == {"a": "jobs_fail"}, "what runs there goes on"
    assert made.create == 2
    assert planned(pool(replicas=4), [busy], *nodes).create == 3, "its own places count for nothing"


def test_a_suspect_that_takes_no_pods_now_is_avoided_for_when_it_does() -> None:
    nodes = [node("n1", ready="Unknown"), node("n2"), node("n3")]
    failures = [StartFailure("n1", ago(minutes=1)) for _ in range(3)]
    assert planned(pool(replicas=1), [], *nodes, failures=failures).avoid == ("n1",)


def test_a_pod_that_started_since_clears_its_node() -> None:
    failures = [StartFailure("n1", ago(minutes=5)) for _ in range(3)]
    nodes = [node(f"n{i}", os="linux") for i in (1, 2, 3)]
    assert planned(pool(replicas=1, os="linux"), [], *nodes, failures=failures).avoid == ("n1",)
    assert planned(pool(replicas=2, os="linux"), [waiting("a", node="n1")], *nodes, failures=failures).avoid == ()


def test_old_failures_are_forgotten() -> None:
    failures = [StartFailure("n1", ago(minutes=31)) for _ in range(9)]
    assert planned(pool(), [], node("n1"), node("n2"), node("n3"), failures=failures).avoid == ()


def test_failures_that_took_half_an_hour_each_add_up() -> None:
    """A Mac that has to fetch the image has that long: only two Pods fail there in the time for which others are remembered."""
    long = [StartFailure("n1", ago(minutes=each), timedelta(minutes=25)) for each in (1, 32, 63)]
    nodes = [node("n1"), node("n2"), node("n3")]
    assert planned(pool(), [], *nodes, failures=long).avoid == ("n1",)
    later = [StartFailure("n1", ago(minutes=each), timedelta(minutes=25)) for each in (31, 62, 93)]
    assert planned(pool(), [], *nodes, failures=later).avoid == (), "a repaired Node is tried again"


def test_a_pod_that_was_waited_for_on_a_mac_without_the_image_says_so() -> None:
    late = starting("a", node="n1", scheduled=ago(minutes=31))
    [gone] = planned(pool(replicas=1), [late], node("n1", golden=False)).retire
    assert (gone.failed_on, gone.waited) == ("n1", timedelta(minutes=25))


# How many may start


def test_no_healthy_node_means_no_pod_and_a_sentence() -> None:
    nodes = [node(ready="Unknown"), node("n2", cordoned=True), node("n3", pressure="DiskPressure")]
    made = planned(pool(), [], *nodes)
    assert (made.create, reason(made), made.blocked) == (0, "NoHealthyNode", True)
    assert "none of the 3 Nodes" in message(made)


def test_nodes_of_another_fleet_do_not_count() -> None:
    assert reason(planned(pool(fleet_selector="other"), [])) == "NoHealthyNode"


def _linux(name: str, per_node: int = 4, replicas: int = 8):
    ceiling = Provisioning(max_concurrent_per_node=per_node)
    return pool(name, os="linux", replicas=replicas, provisioning=ceiling)


def test_siblings_share_one_ceiling_and_leave_each_other_a_place() -> None:
    one, other = _linux("one"), _linux("other")
    first = planned(one, [], node(os="linux"), siblings=[other])
    assert first.create == 3
    theirs = [starting(f"one-{i}", of="one") for i in range(3)]
    second = planned(other, [], node(os="linux"), siblings=[one], sibling_pods=theirs)
    assert (second.create, reason(second)) == (1, "ProvisioningCeiling")


def test_the_last_place_goes_to_a_starved_pool_and_not_to_nobody() -> None:
    one, other = _linux("one", per_node=1), _linux("other", per_node=1)
    assert planned(one, [], node(os="linux"), siblings=[other]).create == 1


def test_the_lowest_ceiling_of_the_siblings_holds_for_each_node() -> None:
    nodes = [node(f"n{i}", os="linux") for i in (1, 2)]
    assert (
        planned(_linux("one", per_node=4), [], *nodes, siblings=[_linux("other", per_node=2, replicas=0)]).create == 4
    )


def test_creations_that_no_list_shows_are_counted() -> None:
    reserved = [Reservation(f"r{i}", "one", 99.0) for i in range(3)]
    assert planned(_linux("one"), [], node(os="linux"), reserved=reserved).create == 1


def test_busy_and_warm_pods_do_not_count_as_starting() -> None:
    pods = [waiting("a", of="one"), waiting("b", of="one", poller="done"), starting("c", of="one")]
    assert planned(_linux("one"), pods, node(os="linux")).create == 3


def test_a_sibling_that_cannot_make_pods_is_kept_no_place() -> None:
    broken = Condition(type="Ready", status="False", reason="InvalidConfiguration")
    other = pool("other", os="linux", replicas=8, conditions=(broken,))
    assert planned(_linux("one"), [], node(os="linux"), siblings=[other]).create == 4


# Apple's licence


def test_never_more_than_two_vms_are_planned_for_a_mac() -> None:
    made = planned(pool(replicas=9), [], node("n1"), node("n2"))
    assert (made.create, reason(made)) == (4, "LicenceLimit")


@pytest.mark.parametrize(("offered", "create"), [("0", 2), ("1", 3), ("2", 4), ("9", 4), ("many", 2)])
def test_a_mac_gets_as_many_vms_as_its_agent_offers_and_never_more_than_two(offered: str, create: int) -> None:
    made = planned(pool(replicas=9), [], node("n1"), node("n2", seats=offered))
    assert (made.create, reason(made)) == (create, "LicenceLimit")


def test_macs_whose_agent_offers_no_seats_are_named_with_the_remedy() -> None:
    made = planned(pool(replicas=4), [], node("old-1", seats=None), node("old-2", seats=None))
    assert (made.create, reason(made)) == (0, "NoVMSeats")
    assert "2 Macs (old-1, old-2) are ready and offer no tuist.dev/vm" in message(made)
    assert "install the agent of this version" in message(made)


def test_one_mac_without_seats_is_named_even_while_the_pool_is_whole() -> None:
    pods = [pod("a", node="n1"), pod("b", node="n1")]
    made = planned(pool(replicas=2), pods, node("n1"), node("old", seats=None))
    assert reason(made) == "AllReady"
    assert "1 Macs (old) are ready and offer no tuist.dev/vm" in message(made)


def test_a_linux_node_needs_no_seats() -> None:
    assert "tuist.dev/vm" not in message(planned(_linux("one"), [], node(os="linux")))


def test_vms_that_the_scheduler_does_not_count_are_replaced_a_few_at_a_time() -> None:
    pods = [pod(name, node="n1" if name < "c" else "n2", counted=False) for name in "abcd"]
    made = planned(pool(replicas=4), pods)
    assert (list(let_go(made).values()), made.counts.stale) == (["rolled"], 4)
    busy = [pod(name, node="n1", counted=False, owner="acme") for name in "ab"]
    assert not planned(pool(replicas=2), busy).retire


def test_a_vm_on_a_mac_without_seats_stays_because_a_new_one_would_not_fit() -> None:
    made = planned(pool(replicas=1), [pod("a", node="old", counted=False)], node("old", seats=None))
    assert (made.retire, made.mark, made.counts.stale) == ((), (), 0)


@pytest.mark.parametrize(
    ("pods", "create"),
    [
        ([pod("a", node="n1"), pod("b", node="n1")], 2),  # one Mac is full
        ([pod("a", node="n1", deleted=NOW), pod("b", node="n1")], 2),  # a VM that is being stopped is there still
        ([pod("a", node="n1", phase="Succeeded"), pod("b", node="n1")], 3),
        ([starting("a", node=""), pod("b", node="n1")], 2),  # will need a place
    ],
)
def test_what_has_or_needs_a_vm_counts_against_the_licence(pods, create) -> None:
    assert planned(pool(replicas=9), pods, node("n1"), node("n2")).create == create


def test_vms_of_sibling_pools_count_too() -> None:
    theirs = [pod("x", of="other", node="n1"), pod("y", of="other", node="n1"), pod("z", of="other", node="n2")]
    made = planned(pool(replicas=3), [], siblings=[pool("other", replicas=3)], sibling_pods=theirs)
    assert made.create == 1


def test_a_mac_with_a_third_vm_loses_the_youngest_idle_one() -> None:
    pods = [
        pod("a", node="n1", made=ago(hours=2)),
        pod("b", node="n1", made=ago(hours=1)),
        pod("busy", node="n1", made=ago(minutes=1), owner="acme"),
    ]
    assert let_go(planned(pool(replicas=3), pods)) == {"b": "licence"}


# Room, while some Pod has none


def test_a_pod_that_waits_takes_the_place_that_it_waits_for() -> None:
    pods = [pod("a", node="n1"), starting("waits", node="")]
    assert planned(pool(replicas=9), pods, node("n1"), node("n2"), node("n3")).create == 4


@pytest.mark.parametrize(("since", "create"), [(5, 0), (60, 1)])
def test_a_pod_of_another_pool_that_does_not_take_a_place_has_no_right_to_it(since: float, create: int) -> None:
    full = [pod(f"x{n}", of="other", node="n1") for n in range(2)]
    full.append(pod("y", of="other", node="n2"))
    waits = starting("waits", of="other", node="", unschedulable=ago(seconds=since))
    made = planned(pool(replicas=1), [], siblings=[pool("other", replicas=4)], sibling_pods=[*full, waits])
    assert made.create == create


def test_pods_that_the_scheduler_refuses_do_not_fill_the_ceiling() -> None:
    huge = [starting(f"h{n}", of="huge", node="", unschedulable=ago(minutes=1)) for n in range(4)]
    made = planned(_linux("one"), [], node(os="linux"), siblings=[_linux("huge")], sibling_pods=huge)
    assert made.create == 3
    young = [starting(f"h{n}", of="huge", node="", unschedulable=ago(seconds=2)) for n in range(4)]
    assert planned(_linux("one"), [], node(os="linux"), siblings=[_linux("huge")], sibling_pods=young).create == 0


@pytest.mark.parametrize(
    ("on", "create"),
    [({}, 2), ({"deleted": NOW}, 0), ({"node": "cordoned"}, 0), ({"node": "gone"}, 0)],
)
def test_what_ended_on_a_good_node_is_replaced_whatever_cannot_be_placed(on, create) -> None:
    nodes = [node(os="linux"), node("cordoned", os="linux", cordoned=True)]
    ended = [pod(f"e{n}", of="lin", **({"node": "n1", "phase": "Succeeded"} | on)) for n in range(2)]
    waits = starting("waits", of="lin", node="", unschedulable=ago(minutes=1))
    made = planned(pool("lin", os="linux", replicas=6), [*ended, waits], *nodes)
    assert (made.create, reason(made)) == (create, "Unschedulable")


# What is said


def test_a_docker_daemon_without_a_vm_of_its_own_fails_closed() -> None:
    made = planned(pool(os="linux", docker=True), [pod("ended", phase="Failed")])
    assert (made.create, reason(made)) == (0, "InvalidConfiguration")
    assert names(made.reap) == ["ended"]


def test_of_two_pools_with_one_dispatch_label_the_one_that_gets_no_job_says_so() -> None:
    made = planned(pool(replicas=1), [pod("a")], label_keeper=pool("twin"))
    assert reason(made) == "AmbiguousDispatchLabel"
    assert "pool twin has had the dispatch label" in message(made)


def test_a_shortage_of_room_is_measured_on_the_pool_and_one_pod_keeps_asking() -> None:
    """Pods that wait too long are replaced; the pool remembers since when there is no room (#12851)."""
    waits = starting("a", node="", unschedulable=ago(minutes=1), of="lin")
    made = planned(pool("lin", os="linux", replicas=4), [waits])
    placeable = made.conditions[1]
    assert (placeable.type, placeable.status, placeable.last_transition_time) == ("Placeable", "False", ago(minutes=1))
    assert made.create == 0
    doubted = pool("lin", os="linux", replicas=4, conditions=(placeable,))
    again = planned(doubted, [])
    assert (again.create, reason(again)) == (1, "Unschedulable")
    placed = planned(doubted, [waiting("b", of="lin", scheduled=ago(seconds=5))])
    assert placed.conditions[1].status == "True"
    assert placed.create == 3


def test_every_pod_gets_at_most_one_act_whatever_the_pool_looks_like() -> None:
    made_up = [
        pod("a", image="macos:14", labels=MARKED | {OPERATOR_DRAIN_LABEL: "true"}, node="gone"),
        starting("b", scheduled=ago(hours=2), image="macos:14"),
        pod("c", phase="Failed", deleted=ago(hours=1), node="gone"),
        pod("d", owner="acme"),
        starting("e", node="", unschedulable=ago(hours=1)),
        pod("f", phase="Succeeded"),
    ]
    for replicas in range(7):
        made = planned(
            pool(replicas=replicas), made_up, gone=frozenset({"gone"}), homeless=frozenset({"uid-a", "uid-b"})
        )
        acted = [*names(made.reap), *let_go(made), *names(made.mark)]
        assert len(acted) == len(set(acted))
        assert "d" not in acted


# A shape that was wrong, and is corrected


def sized(of: Pod, cpu: str, memory: str = "14Gi") -> Pod:
    amounts = {"requests": {"cpu": cpu, "memory": memory}}
    containers = tuple(replace(each, resources=amounts) for each in of.spec.containers)
    return replace(of, spec=replace(of.spec, containers=containers))


def mac(name: str = "n1", cpu: str = "10", memory: str = "32Gi") -> Node:
    made = node(name)
    offered = {**made.status.allocatable, "cpu": cpu, "memory": memory}
    return replace(made, status=replace(made.status, allocatable=offered))


def test_pods_of_a_corrected_shape_that_have_no_node_go_at_once_all_of_them() -> None:
    wrong = [sized(starting(f"w{number}", node="", unschedulable=ago(seconds=5)), "600") for number in range(12)]
    made = planned(pool(replicas=12), wrong, mac())
    assert let_go(made) == {f"w{number}": "rolled" for number in range(12)}


def test_the_same_size_in_other_words_is_no_older_shape() -> None:
    same = [sized(starting(f"w{number}", node=""), "6", "14336Mi") for number in range(3)]
    assert let_go(planned(pool(replicas=3), same, mac())) == {}


def test_warm_pods_of_another_size_are_replaced_a_few_at_a_time() -> None:
    made = planned(pool(replicas=2), [sized(pod("a", node="n1"), "4"), sized(pod("b", node="n1"), "4")], mac())
    assert list(let_go(made).values()) == ["rolled"]
    assert made.counts.stale == 2


def test_a_pod_that_no_mac_of_the_fleet_could_hold_is_not_made_and_the_fleets_own_size_is_said() -> None:
    made = planned(pool(replicas=12, pod_cpu_milli=600_000), [], mac("n1"), mac("n2", cpu="12"))
    assert (made.create, reason(made)) == (0, "InvalidConfiguration")
    assert "spec.podCPUMilli 600000" in message(made)
    assert "at most podCPUMilli 12000 and podMemoryMB 32768 fit" in message(made)


def test_what_no_linux_node_holds_is_asked_for_all_the_same_because_larger_nodes_may_come_for_it() -> None:
    assert planned(pool(os="linux", replicas=1, pod_cpu_milli=600_000), [], node("n1", os="linux")).create == 1


def test_a_pool_that_ends_says_what_is_left_of_it_and_no_zeros() -> None:
    assert "run a job" not in message(planned(pool(deleted=True), [pod("a", node="n1")]))
    assert message(planned(pool(deleted=True), [])) == "the pool is being deleted: its last Pods are leaving"
