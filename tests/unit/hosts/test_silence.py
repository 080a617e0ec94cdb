"""For how long a Mac has been silent: only while it could have been heard."""

from datetime import UTC, datetime, timedelta

import pytest

from paddock.base.clock import rfc3339_micro
from paddock.hosts.api.silence import SERVED_SINCE, served_since, silent_for
from paddock.kube.builtin import Lease, LeaseSpec, Node, NodeCondition, NodeStatus
from paddock.kube.objects import ObjectMeta

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def node(status: str = "Unknown", minutes: float = 30) -> Node:
    ready = NodeCondition(type="Ready", status=status, last_transition_time=NOW - minutes * MINUTE)
    return Node(metadata=ObjectMeta(name="mac-1"), status=NodeStatus(conditions=(ready,)))


def lease(since: float, renewed: float = 0, name: str = "paddock-gateway-a") -> Lease:
    """`since` and `renewed` in minutes before now."""
    annotations = {SERVED_SINCE: rfc3339_micro(NOW - since * MINUTE)}
    return Lease(
        metadata=ObjectMeta(name=name, annotations=annotations),
        spec=LeaseSpec(renew_time=rfc3339_micro(NOW - renewed * MINUTE)),
    )


def test_a_mac_is_silent_since_its_node_turned_unknown():
    assert silent_for(node(minutes=30), [lease(since=600)], NOW) == 30 * MINUTE


def test_time_without_a_gateway_is_the_gateways_silence():
    assert silent_for(node(minutes=600), [lease(since=4)], NOW) == 4 * MINUTE


@pytest.mark.parametrize(
    "leases",
    [
        [],
        [lease(since=600, renewed=1.1)],
        [lease(since=600, renewed=-1.1)],
        [lease(since=600, name="paddock-operator")],
        [Lease(metadata=ObjectMeta(name="paddock-gateway-a"), spec=LeaseSpec(renew_time=rfc3339_micro(NOW)))],
    ],
    ids=["none", "died", "of a clock that was ahead", "another's", "says nothing"],
)
def test_without_a_living_gateway_nobody_is_silent(leases: list[Lease]):
    assert served_since(leases, NOW) is None
    assert silent_for(node(minutes=600), leases, NOW) == timedelta()


def test_one_replica_that_served_is_enough():
    assert (
        silent_for(node(minutes=30), [lease(since=2), lease(since=600, name="paddock-gateway-b")], NOW) == 30 * MINUTE
    )


@pytest.mark.parametrize("status", ["True", "False"])
def test_what_its_agent_said_is_no_silence(status: str):
    assert silent_for(node(status), [lease(since=600)], NOW) == timedelta()


def test_clocks_that_disagree_make_no_negative_silence():
    assert silent_for(node(minutes=-5), [lease(since=600)], NOW) == timedelta()
