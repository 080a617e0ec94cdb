"""Puts pending Pods on Nodes: a scheduler small enough to read, for one machine.

It knows nodeSelector, required node affinity, taints, cordons, readiness, requested resources (so a Mac gets as many VMs as
its agent offers `tuist.dev/vm`), and required anti-affinity by labels within a Node; it does not know preferences, other
affinity, spreading or preemption, and leaves Pods that name another scheduler alone.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from paddock.base.clock import rfc3339
from paddock.base.logs import get_logger
from paddock.embedded.api.affinity import asks_for, shunned
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.api.watch_fanout import WatchFanout
from paddock.embedded.store import Change, Key
from paddock.kube.quantity import QuantityError, parse_quantity

__all__ = ["NodePlacement", "Scheduler", "Unschedulable", "Usage", "place", "requests_of", "still_bound"]

Json = dict[str, Any]
Resources = dict[str, Decimal]
log = get_logger("binder")
_SCHEDULER = "default-scheduler"
_BIND = Write(manager="paddock-binder", subresource="binding")
_STATUS = Write(manager="paddock-binder", subresource="status")
_SHUNNED = "node(s) didn't match pod anti-affinity rules"
_TRY_AGAIN_AFTER = 1.0
_NONE = Decimal(0)
_NOTHING: Resources = {}


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


@dataclass(frozen=True, slots=True)
class _Offer:
    """A Node as the scheduler sees it: read once for each version of the Node, not once for each Pod."""

    name: str
    refusal: str
    """Why it takes no Pod at all, whatever the Pod; empty where it does."""
    labels: Mapping[str, str]
    taints: Sequence[Json]
    """Those that keep Pods away."""
    room: Resources


def place(
    pod: Json, nodes: Sequence[Json], used: Mapping[str, Resources], shunned: frozenset[str] = frozenset()
) -> NodePlacement | Unschedulable:
    """The fitting Node with the largest share of its tightest resource left; ties go to the smaller name.

    `shunned` are Nodes with a Pod that this one refuses to share a Node with.
    """
    offers = sorted(map(_offer, nodes), key=lambda offer: offer.name)
    return _placed(pod, offers, used, shunned)


def _placed(
    pod: Json, offers: Sequence[_Offer], used: Mapping[str, Resources], shunned: frozenset[str]
) -> NodePlacement | Unschedulable:
    """As `place`, of Nodes in the order of their names."""
    wanted = {name: amount for name, amount in requests_of(pod).items() if amount > 0}
    # What few Nodes have left is asked for first: most Macs are full, and one comparison tells.
    hurdles = sorted(wanted.items(), key=lambda each: "/" not in each[0])
    best: tuple[Decimal, str] | None = None
    for offer in offers:
        taken = used.get(offer.name, _NOTHING)
        if not _fits(hurdles, offer.room, taken) or offer.name in shunned or _unwilling(pod, offer):
            continue
        score = _room_after(offer.room, wanted, taken)
        if best is None or score > best[0]:
            best = (score, offer.name)
    if best is not None:
        return NodePlacement(best[1])
    if not offers:
        return Unschedulable("no nodes available to schedule pods")
    refusals: Counter[str] = Counter()
    for offer in offers:
        refusals.update(_refusals(pod, offer, wanted, used.get(offer.name, _NOTHING)) or [_SHUNNED])
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(refusals.items()))
    return Unschedulable(f"0/{len(offers)} nodes are available: {why}.")


def _offer(node: Json) -> _Offer:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    refusal = ""
    if spec.get("unschedulable"):
        refusal = "node(s) were unschedulable"
    elif not _ready(node):
        refusal = "node(s) were not ready"
    room = status.get("allocatable") or status.get("capacity") or {}
    return _Offer(
        node["metadata"]["name"],
        refusal,
        node["metadata"].get("labels") or {},
        [taint for taint in spec.get("taints") or () if taint.get("effect") in ("NoSchedule", "NoExecute")],
        dict(_readable(room)),
    )


def _readable(room: Mapping[str, Any]) -> Iterator[tuple[str, Decimal]]:
    """What a Node says that cannot be read counts as none of it: one Mac's word stops no other Mac's Pods."""
    for name, amount in room.items():
        with suppress(QuantityError):
            yield name, parse_quantity(amount)


def _fits(hurdles: Sequence[tuple[str, Decimal]], room: Resources, used: Resources) -> bool:
    for name, amount in hurdles:  # noqa: SIM110 - a generator would cost more than what it does
        if used.get(name, _NONE) + amount > room.get(name, _NONE):
            return False
    return True


def _unwilling(pod: Json, offer: _Offer) -> str:
    """Why the Node does not take the Pod, however much room it has; empty where it does."""
    if offer.refusal:
        return offer.refusal
    if not asks_for(pod, offer.name, offer.labels):
        return "node(s) didn't match Pod's node affinity/selector"
    tolerations = (pod.get("spec") or {}).get("tolerations") or ()
    for taint in offer.taints:
        if not any(_tolerates(t, taint) for t in tolerations):
            return f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value', '')}}}"
    return ""


def _refusals(pod: Json, offer: _Offer, wanted: Resources, used: Resources) -> list[str]:
    if unwilling := _unwilling(pod, offer):
        return [unwilling]
    return [
        "Too many pods" if name == "pods" else f"Insufficient {name}"
        for name, amount in wanted.items()
        if used.get(name, _NONE) + amount > offer.room.get(name, _NONE)
    ]


def _room_after(room: Resources, wanted: Resources, used: Resources) -> Decimal:
    shares = [
        (room[name] - used.get(name, _NONE) - amount) / room[name] for name, amount in wanted.items() if room.get(name)
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
    """Binds pending Pods, one at a time, against what it has bound already.

    What Nodes offer and what Pods take of it is kept up with every change, so that a Pod costs one look at each Node.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._pods: dict[Key, Json] = {}
        self._offers: dict[Key, _Offer] = {}
        self._in_order: list[_Offer] | None = None
        self._usage = Usage()
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
        there = None if change.kind == "DELETED" else decode(change.record)
        if key.resource == "pods":
            self._observe_pod(key, there)
        else:
            self._observe_node(key, there)
        self._changed.set()

    def _observe_node(self, key: Key, node: Json | None) -> None:
        self._in_order = None
        self._offers.pop(key, None)
        if node is not None:
            with _its_turn_only(key):
                self._offers[key] = _offer(node)

    def _observe_pod(self, key: Key, pod: Json | None) -> None:
        if pod is None:
            self._pods.pop(key, None)
        else:
            pod = self._pods[key] = still_bound(pod, self._pods.get(key))
        with _its_turn_only(key):
            self._usage.count(key, pod)
        waits = pod is not None and _pending(pod)
        (self._waiting.add if waits else self._waiting.discard)(key)

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            away = False
            for key in sorted(self._waiting):
                with _its_turn_only(key):
                    if (pod := self._pods.get(key)) is not None and _pending(pod):
                        away |= not await self._bind(key, pod)
            if away:  # on a quiet cluster nothing else would bring these Pods back for minutes
                asyncio.get_running_loop().call_later(_TRY_AGAIN_AFTER, self._changed.set)

    def _nodes(self) -> list[_Offer]:
        if self._in_order is None:
            self._in_order = sorted(self._offers.values(), key=lambda offer: offer.name)
        return self._in_order

    async def _bind(self, key: Key, pod: Json) -> bool:
        """Bind it, or say why not; False while the store is away, and neither is done."""
        try:
            decision = _placed(pod, self._nodes(), self._usage.by_node, shunned(pod, self._pods.values()))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with one Pod, the others are placed
            decision = Unschedulable(f"the Pod cannot be read ({type(error).__name__}): delete it and make it anew.")
        try:
            if isinstance(decision, Unschedulable):
                await self._say_unschedulable(key, pod, decision.message)
                return True
            await self._assign(key, pod["metadata"]["uid"], decision.node)
            # Died, or refused, before this: the Pod is bound and says so late, or never. Its kubelet needs no such word.
            await self._say_scheduled(key)
        except ApiFailure as failure:
            log.info("pod was not bound", pod=key.name, why=failure.message)  # its next change brings it back
            return failure.code != 503
        return True

    async def _assign(self, key: Key, uid: str, node: str) -> None:
        """Bind it, and count its place as taken: the next Pod must see that before the watch shows it."""
        kind = self._objects.kinds.get("", "v1", "pods")
        assert kind is not None

        def assigned(pod: Json) -> Json:
            if pod["metadata"]["uid"] == uid and not pod["spec"].get("nodeName"):
                pod["spec"]["nodeName"] = node
            return pod

        await self._objects.change(kind, key.namespace, key.name, assigned, _BIND)
        now = self._pods.get(key)
        if now is not None and now["metadata"]["uid"] == uid:
            now["spec"]["nodeName"] = now["spec"].get("nodeName") or node
            self._usage.count(key, now)

    async def _say_scheduled(self, key: Key) -> None:
        kind = self._objects.kinds.get("", "v1", "pods")
        assert kind is not None
        condition = {
            "type": "PodScheduled",
            "status": "True",
            "lastTransitionTime": rfc3339(self._objects.clock.now()),
        }
        await self._objects.change(kind, key.namespace, key.name, lambda pod: _with_condition(pod, condition), _STATUS)

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


@contextmanager
def _its_turn_only(key: Key) -> Iterator[None]:
    """Whatever is wrong with one object, as an earlier release may have stored it, ends the look at that one."""
    try:
        yield
    except Exception:
        log.exception("an object cannot be read and is left out until it changes", object=str(key))


def still_bound(pod: Json, known: Json | None) -> Json:
    """The Pod as a watch shows it, on the Node that it is known to be bound to.

    A change from before the binding may be shown after it. A binding is never undone, so the place stays taken.
    """
    if known is None or known["metadata"]["uid"] != pod["metadata"]["uid"] or pod["spec"].get("nodeName"):
        return pod
    if node := known["spec"].get("nodeName"):
        pod["spec"]["nodeName"] = node
    return pod


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


class Usage:
    """What the Pods of each Node take of it."""

    def __init__(self) -> None:
        self.by_node: dict[str, Resources] = {}
        self._counted: dict[Key, tuple[str, Resources]] = {}

    def count(self, key: Key, pod: Json | None) -> None:
        """Count the Pod as it is now, in place of what was counted for it before; None where it is gone."""
        before = self._counted.pop(key, None)
        if before is not None:
            taken = self.by_node[before[0]]
            for name, amount in before[1].items():
                taken[name] -= amount
            if not taken["pods"]:
                del self.by_node[before[0]]
        node = ((pod or {}).get("spec") or {}).get("nodeName")
        if pod is None or not node or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        wanted = requests_of(pod)
        self._counted[key] = (node, wanted)
        taken = self.by_node.setdefault(node, {})
        for name, amount in wanted.items():
            taken[name] = taken.get(name, _NONE) + amount


def _with_condition(pod: Json, condition: Json) -> Json:
    status = pod.setdefault("status", {})
    others = [c for c in status.get("conditions") or () if c.get("type") != condition["type"]]
    status["conditions"] = [*others, condition]
    return pod
