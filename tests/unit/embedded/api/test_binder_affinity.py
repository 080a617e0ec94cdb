"""The binder keeps Pods apart that refuse to share a Node."""

from typing import Any

import pytest

from paddock.embedded.api.scheduler import NodePlacement, Unschedulable, place, shunned

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
