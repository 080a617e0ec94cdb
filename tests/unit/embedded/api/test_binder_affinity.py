"""The binder keeps Pods apart that refuse to share a Node, and on Nodes that they ask for."""

from typing import Any

import pytest

from paddock.embedded.api.affinity import asks_for, shunned
from paddock.embedded.api.scheduler import NodePlacement, Unschedulable, place

Json = dict[str, Any]


def _node(name: str) -> Json:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9"}}
    return {"metadata": {"name": name}, "status": status}


def _vm(seat: str, node: str = "", **more: Any) -> Json:
    refuses = {"labelSelector": {"matchLabels": {"seat": seat}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [refuses]}}
    meta = {"name": f"vm-{seat}", "namespace": "default", "labels": {"seat": seat, "app": "runner"}}
    return {"metadata": meta, "spec": {"nodeName": node, "affinity": affinity}, "status": {"phase": "Running"}} | more


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        ([], {"n1"}),
        ([_vm("1", "n1")], {"n2"}),
        ([_vm("2", "n1")], {"n1"}),
        ([_vm("1", "n1", status={"phase": "Succeeded"})], {"n1"}),
        ([_vm("1", "n1", metadata={"name": "x", "namespace": "other", "labels": {"seat": "1"}})], {"n1"}),
    ],
)
def test_a_pod_goes_where_no_pod_is_that_it_refuses(there: list[Json], expected: set[str]) -> None:
    new = _vm("1")
    decision = place(new, [_node("n1"), _node("n2")], {}, shunned(new, there))
    assert isinstance(decision, NodePlacement)
    assert {decision.node} == expected


def test_where_every_node_has_one_the_pod_waits_and_is_told_why() -> None:
    new = _vm("1")
    decision = place(new, [_node("n1")], {}, shunned(new, [_vm("1", "n1")]))
    assert decision == Unschedulable("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.")


def _asking(*terms: Json, selector: dict[str, str] | None = None) -> Json:
    required = {"nodeSelectorTerms": list(terms)}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"metadata": {"name": "p"}, "spec": {"affinity": affinity, "nodeSelector": selector or {}}}


def _labels(key: str, operator: str, *values: str) -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _names(operator: str, *values: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([_names("NotIn", "n1")], {"n2", "n3"}, id="any but this one"),
        pytest.param([_names("In", "n3")], {"n3"}, id="this one alone"),
        pytest.param([_labels("zone", "In", "a", "b")], {"n1", "n2"}, id="one of these zones"),
        pytest.param([_labels("zone", "NotIn", "a")], {"n2", "n3"}, id="a Node without the label is in no zone"),
        pytest.param([_labels("zone", "Exists")], {"n1", "n2"}, id="any zone"),
        pytest.param([_labels("zone", "DoesNotExist")], {"n3"}, id="no zone"),
        pytest.param([_labels("cores", "Gt", "8")], {"n2"}, id="more than"),
        pytest.param([_labels("cores", "Lt", "12")], {"n1"}, id="less than"),
        pytest.param([_labels("zone", "Gt", "8")], set(), id="no number"),
        pytest.param([_labels("cores", "Gt")], set(), id="no limit"),
        pytest.param([_labels("zone", "Somehow", "a")], set(), id="nobody knows what is meant"),
        pytest.param([_labels("zone", "In", "a"), _names("In", "n3")], {"n1", "n3"}, id="one term or the other"),
        pytest.param([_labels("zone", "Exists") | _names("NotIn", "n1")], {"n2"}, id="both of one term"),
        pytest.param([{}], set(), id="a term that asks for nothing"),
        pytest.param([], set(), id="no term"),
    ],
)
def test_a_pod_goes_to_nodes_that_it_asks_for(terms: list[Json], expected: set[str]) -> None:
    nodes = {"n1": {"zone": "a", "cores": "8"}, "n2": {"zone": "b", "cores": "12"}, "n3": {}}
    assert {name for name, labels in nodes.items() if asks_for(_asking(*terms), name, labels)} == expected


def test_node_selector_and_node_affinity_both_hold() -> None:
    pod = _asking(_names("NotIn", "n1"), selector={"zone": "a"})
    assert not asks_for(pod, "n1", {"zone": "a"})
    assert not asks_for(pod, "n2", {"zone": "b"})
    assert asks_for(pod, "n2", {"zone": "a"})


def test_where_no_node_is_asked_for_the_pod_waits_and_is_told_why() -> None:
    decision = place(_asking(_names("NotIn", "n1")), [_node("n1")], {})
    assert decision == Unschedulable("0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.")
