"""Nodes that no agent speaks for, and Pods whose Node is gone: what Kubernetes' node-lifecycle and pod-gc controllers do.

A Node's health is proven by its agent alone: by its Lease, or by its own heartbeat. Silence is measured by this process's
monotonic clock since it last saw either move, so that neither a restart nor a wrong wall clock makes a Node look dead early.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from paddock.base.clock import rfc3339
from paddock.base.logs import get_logger
from paddock.embedded.api.deletion import DeleteOptions
from paddock.embedded.api.objects import Objects, Write
from paddock.embedded.api.representation import decode
from paddock.embedded.api.status import ApiFailure
from paddock.embedded.store import Key

__all__ = ["GRACE", "QUARANTINE", "NodeLifecycle", "Silence", "unheard"]

Json = dict[str, Any]
log = get_logger("node lifecycle")
GRACE: Final = 50.0
"""So long after the last sign of life a Node is Unknown; Kubernetes' own default."""
QUARANTINE: Final = 40.0
"""So long a Pod's Node must have been missing: an agent whose Node was deleted makes it again within ten seconds."""
_LOOK_EVERY: Final = 5.0
_LEASES: Final = "leases.coordination.k8s.io"
_LEASE_NAMESPACE: Final = "kube-node-lease"
_JUDGED: Final = frozenset({"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"})
_WRITE: Final = Write(manager="node-lifecycle", subresource="status")
_MESSAGE: Final = "the node agent stopped renewing its Lease"


@dataclass(slots=True)
class Silence:
    """Since when things have been as they are, by one monotonic clock. What is not looked at any more is forgotten."""

    _since: dict[str, tuple[Any, float]] = field(default_factory=dict)

    def lasts(self, seen: dict[str, Any], now: float) -> dict[str, float]:
        """By name: for how many seconds it has been what it is now."""
        for name, value in seen.items():
            if name not in self._since or self._since[name][0] != value:
                self._since[name] = (value, now)
        self._since = {name: known for name, known in self._since.items() if name in seen}
        return {name: now - since for name, (_, since) in self._since.items()}


def unheard(conditions: list[Json], now: str) -> list[Json] | None:
    """The conditions of a Node that is not heard of; None where they say so already. (pure)"""
    changed = [
        {**each, "status": "Unknown", "reason": "NodeStatusUnknown", "message": _MESSAGE, "lastTransitionTime": now}
        if each.get("type") in _JUDGED and each.get("status") != "Unknown"
        else each
        for each in conditions
    ]
    if not any(each.get("type") == "Ready" for each in conditions):
        changed.append(
            {
                "type": "Ready",
                "status": "Unknown",
                "reason": "NodeStatusNeverUpdated",
                "message": "no node agent ever reported",
                "lastTransitionTime": now,
            }
        )
    return changed if changed != conditions else None


class NodeLifecycle:
    """Marks silent Nodes, and removes the Pods of Nodes that are gone. Both are repeated until they are so."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._nodes = Silence()
        self._orphans = Silence()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            try:
                await self.look()
            except ApiFailure as failure:
                log.warning("Nodes could not be judged", why=failure.message)
            await self._objects.clock.sleep(_LOOK_EVERY)

    async def look(self) -> None:
        store, now = self._objects.store, self._objects.clock.monotonic()
        nodes = {record.key.name: decode(record) for record in (await store.list("nodes")).records}
        leases = {
            record.key.name: (decode(record).get("spec") or {}).get("renewTime")
            for record in (await store.list(_LEASES)).records
            if record.key.namespace == _LEASE_NAMESPACE
        }
        signs = {name: (node["metadata"]["uid"], leases.get(name), _heartbeat(node)) for name, node in nodes.items()}
        for name, seconds in self._nodes.lasts(signs, now).items():
            if seconds > GRACE and unheard((nodes[name].get("status") or {}).get("conditions") or [], "") is not None:
                await self._mark(name, nodes[name]["metadata"]["uid"], seconds)
        await self._remove_orphans(set(nodes), now)

    async def _mark(self, name: str, uid: str, seconds: float) -> None:
        kind = self._objects.kinds.get("", "v1", "nodes")
        assert kind is not None
        now = rfc3339(self._objects.clock.now())

        def silent(node: Json) -> Json:
            status = node.setdefault("status", {})
            if node["metadata"]["uid"] == uid:
                status["conditions"] = unheard(status.get("conditions") or [], now) or status.get("conditions") or []
            return node

        try:
            await self._objects.change(kind, "", name, silent, _WRITE)
        except ApiFailure as failure:
            log.info("a silent Node was not marked; the next look does it", node=name, why=failure.message)
            return
        log.warning("a Node is not heard of", node=name, seconds=round(seconds))

    async def _remove_orphans(self, nodes: set[str], now: float) -> None:
        """Pods that are bound to a Node that does not exist: no agent is left that could finish their deletion."""
        store = self._objects.store
        kind = self._objects.kinds.get("", "v1", "pods")
        assert kind is not None
        lost: dict[str, tuple[Key, str]] = {}
        for record in (await store.list("pods")).records:
            pod = decode(record)
            node = (pod.get("spec") or {}).get("nodeName")
            if node and node not in nodes:
                lost[pod["metadata"]["uid"]] = (record.key, node)
        for uid, seconds in self._orphans.lasts(dict.fromkeys(lost, True), now).items():
            key, node = lost[uid]
            if seconds <= QUARANTINE or await store.get(Key("nodes", "", node)) is not None:
                continue
            try:
                await self._objects.delete(kind, key.namespace, key.name, DeleteOptions(grace=0, uid=uid))
            except ApiFailure as failure:
                log.info("a Pod of a lost Node stays for now", pod=key.name, why=failure.message)
                continue
            log.info("a Pod went with its Node", pod=key.name, node=node)


def _heartbeat(node: Json) -> Any:
    conditions = (node.get("status") or {}).get("conditions") or ()
    # Our own mark keeps the time of the agent's last heartbeat, so it is no sign of life.
    return next((each.get("lastHeartbeatTime") for each in conditions if each.get("type") == "Ready"), None)
