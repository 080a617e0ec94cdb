"""A Node of somebody else is never written, whatever it is called; and a Mac says only less than its Machine grants."""

from msgspec.structs import replace
from unit.gateway.macs import MACHINE, reported

from paddock.gateway.bounds import Ceiling
from paddock.gateway.lease import OWNER_UID
from paddock.gateway.node_owner import ceiling_of, owned_by, owner_annotations, template_of
from paddock.kube.builtin import Node, NodeSpec
from paddock.kube.objects import ObjectMeta


def node(owner: str = "", provider_id: str = "") -> Node:
    notes = {OWNER_UID: owner} if owner else {}
    return Node(metadata=ObjectMeta(name="mac-1", annotations=notes), spec=NodeSpec(provider_id=provider_id))


def test_a_node_is_its_machines_by_uid_or_where_it_has_none_by_provider_id():
    assert owned_by(node("uid-1"), reported())
    assert owned_by(node(provider_id="scw://mac-1"), reported())
    assert owned_by(Node(metadata=ObjectMeta(name="mac-1", annotations=owner_annotations(reported()))), reported())


def test_a_node_of_a_namesake_of_a_kubelet_or_of_nobody_is_not():
    assert not owned_by(node("uid-0", "scw://mac-1"), reported()), "a Machine that had the name before"
    assert not owned_by(node(provider_id="aws:///i-1"), reported())
    assert not owned_by(node(), reported())


def test_without_a_provider_id_nothing_but_the_uid_proves_it():
    unnamed = replace(reported(), machine=replace(MACHINE, spec=replace(MACHINE.spec, provider_id="")))
    assert not owned_by(node(), unnamed)
    assert not owned_by(node(), replace(reported(), machine=None))
    assert owned_by(node("uid-1"), replace(reported(), machine=None))


def test_name_fleet_and_provider_id_come_from_the_machine():
    template = template_of(MACHINE)
    assert (template.name, template.provider_id, template.logs_port) == ("mac-1", "scw://mac-1", 0)
    assert template.labels == {"tuist.dev/fleet": "m4"}
    bare = replace(MACHINE, spec=replace(MACHINE.spec, fleet_name=""))
    assert template_of(bare).labels == {}


def test_without_its_machine_nothing_grants_a_mac_softnet():
    assert ceiling_of(None) == Ceiling(softnet=False)
    typed = replace(MACHINE, spec=replace(MACHINE.spec, host_cpu=8, host_memory_mb=16384))
    assert ceiling_of(typed) == Ceiling(cpus=8, memory_bytes=16 << 30, softnet=True)
    assert ceiling_of(MACHINE) == Ceiling(softnet=True)
