"""The judge of idle capacity can fail, and excuses only what it must."""

from typing import Any

import pytest
from simulation.runners.pools.capacity_bound import CapacityBound

from paddock.kube.builtin import Node, NodeCondition, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus
from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import FLEET_LABEL, POOL_LABEL, Provisioning, RunnerPool, RunnerPoolSpec, RunnerPoolStatus


def pool(replicas: int = 2, *, conditions: tuple[Condition, ...] = (), **spec: Any) -> RunnerPool:
    given: dict[str, Any] = {
        "image": "i",
        "fleet_selector": "f",
        "dispatch_label": "l",
        "runner_labels": ("x",),
        "replicas": replicas,
        "pod_cpu_milli": 1000,
        "pod_memory_mb": 1024,
    }
    return RunnerPool(
        metadata=ObjectMeta(name="mac", namespace="default"),
        spec=RunnerPoolSpec(**(given | spec)),
        status=RunnerPoolStatus(conditions=conditions),
    )


def node(*, ready: str = "True", cordoned: bool = False) -> Node:
    return Node(
        metadata=ObjectMeta(name="mac-0", labels={FLEET_LABEL: "f"}),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(
            conditions=(NodeCondition(type="Ready", status=ready),),
            allocatable={"cpu": "8", "memory": "16Gi", "tuist.dev/vm": "2"},
        ),
    )


def pod(name: str, *, on: str = "mac-0", phase: str = "Running") -> Pod:
    meta = ObjectMeta(name=name, namespace="default", labels={POOL_LABEL: "mac"})
    return Pod(metadata=meta, spec=PodSpec(node_name=on), status=PodStatus(phase=phase))


def judged(
    pools: list[RunnerPool], nodes: list[Node], pods: list[Pod], *, seconds: int = 20, **how: Any
) -> CapacityBound:
    bound = CapacityBound(15.0, lambda each: each.status.phase == "Running")
    for second in range(seconds):
        bound.look(pools, nodes, pods, bad=how.get("bad", frozenset()), excused=how.get("excused", False), now=second)
    return bound


@pytest.mark.parametrize("pods", [[], [pod("a")], [pod("a"), pod("over", phase="Succeeded")]])
def test_a_free_place_beside_a_pool_that_lacks_pods_breaks_the_bound(pods: list[Pod]) -> None:
    found = judged([pool()], [node()], pods)
    assert found.broken
    assert "of the fleet darwin/f were free, and mac lacks" in found.broken[0]


def test_it_is_broken_only_after_the_whole_time() -> None:
    assert not judged([pool()], [node()], [], seconds=14).broken
    assert judged([pool()], [node()], [], seconds=15).broken


@pytest.mark.parametrize(
    ("pools", "nodes", "pods", "how"),
    [
        ([pool()], [node()], [pod("a"), pod("b")], {}),
        ([pool()], [node()], [pod("a"), pod("b", on="", phase="Pending")], {}),
        ([pool(3)], [node()], [pod("a"), pod("b")], {}),
        ([pool()], [node(ready="Unknown")], [], {}),
        ([pool()], [node(cordoned=True)], [], {}),
        ([pool()], [node()], [], {"bad": frozenset({"mac-0"})}),
        ([pool()], [node()], [], {"excused": True}),
        ([pool(pod_memory_mb=900_000)], [node()], [], {}),
        ([pool(provisioning=Provisioning(max_concurrent_per_node=1))], [node()], [pod("a", phase="Pending")], {}),
        (
            [pool(conditions=(Condition(type="Ready", status="False", reason="InvalidConfiguration"),))],
            [node()],
            [],
            {},
        ),
    ],
    ids=[
        "all are there",
        "one is on its way",
        "no place is free",
        "the Mac is silent",
        "the Mac is cordoned",
        "nothing starts on the Mac",
        "the operator is down",
        "it fits nowhere",
        "as many start as may",
        "no Pod can be made of it",
    ],
)
def test_it_holds_where_nothing_better_could_be_done(
    pools: list[RunnerPool], nodes: list[Node], pods: list[Pod], how: dict[str, Any]
) -> None:
    assert not judged(pools, nodes, pods, **how).broken
