"""The one way in which a Host's conditions are written, whoever says something of it."""

from collections.abc import Collection

from msgspec.structs import replace

from paddock.hosts.api import HostStatus, ScalewayAppleSiliconHost
from paddock.hosts.controllers.context import ReconcileContext
from paddock.kube.conditions import merge_conditions
from paddock.kube.difference import merge_difference
from paddock.kube.errors import ConflictError

__all__ = ["write_host_status"]

Host = ScalewayAppleSiliconHost
_AGAIN = 3


async def write_host_status(
    context: ReconcileContext, host: Host, status: HostStatus, *, conditions: Collection[str]
) -> None:
    """Write what differs between the host's status and `status`; of its conditions those of these types only.

    A list is replaced whole, so it is written in the version that it was merged into, and merged anew where that has changed:
    what others say of the host meanwhile stays, and what they take back does not return. ConflictError where the Host
    changes faster than it can be read. A Host that is gone meanwhile needs nothing said.
    """
    change = merge_difference(host.status, replace(status, conditions=host.status.conditions))
    for left in reversed(range(_AGAIN + 1)):
        merged = merge_conditions(host.status.conditions, status.conditions, conditions)
        said = merge_difference(host.status, replace(host.status, conditions=merged))
        if not change and not said:
            return
        meta = host.metadata
        guard = {"metadata": {"resourceVersion": meta.resource_version}} if said else {}
        patch = {**guard, "status": change | said}
        try:
            await context.client.merge_patch(Host, meta.name, patch, namespace=meta.namespace, subresource="status")
        except ConflictError:
            if not left:
                raise
        else:
            return
        fresh = await context.fresh.get(Host, meta.name, meta.namespace)
        if fresh is None or fresh.metadata.uid != meta.uid:
            return
        host = fresh
