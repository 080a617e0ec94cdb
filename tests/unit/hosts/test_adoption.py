"""Which Macs a cluster that lost its machines can take up again, and on what proof."""

from typing import Any

from msgspec.structs import replace
from unit.hosts.made import OTHER_ID, SERVER_ID, claim, host, machine, release

from paddock.hosts.adoption import Adopt, LeaveAlone, adoptions
from paddock.hosts.api import BOOTSTRAPPED, MacFleet
from paddock.hosts.verify import provider_id
from paddock.kube.builtin import Node, NodeSpec
from paddock.kube.objects import ObjectMeta

NAME = "blue-m-1"
LOST = host(cloud_name=NAME, state="stranded")


def node(name: str = NAME, server: str = SERVER_ID, fleet: str = "") -> Node:
    labels = {"tuist.dev/fleet": fleet} if fleet else {}
    return Node(
        metadata=ObjectMeta(name=name, labels=labels), spec=NodeSpec(provider_id=provider_id("fr-par-1", server))
    )


def found(hosts: Any, machines: Any = (), nodes: Any = (), fleets: Any = ()) -> Any:
    return adoptions(hosts, machines, nodes, fleets, "blue-")


def test_a_host_whose_name_and_node_agree_is_taken_up_again_as_it_is():
    (adopt,) = found([LOST], nodes=[node()])
    assert isinstance(adopt, Adopt)
    made = adopt.machine
    assert made.metadata.name == NAME
    assert made.spec.provider_id == provider_id("fr-par-1", SERVER_ID)
    assert made.metadata.annotations[BOOTSTRAPPED] == f"{SERVER_ID}/", "so that it is not bootstrapped anew"


def test_a_machine_of_a_fleet_goes_back_to_it_so_that_the_fleet_makes_no_other():
    fleet = MacFleet(metadata=ObjectMeta(name="mini", namespace=LOST.metadata.namespace, uid="u-9"))
    (adopt,) = found([LOST], nodes=[node(fleet="mini")], fleets=[fleet])
    assert isinstance(adopt, Adopt)
    (owner,) = adopt.machine.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("MacFleet", "u-9", True)
    assert adopt.machine.metadata.labels["tuist.dev/fleet"] == "mini"
    assert adopt.machine.spec.fleet_name == "mini"


def test_a_name_alone_proves_nothing():
    for nodes in ([], [node(server=OTHER_ID)], [node("blue-m-9")]):
        (left,) = found([LOST], nodes=nodes)
        assert isinstance(left, LeaveAlone)


def test_what_has_an_owner_another_name_or_is_on_its_way_home_is_left():
    assert found([LOST], [machine("other", server_id=SERVER_ID)], [node()]) == []
    assert found([host(cloud_name="green-m-1", state="foreign")], nodes=[node("green-m-1")]) == []
    going = host(spec={"claim": claim(), "release": release()}, cloud_name=NAME, state="releasing")
    (left,) = found([going], nodes=[node()])
    assert isinstance(left, LeaveAlone)
    namesake = replace(machine(NAME, server_id=OTHER_ID))
    (left,) = found([LOST], [namesake], [node()])
    assert isinstance(left, LeaveAlone)
    assert "has another host" in left.message
