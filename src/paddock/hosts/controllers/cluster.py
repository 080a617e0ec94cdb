"""The Cluster API cluster kinds: there is nothing to build, so they are ready when they exist."""

from typing import Any, TypeVar

import msgspec

from paddock.hosts.api import ScalewayAppleSiliconCluster, ScalewayAppleSiliconControlPlane
from paddock.kube.client import Client
from paddock.kube.controller import Done, Request, Result
from paddock.kube.objects import KubeObject, Struct
from paddock.kube.reader import FreshReader

__all__ = ["ClusterReconciler", "ControlPlaneReconciler"]

T = TypeVar("T", bound=KubeObject)


class ClusterReconciler:
    """Tells Cluster API that the infrastructure is provisioned."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, request: Request) -> Result:
        found = await FreshReader(self._client).get(ScalewayAppleSiliconCluster, request.name, request.namespace)
        if found is not None and found.metadata.deletion_timestamp is None:
            wanted = {"ready": True, "initialization": {"provisioned": True}}
            await _save(self._client, ScalewayAppleSiliconCluster, request, found.status, wanted)
        return Done()


class ControlPlaneReconciler:
    """Tells Cluster API that the control plane is there and managed elsewhere: only then does core drain Nodes."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, request: Request) -> Result:
        found = await FreshReader(self._client).get(ScalewayAppleSiliconControlPlane, request.name, request.namespace)
        if found is not None and found.metadata.deletion_timestamp is None:
            wanted = {"initialization": {"controlPlaneInitialized": True}, "externalManagedControlPlane": True}
            await _save(self._client, ScalewayAppleSiliconControlPlane, request, found.status, wanted)
        return Done()


async def _save(client: Client, kind: type[T], request: Request, status: Struct, wanted: dict[str, Any]) -> None:
    """Write the status if it says anything else yet."""
    held = msgspec.to_builtins(status)
    if any(held.get(name) != value for name, value in wanted.items()):
        await client.merge_patch(
            kind, request.name, {"status": wanted}, namespace=request.namespace, subresource="status"
        )
