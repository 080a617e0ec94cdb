"""Puts pending Pods on Nodes: a scheduler small enough to read, for one machine.

It knows nodeSelector, taints, cordons, readiness, requested resources (so a Mac gets as many VMs as its agent offers
`tuist.dev/vm`), and required anti-affinity by labels within a Node; it does not know other affinity, spreading or
preemption, and leaves Pods that name another scheduler alone.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from paddock.base.clock import rfc3339
from paddock.base.logs import get_logger
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.watch_fanout import WatchFanout
from paddock.embedded.store import Change, Key
from paddock.kube.quantity import parse_quantity

__all__ = ["NodePlacement", "Scheduler", "Unschedulable", "place", "requests_of", "shunned"]

Json = dict[str, Any]
Resources = dict[str, Decimal]
log = get_logger("binder")
_SCHEDULER = "default-scheduler"
_BIND = Write(manager="paddock-binder", subresource="binding")
_STATUS = Write(manager="paddock-binder", subresource="status")


@dataclass(frozen=True, slots=True)
class NodePlacement:
    """The Node that a Pod goes to."""

    node: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """Why no Node fits, with counts, in the words that `kubectl describe` readers know."""

    message: str


def requests_of(pod: Json) -> Resources:
    """What a Pod reserves: its containers together, or its largest init container where that is more."""
    spec = pod.get("spec") or {}
    total: Resources = {"pods": Decimal(1)}
    for container in spec.get("containers") or ():
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, Decimal(0)) + parse_quantity(amount)
    for container in spec.get("initContainers") or ():
        for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = max(total.get(name, Decimal(0)), parse_quantity(amount))
    return total


def place(
    pod: Json, nodes: Sequence[Json], used: Mapping[str, Resources], shunned: frozenset[str] = frozenset()
) -> NodePlacement | Unschedulable:
    """The fitting Node with the largest share of its tightest resource left; ties go to the smaller name.

    `shunned` are Nodes with a Pod that this one refuses to share a Node with.
    """
    wanted = requests_of(pod)
    refusals: Counter[str] = Counter()
    best: tuple[Decimal, str] | None = None
    for node in sorted(nodes, key=lambda node: node["metadata"]["name"]):
        name = node["metadata"]["name"]
        reasons = _refusals(pod, node, wanted, used.get(name, {}))
        if not reasons and name in shunned:
            reasons = ["node(s) didn't match pod anti-affinity rules"]
        if reasons:
            refusals.update(reasons)
            continue
        score = _room_after(node, wanted, used.get(name, {}))
        if best is None or score > best[0]:
            best = (score, name)
    if best is not None:
        return NodePlacement(best[1])
    if not nodes:
        return Unschedulable("no nodes available to schedule pods")
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(refusals.items()))
    return Unschedulable(f"0/{len(nodes)} nodes are available: {why}.")


def _refusals(pod: Json, node: Json, wanted: Resources, used: Resources) -> list[str]:
    spec, labels = node.get("spec") or {}, node["metadata"].get("labels") or {}
    if spec.get("unschedulable"):
        return ["node(s) were unschedulable"]
    if not _ready(node):
        return ["node(s) were not ready"]
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return ["node(s) didn't match Pod's node affinity/selector"]
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    for taint in spec.get("taints") or ():
        if taint.get("effect") in ("NoSchedule", "NoExecute") and not any(_tolerates(t, taint) for t in tolerations):
            return [f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value', '')}}}"]
    room = _allocatable(node)
    return [
        "Too many pods" if name == "pods" else f"Insufficient {name}"
        for name, amount in wanted.items()
        if amount > 0 and used.get(name, Decimal(0)) + amount > room.get(name, Decimal(0))
    ]


def _allocatable(node: Json) -> Resources:
    listed = (node.get("status") or {}).get("allocatable") or (node.get("status") or {}).get("capacity") or {}
    return {name: parse_quantity(amount) for name, amount in listed.items()}


def _room_after(node: Json, wanted: Resources, used: Resources) -> Decimal:
    room = _allocatable(node)
    shares = [
        (room[name] - used.get(name, Decimal(0)) - amount) / room[name]
        for name, amount in wanted.items()
        if room.get(name)
    ]
    return min(shares, default=Decimal(1))


def _ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.get("key")
    return toleration.get("key") == taint.get("key") and toleration.get("value", "") == taint.get("value", "")


class Scheduler:
    """Binds pending Pods, one at a time, against what it has bound already."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods: dict[Key, Json] = {}
        self._nodes: dict[Key, Json] = {}
        self._waiting: set[Key] = set()
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._work())
            async with WatchFanout(self._objects.store, self._objects.kinds).follow("pods", "nodes") as changes:
                async for change in changes:
                    self._observe(change)

    def _observe(self, change: Change) -> None:
        key = change.record.key
        held = self._pods if key.resource == "pods" else self._nodes
        if change.kind == "DELETED":
            held.pop(key, None)
        else:
            held[key] = decode(change.record)
        if held is self._pods:
            waits = key in held and _pending(held[key])
            (self._waiting.add if waits else self._waiting.discard)(key)
        self._changed.set()

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            if not self._waiting:
                continue  # most changes are of Pods that have their Node, and adding up all the others is work
            used = _usage(self._pods.values())
            nodes = list(self._nodes.values())
            for key in sorted(self._waiting):
                if (pod := self._pods.get(key)) is not None and _pending(pod):
                    await self._bind(key, pod, nodes, used)

    async def _bind(self, key: Key, pod: Json, nodes: Sequence[Json], used: dict[str, Resources]) -> None:
        decision = place(pod, nodes, used, shunned(pod, self._pods.values()))
        try:
            if isinstance(decision, Unschedulable):
                await self._say_unschedulable(key, pod, decision.message)
                return
            await self._assign(key, pod["metadata"]["uid"], decision.node)
        except ApiFailure as failure:
            log.info("pod was not bound", pod=key.name, why=failure.message)  # its next change brings it back
            return
        _add(used.setdefault(decision.node, {}), requests_of(pod))
        pod["spec"]["nodeName"] = decision.node

    async def _assign(self, key: Key, uid: str, node: str) -> None:
        kind = self._objects.kinds.get("", "v1", "pods")
        assert kind is not None
        now = rfc3339(self._objects.clock.now())

        def assigned(pod: Json) -> Json:
            if pod["metadata"]["uid"] == uid and not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = node
            return pod

        def told(pod: Json) -> Json:
            return _with_condition(pod, {"type": "PodScheduled", "status": "True", "lastTransitionTime": now})

        await self._objects.change(kind, key.namespace, key.name, assigned, _BIND)
        await self._objects.change(kind, key.namespace, key.name, told, _STATUS)

    async def _say_unschedulable(self, key: Key, pod: Json, message: str) -> None:
        kind = self._objects.kinds.get("", "v1", "pods")
        assert kind is not None
        said = [c for c in (pod.get("status") or {}).get("conditions") or () if c.get("type") == "PodScheduled"]
        if said and said[0].get("status") == "False" and said[0].get("message") == message:
            return  # nothing new to say, so nothing is written
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": _refused_since(said) or rfc3339(self._objects.clock.now()),
        }
        await self._objects.change(kind, key.namespace, key.name, lambda pod: _with_condition(pod, condition), _STATUS)


def _refused_since(said: Sequence[Json]) -> str | None:
    """Since when no Node fits: another reason for it is no new beginning, as with the scheduler of Kubernetes."""
    return next((c.get("lastTransitionTime") for c in said if c.get("status") == "False"), None)


def _pending(pod: Json) -> bool:
    spec, meta = pod.get("spec") or {}, pod["metadata"]
    phase = (pod.get("status") or {}).get("phase", "Pending")
    return (
        not spec.get("nodeName")
        and not meta.get("deletionTimestamp")
        and phase == "Pending"
        and spec.get("schedulerName", _SCHEDULER) == _SCHEDULER
        and not spec.get("schedulingGates")
    )


def shunned(pod: Json, others: Iterable[Json]) -> frozenset[str]:
    """The Nodes with a Pod that has labels which this Pod wants on no Node of its own."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("podAntiAffinity") or {}
    wanted = [
        term["labelSelector"]["matchLabels"].items()
        for term in affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        if term.get("topologyKey") == "kubernetes.io/hostname" and (term.get("labelSelector") or {}).get("matchLabels")
    ]
    if not wanted:
        return frozenset()
    return frozenset(
        node
        for other in others
        if (node := (other.get("spec") or {}).get("nodeName"))
        and (other.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        and other["metadata"].get("namespace") == pod["metadata"].get("namespace")
        and any(labels <= (other["metadata"].get("labels") or {}).items() for labels in wanted)
    )


def _usage(pods: Iterable[Json]) -> dict[str, Resources]:
    used: dict[str, Resources] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            _add(used.setdefault(node, {}), requests_of(pod))
    return used


def _add(total: Resources, more: Resources) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Decimal(0)) + amount


def _with_condition(pod: Json, condition: Json) -> Json:
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions") or () if c.get("type") != condition["type"]]
    status["conditions"] = [*others, condition]
    return pod
