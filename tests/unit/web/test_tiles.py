"""One tile a Mac: what is said of it in a word, a letter and a line."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, claim, host, machine, release
from unit.web.page_fixture import page_data

from paddock.kube.builtin import Node, NodeSpec, Pod, PodCondition, PodSpec, PodStatus
from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import OWNER_LABEL, RUNNER_LABEL
from paddock.web.page_data import PageData
from paddock.web.tiles import STATES, Tile, groups_of, tile_states

READY = machine("m-1", host_name="a", ready=True, phase="Ready")


def one(*hosts, **around) -> Tile:
    (group,) = groups_of(PageData(now=NOW, hosts=hosts, **around))
    (tile,) = group.tiles
    return tile


def pod(phase: str = "Running", owner: str = "acme", node: str = "m-1") -> Pod:
    labels = {RUNNER_LABEL: "true", **({OWNER_LABEL: owner} if owner else {})}
    return Pod(
        metadata=ObjectMeta(name="p", uid="p", labels=labels),
        spec=PodSpec(node_name=node),
        status=PodStatus(phase=phase),
    )


def test_every_state_has_a_word_and_a_letter_of_its_own() -> None:
    assert len({state.word for state in STATES.values()}) == len(STATES)
    assert len({state.letter for state in STATES.values()}) == len(STATES)


def test_a_free_host_is_free_and_a_quarantined_one_is_not() -> None:
    assert one(host("a")).state == "free"
    assert one(host("a", spec={"quarantine": "broken fan"})).state == "quarantined"


def test_a_ready_machine_is_busy_while_a_pod_works_on_it() -> None:
    mac = host("a", spec={"claim": claim(READY)}, state="owned")
    assert one(mac, machines=[READY]).state == "ready"
    assert one(mac, machines=[READY], pods=[pod()]).state == "busy"
    assert one(mac, machines=[READY], pods=[pod(owner="")]).state == "ready"
    assert one(mac, machines=[READY], pods=[pod(phase="Succeeded")]).state == "ready"


def test_a_ready_mac_waits_for_a_job_only_where_a_runner_does() -> None:
    mac = host("a", spec={"claim": claim(READY)}, state="owned")
    starting, waiting = pod(owner=""), pod(owner="")
    waiting = replace(waiting, status=replace(waiting.status, conditions=(PodCondition(type="Ready", status="True"),)))
    assert one(mac, machines=[READY]).doing == "no runner is on it"
    assert one(mac, machines=[READY], pods=[pod(owner="", phase="Failed")]).doing == "no runner is on it"
    assert one(mac, machines=[READY], pods=[starting]).doing == "a runner starts"
    for pods in ([waiting], [waiting, starting], [starting, waiting]):
        assert one(mac, machines=[READY], pods=pods).doing == "waits for a job"
    set_aside = host("a", spec={"claim": claim(READY), "quarantine": "broken fan"}, state="owned")
    assert one(set_aside, machines=[READY], pods=[waiting]).doing == "", "that it is set aside later comes first"


def test_a_cordoned_node_is_draining_whatever_runs_on_it() -> None:
    mac = host("a", spec={"claim": claim(READY)}, state="owned")
    node = Node(metadata=ObjectMeta(name="m-1"), spec=NodeSpec(unschedulable=True))
    assert one(mac, machines=[READY], nodes=[node], pods=[pod()]).state == "draining"


def test_a_bootstrap_says_its_step_and_how_far_that_is() -> None:
    young = machine("m-1", host_name="a", phase="Bootstrapping", bootstrap_step="no-sleep")
    tile = one(host("a", spec={"claim": claim(young)}, state="owned"), machines=[young])
    assert (tile.state, tile.doing) == ("setup", "no-sleep")
    assert 0 < tile.step < tile.steps


@pytest.mark.parametrize("reason", ["BootstrapFailed", "RebootingForRecovery", "NodeMissing"])
def test_a_machine_that_is_being_brought_back_is_recovering(reason: str) -> None:
    lame = machine("m-1", host_name="a", conditions=(Condition("Ready", "False", reason),))
    assert one(host("a", spec={"claim": claim(lame)}, state="owned"), machines=[lame]).state == "failing"


@pytest.mark.parametrize(
    ("wipe", "said"), [("", "being given back"), ("requested", "wipe asked for"), ("started", "being wiped")]
)
def test_a_host_on_its_way_back_says_how_far_it_is(wipe: str, said: str) -> None:
    tile = one(host("a", spec={"release": release(wipe=wipe)}, state="releasing"))
    assert (tile.state, tile.doing) == ("wiping", said)


def test_a_stranded_host_is_stranded_although_its_claim_still_names_a_machine() -> None:
    assert one(host("a", spec={"claim": claim(READY)}, state="stranded")).state == "stranded"


def test_a_host_without_a_verdict_is_unknown() -> None:
    assert one(host("a", state="")).state == "unknown"
    assert one(host("a", state="a word of the future")).state == "unknown"


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (timedelta(0), ""),
        (timedelta(seconds=-1), ""),
        (timedelta(seconds=59), "0 min"),
        (timedelta(minutes=119), "119 min"),
        (timedelta(hours=23, minutes=5), "23 h"),
    ],
)
def test_the_billing_floor_counts_down_and_is_silent_when_it_is_over(left: timedelta, said: str) -> None:
    assert one(host("a", deletable_at=NOW + left)).floor == said


def test_tiles_stay_in_their_place_when_states_change() -> None:
    before, after = groups_of(page_data(24)), groups_of(page_data(24, turn=4))
    names = [[tile.name for tile in group.tiles] for group in before]
    assert names == [[tile.name for tile in group.tiles] for group in after]
    assert before != after


def test_the_same_world_gives_the_same_tiles_in_whatever_order_it_is_listed() -> None:
    seen = page_data(24)
    shuffled = PageData(
        now=seen.now,
        hosts=list(reversed(seen.hosts)),
        machines=list(reversed(seen.machines)),
        nodes=seen.nodes,
        pods=seen.pods,
        ledger=seen.ledger,
    )
    assert groups_of(seen) == groups_of(shuffled)


def test_groups_are_by_zone_and_fleet_and_count_every_mac_once() -> None:
    groups = groups_of(page_data(24))
    assert [(group.zone, group.fleet) for group in groups][:2] == [("fr-par-1", "mac-fleet"), ("fr-par-1", "")]
    assert sum(tile_states(groups).values()) == 24


def test_a_small_tile_has_a_name_for_touch_and_for_screen_readers() -> None:
    from paddock.web.parts.fleet import fleet_parts

    seen = page_data(70)
    html = fleet_parts(groups_of(seen), seen.now)["fleet"].html()
    assert html.count('class="tile small"') == 70
    assert html.count("aria-label=") >= 70
