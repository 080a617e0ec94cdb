"""What counts as idle, which places a Pod without a Node takes, and that a zero that somebody wrote stays a zero."""

import hashlib

import msgspec
import pytest
from unit.runners.pools.built import IMAGE, ago, let_go, node, planned, pod, pool, starting, waiting

from paddock.kube.crd import crd_of
from paddock.runners.api import Autoscaling, Provisioning, RunnerPool
from paddock.runners.pools.pod_names import golden_label


def test_only_pods_that_could_take_a_job_now_count_as_idle() -> None:
    """Unscheduled, pulling, booting: capacity that is not there yet is never shown as warm."""
    linux = [
        waiting("warm"),
        starting("pulling", poller="waiting"),
        starting("unscheduled", node="", unschedulable=ago(minutes=1)),
        starting("bound", node="n1"),
        waiting("polled", poller="done"),
        waiting("ended", phase="Succeeded", poller="done"),
    ]
    counts = planned(pool(replicas=6, os="linux"), linux).counts
    assert (counts.idle, counts.starting, counts.busy) == (1, 3, 1)
    macs = [pod("warm"), starting("booting"), starting("unscheduled", node=""), pod("busy", owner="acme")]
    counts = planned(pool(replicas=4), macs).counts
    assert (counts.idle, counts.starting, counts.busy) == (1, 2, 1)


@pytest.mark.parametrize(
    ("since", "retired", "created"),
    [
        (ago(seconds=30), {}, 0),  # they ask, and nobody else may ask beside them
        (ago(seconds=301), {"a": "unschedulable", "b": "unschedulable"}, 0),  # their places are free when they are gone
    ],
)
def test_pods_that_no_node_takes_hold_their_places_until_their_time_is_over(since, retired, created) -> None:
    ceiling = Provisioning(max_concurrent_per_node=2, start_timeout_seconds=300)
    asking = [starting(name, node="", unschedulable=since) for name in ("a", "b")]
    made = planned(pool(replicas=4, os="linux", provisioning=ceiling), asking, node(os="linux"))
    assert (let_go(made), made.create) == (retired, created)


def test_places_of_unbound_pods_are_counted_before_the_scheduler_binds_them_all_at_once() -> None:
    ceiling = Provisioning(max_concurrent_per_node=4)
    unbound = [starting(f"p{n}", node="", of="one") for n in range(3)]
    of = pool("one", replicas=8, os="linux", provisioning=ceiling)
    assert planned(of, unbound, node(os="linux")).create == 1


def test_a_closed_node_takes_nothing_from_pods_elsewhere_or_nowhere() -> None:
    pods = [pod("elsewhere", node="n2"), starting("nowhere", node="")]
    assert let_go(planned(pool(replicas=2), pods, node("n1", cordoned=True), node("n2"))) == {}


def test_a_zero_that_somebody_wrote_is_read_kept_and_written() -> None:
    """Zeros mean "none", "never" and "at once" here; dropped on the way they would become one, and five minutes."""
    of = pool(
        replicas=0,
        idle_timeout_seconds=0,
        autoscaling=Autoscaling(enabled=True, min_warm_pool_floor=0, max_replicas=0, scale_down_cooldown_seconds=0),
        provisioning=Provisioning(max_concurrent_per_node=1, start_timeout_seconds=0),
    )
    written = msgspec.json.decode(msgspec.json.encode(of))["spec"]
    assert written["idleTimeoutSeconds"] == 0
    scaling = {"minWarmPoolFloor": 0, "scaleDownCooldownSeconds": 0}
    assert {key: written["autoscaling"][key] for key in scaling} == scaling
    assert written["provisioning"]["startTimeoutSeconds"] == 0
    # What is left out is what would be zero without having been said.
    assert (written.get("replicas", 0), written["autoscaling"].get("maxReplicas", 0)) == (0, 0)
    again = msgspec.json.decode(msgspec.json.encode(of), type=RunnerPool)
    assert again.spec == of.spec


def test_the_served_schema_has_no_default_where_none_differs_from_zero() -> None:
    """A default would turn "whatever the image thinks best" into a number on the way in."""
    schema = crd_of(RunnerPool)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    field = schema["properties"]["spec"]["properties"]["idleTimeoutSeconds"]
    assert "default" not in field
    assert field["minimum"] == 0
    scaling = schema["properties"]["spec"]["properties"]["autoscaling"]["properties"]
    assert {scaling[name]["minimum"] for name in ("minWarmPoolFloor", "maxReplicas")} == {0}


def test_the_label_of_nodes_that_hold_an_image_is_the_one_that_their_agents_write() -> None:
    """The other side is another program: eight bytes of the image's SHA-256, in hex, after this very prefix."""
    assert golden_label(IMAGE) == "tuist.dev/golden-" + hashlib.sha256(IMAGE.encode()).digest()[:8].hex()
    assert golden_label("ghcr.io/tuist/macos:15.4-xcode-16.3") == "tuist.dev/golden-9b5bb13a2a98320e"
