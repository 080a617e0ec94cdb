"""The Node and its Lease, written from reports. What is sent is what was reported; nothing that was read is ever sent back."""

from typing import Any

from paddock.base.clock import Clock, rfc3339_micro
from paddock.base.logs import get_logger
from paddock.clients.gateway.messages import Report
from paddock.kube.builtin import Lease, LeaseSpec, Node
from paddock.kube.client import Client
from paddock.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from paddock.kube.objects import ObjectMeta, OwnerReference
from paddock.node.metrics import AgentMetrics
from paddock.node.node_object import NodeTemplate, conditions, label_changes, new_node, node_object
from paddock.node.settings import AgentSettings

__all__ = ["FIELD_MANAGER", "Heartbeat"]

log = get_logger("heartbeat")
FIELD_MANAGER = "paddock-node-agent"
_LEASES = "kube-node-lease"


class Heartbeat:
    """One beat writes the Lease, and the Node where something changed or five minutes passed."""

    def __init__(
        self, client: Client, template: NodeTemplate, settings: AgentSettings, *, clock: Clock, metrics: AgentMetrics
    ) -> None:
        self._client = client
        self._template = template
        self._settings = settings
        self._clock = clock
        self._metrics = metrics
        self._lease: Lease | None = None
        self._sent: dict[str, Any] = {}
        self._sent_at = float("-inf")
        self.node: Node | None = None
        """As it was read last."""
        self.skew = 0.0
        """How far this Mac's clock is ahead of the API server's."""

    async def beat(self, report: Report) -> None:
        """Raises KubeError where the API server is away: the next beat begins anew. After a 401 nothing is created."""
        # Read each time: a Node that was deleted is made again within one beat, and the VMs are none of its business.
        node = await self._registered(report)
        self._client.connection.server_date = None
        await self._renew(node)
        self._compare_clocks()
        await self._write(node, report)

    def _compare_clocks(self) -> None:
        """The server's Date has whole seconds and is as old as its answer: good enough for a clock that is minutes off."""
        said = self._client.connection.server_date
        if said is not None:
            self.skew = (self._clock.now() - said).total_seconds()

    async def taken(self, machine_id: str) -> bool:
        """Whether another Mac reports under our name right now: another machineID, and a Lease that was renewed lately."""
        try:
            node = await self._client.get(Node, self._template.name)
        except NotFoundError:
            return False
        other = node.status.node_info.get("machineID", "")
        if not other or other == machine_id:
            return False
        try:
            lease = await self._client.get(Lease, self._template.name, _LEASES)
        except NotFoundError:
            return False
        # By watching, not by comparing clocks: a Lease that moves while we look is somebody's.
        await self._clock.sleep(self._settings.lease_seconds)
        again = await self._client.get(Lease, self._template.name, _LEASES)
        return again.spec.renew_time != lease.spec.renew_time

    async def _registered(self, report: Report) -> Node:
        name = self._template.name
        try:
            node = await self._client.get(Node, name)
        except NotFoundError:
            try:
                await self._client.create(new_node(self._template, report.mac), Node.RESOURCE)
            except AlreadyExistsError:
                log.info("the Node was created meanwhile", node=name)
            node = await self._client.get(Node, name)
        if self.node is None or self.node.metadata.uid != node.metadata.uid:
            self._lease, self._sent = None, {}
        self.node = node
        return node

    async def _renew(self, node: Node) -> None:
        name, now = self._template.name, self._clock.now()
        owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid)
        lease = self._lease
        if lease is None:
            try:
                lease = await self._client.get(Lease, name, _LEASES)
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
            lease_duration_seconds=self._settings.lease_seconds,
            renew_time=rfc3339_micro(now),
        )
        wanted = Lease(metadata=meta, spec=spec)
        self._lease = None  # until the answer is here, its version is not known
        try:
            self._lease = await (self._client.create(wanted) if lease is None else self._client.update(wanted))
        except (AlreadyExistsError, ConflictError, NotFoundError):
            log.info("the Lease changed under us; it is read again", node=name)
            return
        self._metrics.heartbeat.set(now.timestamp())

    async def _write(self, node: Node, report: Report) -> None:
        now, late = self._clock.now(), self._clock.monotonic() - self._sent_at >= self._settings.status_every
        status = node_object(report, self._template)
        known: dict[str, Any] = {"status": status, "conditions": report.conditions, "goldens": report.mac.goldens}
        overruled = any(c.type == "Ready" and c.status == "Unknown" for c in node.status.conditions)
        changes = label_changes(node.metadata.labels, self._template, report.mac)
        if known == self._sent and not late and not overruled and not changes:
            return
        name = self._template.name
        patch: dict[str, Any] = {}
        if changes:
            patch["metadata"] = {"labels": changes}
        if self._template.provider_id and not node.spec.provider_id:
            patch["spec"] = {"providerID": self._template.provider_id}
        if patch:
            await self._client.merge_patch(Node, name, patch)
        # Status last, and from the report alone: the answer to the patch may carry a Ready=Unknown of the server's.
        full = status | {"conditions": conditions(report.conditions, node.status.conditions, now)}
        await self._client.apply(
            {"metadata": {"name": name}, "status": full},
            Node.RESOURCE,
            subresource="status",
            field_manager=FIELD_MANAGER,
            force=True,
        )
        self._sent, self._sent_at = known, self._clock.monotonic()
