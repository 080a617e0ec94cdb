"""The Node and its Lease, kept alive. What is sent is what the agent knows; nothing that was read is ever sent back."""

from typing import Any

from paddock.base.clock import parse_rfc3339, rfc3339_micro
from paddock.base.logs import get_logger
from paddock.kube.builtin import Lease, LeaseSpec, Node
from paddock.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.node.context import FIELD_MANAGER, Context
from paddock.node.node_object import OTHER_CLUSTER_VMS, Health, conditions, label_changes, new_node, node_status

__all__ = ["Heartbeat", "NodeTakenError"]

log = get_logger("heartbeat")
_LEASES = "kube-node-lease"


class NodeTakenError(Exception):
    """Another Mac reports under our Node's name: this agent stands down and touches nothing."""


class Heartbeat:
    """One beat writes the Lease, and the Node where something changed or five minutes passed."""

    def __init__(self, context: Context, tart_version: str) -> None:
        self._context = context
        self._tart_version = tart_version
        self._uid = ""
        self._lease: Lease | None = None
        self._sent: dict[str, Any] = {}
        self._sent_at = float("-inf")
        self._told_other_cluster = False

    async def beat(self, health: Health) -> None:
        """Raises KubeError where the API server is away: the next beat begins anew. After a 401 nothing is created."""
        # Read each time: a Node that was deleted is made again within one beat, and the VMs are none of its business.
        node = await self._registered()
        self._context.client.connection.server_date = None
        await self._renew(node)
        self._compare_clocks()
        if health.other_cluster and not self._told_other_cluster:
            message = next(
                each["message"]
                for each in conditions(health, (), self._context.clock.now())
                if each["type"] == OTHER_CLUSTER_VMS
            )
            self._context.events.record(node, "Warning", OTHER_CLUSTER_VMS, message)
        self._told_other_cluster = bool(health.other_cluster)
        await self._tell(node, health)

    def _compare_clocks(self) -> None:
        """The server's Date has whole seconds and is as old as its answer: good enough for a clock that is minutes off."""
        said = self._context.client.connection.server_date
        if said is not None:
            self._context.clock_skew = skew = (self._context.clock.now() - said).total_seconds()
            self._context.metrics.clock_skew.set(skew)

    async def taken(self) -> bool:
        """Whether another Mac reports under our name right now: another machineID, and a Lease that was renewed lately."""
        context = self._context
        try:
            node = await context.client.get(Node, context.settings.node_name)
        except NotFoundError:
            return False
        other = node.status.node_info.get("machineID", "")
        if not other or other == context.host.machine_id:
            return False
        try:
            lease = await context.client.get(Lease, context.settings.node_name, _LEASES)
        except NotFoundError:
            return False
        # By watching, not by comparing clocks: a Lease that moves while we look is somebody's.
        await context.clock.sleep(context.settings.lease_seconds)
        again = await context.client.get(Lease, context.settings.node_name, _LEASES)
        return again.spec.renew_time != lease.spec.renew_time

    async def _registered(self) -> Node:
        context, name = self._context, self._context.settings.node_name
        try:
            node = await context.client.get(Node, name)
        except NotFoundError:
            manifest = new_node(context.settings, context.goldens.labels or (), softnet=context.behind_softnet)
            try:
                await context.client.create(manifest, Node.RESOURCE)
            except AlreadyExistsError:
                log.info("the Node was created meanwhile", node=name)
            node = await context.client.get(Node, name)
        if self._uid != node.metadata.uid:
            self._uid, self._lease, self._sent = node.metadata.uid, None, {}
        return node

    async def _renew(self, node: Node) -> None:
        context = self._context
        name, now = context.settings.node_name, context.clock.now()
        owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
        lease = self._lease
        if lease is None:
            try:
                lease = await context.client.get(Lease, name, _LEASES)
            except NotFoundError:
                lease = None
        meta = ObjectMeta(
            name=name,
            namespace=_LEASES,
            owner_references=(owner,),
            resource_version=lease.metadata.resource_version if lease is not None else "",
        )
        spec = LeaseSpec(
            holder_identity=name,
            lease_duration_seconds=context.settings.lease_seconds,
            renew_time=rfc3339_micro(now),
        )
        wanted = Lease(metadata=meta, spec=spec)
        self._lease = None  # until the answer is here, its version is not known
        try:
            self._lease = await (context.client.create(wanted) if lease is None else context.client.update(wanted))
        except (AlreadyExistsError, ConflictError, NotFoundError):
            log.info("the Lease changed under us; it is read again", node=name)
            return
        context.metrics.heartbeat.set(now.timestamp())

    async def _tell(self, node: Node, health: Health) -> None:
        context = self._context
        now, late = context.clock.now(), context.clock.monotonic() - self._sent_at >= context.settings.status_every
        disk = context.goldens.disk
        status = node_status(
            context.settings, context.host, context.offer, self._tart_version, disk.total if disk is not None else 0
        )
        goldens = context.goldens.labels
        known: dict[str, Any] = {"status": status, "health": health, "goldens": goldens}
        overruled = any(c.type == "Ready" and c.status == "Unknown" for c in node.status.conditions)
        changes = label_changes(node.metadata.labels, context.settings, goldens, softnet=context.behind_softnet)
        if known == self._sent and not late and not overruled and not changes:
            return
        name = context.settings.node_name
        patch: dict[str, Any] = {}
        if changes:
            patch["metadata"] = {"labels": changes}
        if context.settings.provider_id and not node.spec.provider_id:
            patch["spec"] = {"providerID": context.settings.provider_id}
        if patch:
            await context.client.merge_patch(Node, name, patch)
        # Status last, and from our own knowledge: the answer to the patch may carry a Ready=Unknown of the server's.
        full = status | {"conditions": conditions(health, node.status.conditions, now)}
        await context.client.apply(
            {"metadata": {"name": name}, "status": full},
            Node.RESOURCE,
            subresource="status",
            field_manager=FIELD_MANAGER,
            force=True,
        )
        self._sent, self._sent_at = known, context.clock.monotonic()

    def lease_age(self) -> float | None:
        """Seconds since the API server last had a beat of ours."""
        if self._lease is None or not self._lease.spec.renew_time:
            return None
        return (self._context.clock.now() - parse_rfc3339(self._lease.spec.renew_time)).total_seconds()
