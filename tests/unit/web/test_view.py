"""The picture of one moment, as a value."""

from __future__ import annotations

from datetime import timedelta

import pytest
from unit.hosts.made import NOW, claim, host, machine, release

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost
from paddock.kube.builtin import Event, ObjectReference, Pod, PodStatus
from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.web.view import FleetView, picture

POOL = RunnerPool(
    spec=RunnerPoolSpec(image="i", fleet_selector="mac-fleet", dispatch_label="tuist-macos", runner_labels=("macOS",))
)


def of(*hosts: ScalewayAppleSiliconHost) -> FleetView:
    return picture(hosts, (), (), (), (), (), (), NOW)


def event(name: str, seconds: int, kind: str = "Normal") -> Event:
    about = ObjectReference(kind="ScalewayAppleSiliconHost", name=name)
    at = NOW + timedelta(seconds=seconds)
    return Event(metadata=ObjectMeta(name=name), involved_object=about, reason="Released", type=kind, last_timestamp=at)


def test_an_empty_world_has_an_empty_picture() -> None:
    assert of() == FleetView(tiles=[], events=[])


def test_the_same_objects_give_the_same_picture_in_whatever_order_they_come() -> None:
    hosts = [host("b"), host("a", state="owned"), host("c", spec={"zone": "fr-par-2"})]
    assert of(*hosts) == of(*reversed(hosts))
    assert [(tile.zone, tile.state, tile.name) for tile in of(*hosts).tiles] == [
        ("fr-par-1", "owned", "a"),
        ("fr-par-1", "pooled", "b"),
        ("fr-par-2", "pooled", "c"),
    ]


def test_a_claimed_host_shows_its_machine_and_the_sentence_that_sums_it_up() -> None:
    said = Condition(type="Ready", status="True", reason="Claimed", message="claimed by machine default/m-1")
    (tile,) = of(host(spec={"claim": claim()}, state="owned", conditions=(said,))).tiles
    assert (tile.machine, tile.why) == ("m-1", "claimed by machine default/m-1")


@pytest.mark.parametrize(
    ("wipe", "said"), [("", "being given back"), ("requested", "wipe asked for"), ("started", "being wiped")]
)
def test_a_host_on_its_way_back_says_how_far_it_is(wipe: str, said: str) -> None:
    (tile,) = of(host(spec={"release": release(wipe=wipe)}, state="releasing")).tiles
    assert tile.doing == said


def test_a_host_with_a_machine_says_what_the_machine_does() -> None:
    busy = machine("m-1", host_name="a", phase="Bootstrapping", bootstrap_step="reach ssh")
    quiet = machine("m-2", host_name="b", phase="Ready")
    view = picture([host("a"), host("b"), host("c")], [busy, quiet], (), (), (), (), (), NOW)
    assert [tile.doing for tile in view.tiles] == ["reach ssh", "ready", ""]


def test_states_are_counted_and_a_host_without_a_verdict_is_unknown() -> None:
    assert of(host("a"), host("b"), host("c", state="stranded"), host("d", state="")).states == {
        "pooled": 2,
        "stranded": 1,
        "unknown": 1,
    }


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (timedelta(0), ""),
        (timedelta(seconds=-1), ""),
        (timedelta(seconds=59), "floor 0 min"),
        (timedelta(minutes=59, seconds=59), "floor 59 min"),
        (timedelta(hours=1), "floor 1 h 00 min"),
        (timedelta(hours=23, minutes=5), "floor 23 h 05 min"),
    ],
)
def test_the_billing_floor_counts_down_and_is_silent_when_it_is_over(left: timedelta, said: str) -> None:
    (tile,) = of(host(deletable_at=NOW + left)).tiles
    assert tile.floor == said


def test_no_billing_floor_is_no_countdown() -> None:
    assert of(host(deletable_at=None)).tiles[0].floor == ""


def test_the_newest_events_come_first_and_only_so_many() -> None:
    events = [event(f"h-{number}", seconds=number) for number in range(30)]
    view = picture((), (), (), (), (), events, (), NOW)
    assert [line.about for line in view.events][:2] == [
        "host/h-29",
        "host/h-28",
    ]
    assert len(view.events) == 12


def test_a_warning_is_marked_and_an_event_without_a_time_is_the_oldest() -> None:
    timeless = Event(metadata=ObjectMeta(name="x"), reason="Odd", type="Warning")
    view = picture((), (), (), (), (), [timeless, event("h", 0)], (), NOW)
    assert [(line.at, line.warning) for line in view.events] == [("12:00:00", False), ("", True)]


def test_numbers_of_machines_fleets_pools_and_pods() -> None:
    pods = [Pod(status=PodStatus(phase="Running")), Pod()]
    view = picture(
        (),
        [machine("a", ready=True), machine("b")],
        [MacFleet()],
        [POOL, POOL],
        pods,
        (),
        ("zone fr-par-1 could not be listed",),
        NOW,
    )
    assert (view.machines, view.machines_ready, view.fleets, view.pools) == (2, 1, 1, 2)
    assert (view.pods, view.pods_running) == (2, 1)
    assert view.problems == ("zone fr-par-1 could not be listed",)
