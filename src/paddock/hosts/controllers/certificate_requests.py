"""Approves a node's request for its own next certificate, while its Machine lives.

In most clusters kube-controller-manager approves these, because the chart gives nodes the role for it; this is for those
where it does not. What is approved twice is approved once; what nobody approved is looked at again in the next cycle.
"""

from collections.abc import Callable, Iterable

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.node_certificate import CSR, KUBELET_CLIENT, approval, machine_of_request
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, NotFoundError

__all__ = ["CertificateRequests"]

_log = get_logger("certificates")


class CertificateRequests:
    """One cycle looks at every open request for a node's client certificate."""

    def __init__(
        self, client: Client, clock: Clock, machines: Callable[[], Iterable[ScalewayAppleSiliconMachine]]
    ) -> None:
        self._client = client
        self._clock = clock
        self._machines = machines

    async def cycle(self) -> None:
        listing = await self._client.list(CSR, field_selector=f"spec.signerName={KUBELET_CLIENT}")
        live = {machine.metadata.name for machine in self._machines() if machine.metadata.deletion_timestamp is None}
        for request in listing.items:
            machine = machine_of_request(request)
            if machine not in live:
                continue  # somebody else's node, or one that is being given back: neither is ours to approve
            name, version = request["metadata"]["name"], request["metadata"]["resourceVersion"]
            said = approval(
                "PaddockMachine", f"the node of machine {machine} renews its certificate", self._clock.now()
            )
            said["metadata"] = {"resourceVersion": version}
            try:
                await self._client.merge_patch(CSR, name, said, subresource="approval")
            except (ConflictError, NotFoundError):
                continue  # somebody was quicker
            _log.info("a node's renewal was approved", node=machine, request=name)
