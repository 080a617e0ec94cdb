"""Writes a Mac's Node from its newest report. Every write names the version that it was decided on.

A replica may die between any two writes: the next report is whole, to whichever replica. Another replica may write from another
report meanwhile: **the version is taken first, then the Lease is read, and nothing is written unless it names this very report**, so
that whatever was written from a newer one has changed the version (`report_order`).
"""

from datetime import timedelta
from typing import Any, Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.gateway.lease import MacLeases
from paddock.gateway.macs import Reported
from paddock.gateway.node_conditions import stated_of
from paddock.gateway.node_owner import owned_by, owner_annotations, template_of
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from paddock.kube.reader import CachedReader
from paddock.node.node_object import conditions, label_changes, new_node, node_object

__all__ = ["FIELD_MANAGER", "NodeWriter", "StaleError", "SupersededError", "still_newest"]

log = get_logger("gateway")
FIELD_MANAGER: Final = "paddock-gateway"
_STATUS_EVERY: Final = timedelta(minutes=5)
_TIMEOUT: Final = 10.0


class StaleError(Exception):
    """What this was decided on has changed: decide anew, on fresh reads."""


class SupersededError(Exception):
    """A newer report of this Mac was noted, by whichever replica: nothing is written from this one any more."""


async def still_newest(leases: MacLeases, reported: Reported) -> None:
    """Call it between taking a version and writing under it. Raises SupersededError, or KubeError where nobody can tell."""
    if not await leases.names(reported.node, reported.order):
        raise SupersededError("a newer report of this Mac was noted")


class NodeWriter:
    def __init__(self, client: Client, nodes: CachedReader[Node], leases: MacLeases, clock: Clock) -> None:
        self._client = client
        self._nodes = nodes
        self._leases = leases
        self._clock = clock

    async def write(self, reported: Reported, bound: frozenset[str], *, fresh: bool = False) -> Node | None:
        """The Node shows the report. None where the Node is not this Mac's, or has to be made and may not.

        Raises StaleError where somebody else wrote, KubeError where the API server is away; repeat it then. SupersededError: leave it. `bound` are the uids of
        the Pods that are bound to the Mac.
        """
        node = await self._read(reported, fresh=fresh)
        if node is None:
            return await self._create(reported, bound)
        if not owned_by(node, reported):
            return None
        patch, status = self._changes(node, reported, bound)
        if not patch and status is None:
            return node
        await still_newest(self._leases, reported)
        try:
            if patch:
                patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": node.metadata.resource_version}
                node = await self._client.merge_patch(Node, reported.node, patch, timeout=_TIMEOUT)
            if status is not None:
                await self._apply(node, status)
        except (ConflictError, NotFoundError) as error:
            raise StaleError("the Node was changed meanwhile") from error
        return node

    async def _read(self, reported: Reported, *, fresh: bool) -> Node | None:
        if not fresh and (cached := self._nodes.get(reported.node)) is not None:
            return cached
        try:
            return await self._client.get(Node, reported.node, timeout=_TIMEOUT)
        except NotFoundError:
            return None

    async def _create(self, reported: Reported, bound: frozenset[str]) -> Node | None:
        """Whoever calls has read the claim and the Machine afresh: no Node is made for a Mac that was let go."""
        if reported.mac.rights != "all" or reported.machine is None:
            return None
        await still_newest(self._leases, reported)
        mac = reported.accepted.report.mac
        manifest = new_node(template_of(reported.machine), mac)
        manifest["metadata"]["annotations"] = owner_annotations(reported)
        # With its status at once where the server takes it, because a Node that shows no job may be taken for idle.
        manifest["status"] = self._status(None, reported, bound)
        try:
            await self._client.create(manifest, Node.RESOURCE, timeout=_TIMEOUT)
        except AlreadyExistsError as error:
            raise StaleError("the Node was created meanwhile") from error
        log.info("a Node was made for a Mac", node=reported.node, host=reported.mac.host)
        node = await self._read(reported, fresh=True)
        if node is None:
            raise StaleError("the Node was deleted meanwhile")
        # It may show a newer report by now.
        await still_newest(self._leases, reported)
        await self._apply(node, self._status(node, reported, bound))
        return node

    async def _apply(self, node: Node, status: dict[str, Any]) -> None:
        metadata = {
            "name": node.metadata.name,
            "uid": node.metadata.uid,
            "resourceVersion": node.metadata.resource_version,
        }
        await self._client.apply(
            {"metadata": metadata, "status": status},
            Node.RESOURCE,
            subresource="status",
            field_manager=FIELD_MANAGER,
            force=True,
            timeout=_TIMEOUT,
        )

    def _changes(
        self, node: Node, reported: Reported, bound: frozenset[str]
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        if reported.machine is None or reported.mac.rights != "all":
            return {}, None  # its Machine is gone, or not seen yet: how its Pods ended is all that counts
        patch: dict[str, Any] = {}
        template = template_of(reported.machine)
        if labels := label_changes(node.metadata.labels, template, reported.accepted.report.mac):
            patch["metadata"] = {"labels": labels}
        if template.provider_id and not node.spec.provider_id:
            patch["spec"] = {"providerID": template.provider_id}
        status = self._status(node, reported, bound)
        return patch, status if _differs(node, status) or self._late(node) else None

    def _late(self, node: Node) -> bool:
        ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
        if ready is None or ready.last_heartbeat_time is None or ready.status == "Unknown":
            return True
        return self._clock.now() - ready.last_heartbeat_time >= _STATUS_EVERY

    def _status(self, node: Node | None, reported: Reported, bound: frozenset[str]) -> dict[str, Any]:
        report = reported.accepted.report
        assert reported.machine is not None
        before = node.status.conditions if node is not None else ()
        stated = stated_of(reported.accepted, bound, before)
        return node_object(report, template_of(reported.machine)) | {
            "conditions": conditions(stated, before, self._clock.now())
        }


def _differs(node: Node, status: dict[str, Any]) -> bool:
    """Whether the Node shows something else, but for the moments of its conditions."""
    shown = {each.type: (each.status, each.reason, each.message) for each in node.status.conditions}
    said = {each["type"]: (each["status"], each["reason"], each["message"]) for each in status["conditions"]}
    if any(shown.get(kind) != value for kind, value in said.items()):
        return True
    addresses = [(each.type, each.address) for each in node.status.addresses]
    return (
        node.status.capacity != status["capacity"]
        or node.status.allocatable != status["allocatable"]
        or addresses != [(each["type"], each["address"]) for each in status["addresses"]]
        or any(node.status.node_info.get(key) != value for key, value in status["nodeInfo"].items())
    )
