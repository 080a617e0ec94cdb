"""Pools, Pods and Nodes as tests of the pool's plan need them: everything is well until a test says otherwise."""

from datetime import UTC, datetime, timedelta
from typing import Any

from paddock.base.failing_mac import JOBS_FAIL, JobsFail
from paddock.kube.builtin import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStatus,
    Node,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
)
from paddock.kube.objects import Condition, ObjectMeta, OwnerReference
from paddock.runners.api import (
    FLEET_LABEL,
    LINUX_POOL_LABEL,
    OWNER_LABEL,
    POLLER,
    POOL_LABEL,
    RUNNER,
    RUNNER_LABEL,
    VM_RESOURCE,
    RunnerPool,
    RunnerPoolSpec,
    RunnerPoolStatus,
)
from paddock.runners.pools.observation import PoolObservation
from paddock.runners.pools.plan import PoolPlan, plan
from paddock.runners.pools.pod_names import golden_label
from paddock.runners.pools.settings import PoolSettings

NOW = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
SETTINGS = PoolSettings(dispatch_url="http://dispatch.example", poller_image="poller:1")
IMAGE = "macos:15"


def ago(**duration: float) -> datetime:
    return NOW - timedelta(**duration)


def pool(
    name: str = "mac",
    *,
    replicas: int = 2,
    os: str = "darwin",
    deleted: bool = False,
    conditions: tuple[Condition, ...] = (),
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> RunnerPool:
    given: dict[str, Any] = {
        "image": IMAGE,
        "fleet_selector": "fleet",
        "dispatch_label": f"label-{name}",
        "runner_labels": ("self-hosted",),
    }
    return RunnerPool(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            annotations=annotations or {},
            deletion_timestamp=NOW if deleted else None,
        ),
        spec=RunnerPoolSpec(**(given | {"replicas": replicas, "os": os} | spec)),
        status=RunnerPoolStatus(conditions=conditions),
    )


def pod(
    name: str,
    *,
    of: str = "mac",
    node: str | None = None,
    phase: str = "Running",
    poller: str = "",
    owner: str = "",
    image: str = IMAGE,
    made: datetime | None = None,
    scheduled: datetime | None = None,
    unschedulable: datetime | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    deleted: datetime | None = None,
    runner: ContainerState | None = None,
    polled: datetime | None = None,
    counted: bool = True,
    ready: str | None = None,
    unready: datetime | None = None,
) -> Pod:
    """A Pod, on a Node of its own unless told otherwise; `poller` (waiting, running, done) is for Linux.

    A Pod that runs is Ready, unless `ready` says otherwise. One that is not `counted` asks for no VM seat, as those of older versions.
    """
    node = f"node-of-{name}" if node is None else node
    states = {
        "waiting": ContainerState(),
        "running": ContainerState(running=ContainerStateRunning(started_at=ago(minutes=1))),
        "done": ContainerState(terminated=ContainerStateTerminated(exit_code=0, finished_at=polled)),
    }
    conditions: list[PodCondition] = []
    if unschedulable is not None:
        conditions.append(
            PodCondition(
                type="PodScheduled", status="False", reason="Unschedulable", last_transition_time=unschedulable
            )
        )
    elif node:
        conditions.append(
            PodCondition(type="PodScheduled", status="True", last_transition_time=scheduled or ago(minutes=2))
        )
    if phase == "Running" or ready is not None:
        conditions.append(
            PodCondition(type="Ready", status=ready or "True", last_transition_time=unready or ago(minutes=1))
        )
    assigned = {OWNER_LABEL: owner} if owner else {}
    resources = {"requests": {VM_RESOURCE: "1"}} if counted else {}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}",
            creation_timestamp=made or ago(minutes=10),
            deletion_timestamp=deleted,
            labels={RUNNER_LABEL: "true", POOL_LABEL: of, **assigned, **(labels or {})},
            annotations=annotations or {},
            owner_references=(OwnerReference(api_version="v1", kind="RunnerPool", name=of, uid=f"uid-{of}"),),
        ),
        spec=PodSpec(node_name=node, containers=(Container(name=RUNNER, image=image, resources=resources),)),
        status=PodStatus(
            phase=phase,
            conditions=tuple(conditions),
            init_container_statuses=(ContainerStatus(name=POLLER, state=states[poller]),) if poller else (),
            container_statuses=(ContainerStatus(name=RUNNER, state=runner),) if runner else (),
        ),
    )


def starting(name: str, **more: Any) -> Pod:
    return pod(name, phase="Pending", **more)


def waiting(name: str, **more: Any) -> Pod:
    """A warm Linux Pod: Pending, with its poller running."""
    given: dict[str, Any] = {"phase": "Pending", "poller": "running"}
    return pod(name, **(given | more))


def node(
    name: str = "n1",
    *,
    os: str = "darwin",
    ready: str = "True",
    cordoned: bool = False,
    deleted: bool = False,
    golden: bool = True,
    pressure: str = "",
    seats: str | None = "2",
    failing: bool = False,
) -> Node:
    """A Node that is well, unless told otherwise; jobs fail at once on one that is `failing`."""
    label = FLEET_LABEL if os == "darwin" else LINUX_POOL_LABEL
    conditions = [NodeCondition(type="Ready", status=ready)]
    if pressure:
        conditions.append(NodeCondition(type=pressure, status="True"))
    return Node(
        metadata=ObjectMeta(
            name=name,
            labels={label: "fleet", **({golden_label(IMAGE): "true"} if golden else {})},
            deletion_timestamp=NOW if deleted else None,
            annotations={JOBS_FAIL: JobsFail("a boot", NOW, NOW, "they fail").annotation()} if failing else {},
        ),
        spec=NodeSpec(unschedulable=cordoned),
        status=NodeStatus(
            conditions=tuple(conditions),
            allocatable={VM_RESOURCE: seats} if os == "darwin" and seats is not None else {},
            node_info={"bootID": "a boot"},
        ),
    )


def seen(of: RunnerPool, pods: list[Pod], *nodes: Node, **more: Any) -> PoolObservation:
    there = nodes or (node(os=of.spec.os), node("n2", os=of.spec.os))
    given: dict[str, Any] = {"now": NOW, "settings": SETTINGS, "nodes": {each.metadata.name: each for each in there}}
    return PoolObservation(pool=of, pods=pods, **(given | more))


def planned(of: RunnerPool, pods: list[Pod], *nodes: Node, **more: Any) -> PoolPlan:
    return plan(seen(of, pods, *nodes, **more))


def let_go(made: PoolPlan) -> dict[str, str]:
    """Names of Pods to retire, and for what."""
    return {each.pod.metadata.name: each.kind for each in made.retire}


def reason(made: PoolPlan) -> str:
    return made.conditions[0].reason


def message(made: PoolPlan) -> str:
    return made.conditions[0].message
