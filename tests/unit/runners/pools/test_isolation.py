"""Two accounts never share a Mac where the pool is exclusive, and where they may, Softnet is asked for."""

from typing import Any

import pytest
from msgspec.structs import replace
from unit.runners.pools.built import IMAGE, NOW, SETTINGS, node, pod, pool

from paddock.kube.builtin import Container, Node, Pod
from paddock.runners.api import RUNNER, SOFTNET_LABEL, VM_RESOURCE
from paddock.runners.dispatch.waiting_pods import must_go
from paddock.runners.pools.admission import places
from paddock.runners.pools.capacity import seats_taken
from paddock.runners.pools.isolation import isolated
from paddock.runners.pools.pod_predicates import stale
from paddock.runners.pools.pod_template import pod_of

EXCLUSIVE = pool(isolation="exclusive")
SHARED = pool()


def alone(name: str, **more: Any) -> Pod:
    """A Pod that asks for both seats of its Mac."""
    made = pod(name, **more)
    both = Container(name=RUNNER, image=IMAGE, resources={"requests": {VM_RESOURCE: "2"}})
    return replace(made, spec=replace(made.spec, containers=(both,)))


def with_softnet(name: str, on: str = "true") -> Node:
    made = node(name)
    return replace(made, metadata=replace(made.metadata, labels={**made.metadata.labels, SOFTNET_LABEL: on}))


@pytest.mark.parametrize(("of", "seats"), [(EXCLUSIVE, "2"), (SHARED, "1")])
def test_a_vm_that_must_be_alone_asks_for_all_of_the_macs_seats(of, seats: str) -> None:
    resources = pod_of(of, "p", SETTINGS)["spec"]["containers"][0]["resources"]
    assert resources["requests"][VM_RESOURCE] == resources["limits"][VM_RESOURCE] == seats


def test_a_pod_that_may_have_a_neighbour_is_given_no_job_of_an_exclusive_pool() -> None:
    answer = must_go(pod("old"), EXCLUSIVE)
    assert answer is not None
    assert (answer.status, answer.outcome) == (410, "shared")
    assert must_go(alone("new"), EXCLUSIVE) is None
    assert must_go(pod("old"), SHARED) is None
    assert must_go(alone("new"), SHARED) is None


def test_pods_of_the_other_shape_are_replaced() -> None:
    assert stale(pod("p"), EXCLUSIVE)
    assert stale(alone("p"), SHARED)
    assert not stale(alone("p"), EXCLUSIVE)
    assert not stale(pod("p"), SHARED)


def test_an_exclusive_pool_has_a_place_only_where_nobody_is() -> None:
    macs = [node("n1"), node("n2"), node("n3")]
    assert places(EXCLUSIVE, macs, [], [], NOW) == 3
    assert places(EXCLUSIVE, macs, [pod("other", node="n1")], [], NOW) == 2
    assert places(SHARED, macs, [alone("mine", node="n1")], [], NOW) == 4
    assert seats_taken(EXCLUSIVE, macs) == 2


def test_a_shared_pool_without_softnet_says_which_macs_and_what_to_do() -> None:
    found = isolated(SHARED, [with_softnet("n1"), node("n2"), with_softnet("n3", "false")])
    assert found is not None
    assert (found.status, found.reason) == ("True", "OneAccountAtATime")
    assert "2 of 3 Macs (n2, n3)" in found.message
    assert "exclusive" in found.message


def test_softnet_or_a_mac_for_itself_is_isolation() -> None:
    softnet = isolated(SHARED, [with_softnet("n1")])
    assert softnet is not None
    assert (softnet.status, softnet.reason) == ("True", "Softnet")
    own = isolated(EXCLUSIVE, [node("n1")])
    assert own is not None
    assert (own.status, own.reason) == ("True", "OneTenantAMac")
    assert isolated(SHARED, []) is None
    assert isolated(pool(os="linux"), [node("n1", os="linux")]) is None
