"""The Cluster API cluster kinds: there is nothing to build, so they are ready when core can reach the Nodes."""

from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from paddock.base.clock import Clock
from paddock.hosts import cluster_api
from paddock.hosts.api import FINALIZER, ScalewayAppleSiliconCluster, ScalewayAppleSiliconControlPlane
from paddock.hosts.api.machine import Initialization
from paddock.hosts.cluster_api import Cluster
from paddock.hosts.controllers.core_access import CoreAccess
from paddock.hosts.core_access import (
    LOOK_AGAIN,
    CoreAccessError,
    Declare,
    End,
    Given,
    Issue,
    KeepAccess,
    Provide,
    Renew,
    Rest,
    next_step,
    secret_name,
)
from paddock.kube.client import Client
from paddock.kube.conditions import set_condition
from paddock.kube.controller import Done, Request, RequeueAfter, Result
from paddock.kube.errors import ForbiddenError, NotFoundError
from paddock.kube.events import EventRecorder
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.reader import FreshReader
from paddock.kube.status_writes import write_status

__all__ = ["ClusterReconciler", "ControlPlaneReconciler"]

T = TypeVar("T", bound=KubeObject)
Infra = ScalewayAppleSiliconCluster
_SOON = 1.0
_WHEN_REFUSED = 30.0


class ClusterReconciler:
    """Tells Cluster API that the infrastructure is provisioned, once core has a kubeconfig to find the Nodes with.

    Without `manage` the kubeconfig is somebody else's business; what was made before is still removed in the end.
    """

    def __init__(
        self, client: Client, access: CoreAccess, recorder: EventRecorder, clock: Clock, *, manage: bool
    ) -> None:
        self._client = client
        self._access = access
        self._recorder = recorder
        self._clock = clock
        self._manage = manage

    async def __call__(self, request: Request) -> Result:
        infra = await FreshReader(self._client).get(Infra, request.name, request.namespace)
        if infra is None:
            return Done()
        owner, cluster = await self._owner(infra)
        match next_step(infra, owner, cluster, managed=self._manage):
            case Rest(seconds):
                return Done() if seconds is None else RequeueAfter(seconds)
            case End():
                await self._withdraw(infra)
                return Done()
            case Declare():
                said = _condition(True, "NotManaged", "the operator does not manage the kubeconfig of this cluster")
                await self._save(infra, said, provisioned=True)
                return Done()
            case Provide(name):
                return await self._provide(infra, name)

    async def _provide(self, infra: Infra, cluster: str) -> Result:
        try:
            if await self._access.given(infra.metadata.namespace, cluster):
                # Made by somebody else, perhaps in place of ours: rights that nobody uses are not left lying about.
                if FINALIZER in infra.metadata.finalizers:
                    infra = await self._withdraw(infra)
                return await self._found(infra, cluster)
            if FINALIZER not in infra.metadata.finalizers:
                # Before anything that could leak: from here on a deletion passes through us.
                infra = await self._finalizers(infra, (*infra.metadata.finalizers, FINALIZER))
            outcome = await self._access.ensure(infra, cluster)
        except (CoreAccessError, ForbiddenError) as error:
            message = f"the kubeconfig of core could not be made, it is tried again in {_WHEN_REFUSED:.0f} s: {error}"
            self._recorder.record(infra, "Warning", "KubeconfigRefused", message)
            await self._save(infra, _condition(False, "KubeconfigRefused", message), provisioned=False)
            return RequeueAfter(_WHEN_REFUSED)
        match outcome:
            case Given():
                return await self._found(infra, cluster)
            case Issue() | Renew():
                why = "" if isinstance(outcome, Issue) else f", because {outcome.why}"
                told = f"core has a new token in Secret {secret_name(cluster)}{why}"
                self._recorder.record(infra, "Normal", "KubeconfigIssued", told)
                seconds = _SOON
            case KeepAccess(seconds):
                pass
        said = _condition(
            True, "KubeconfigIssued", f"core finds the Nodes by Secret {secret_name(cluster)}, which is kept up"
        )
        await self._save(infra, said, provisioned=True)
        return RequeueAfter(seconds)

    async def _found(self, infra: Infra, cluster: str) -> Result:
        message = f"core finds the Nodes by Secret {secret_name(cluster)}, which was not made by us and is left alone"
        await self._save(infra, _condition(True, "KubeconfigGiven", message), provisioned=True)
        return RequeueAfter(LOOK_AGAIN.total_seconds())

    async def _withdraw(self, infra: Infra) -> Infra:
        await self._access.withdraw(infra)
        return await self._finalizers(infra, tuple(each for each in infra.metadata.finalizers if each != FINALIZER))

    async def _finalizers(self, infra: Infra, wanted: tuple[str, ...]) -> Infra:
        meta = infra.metadata
        patch = {"metadata": {"finalizers": list(wanted), "resourceVersion": meta.resource_version}}
        return await self._client.merge_patch(Infra, meta.name, patch, namespace=meta.namespace)

    async def _owner(self, infra: Infra) -> tuple[str, Cluster | None]:
        """The Cluster that owns this infrastructure, by name and, where it exists, read fresh."""
        ref = cluster_api.cluster_owner(infra)
        if ref is None:
            return "", None
        where = cluster_api.cluster_resource(ref.api_version.rpartition("/")[2])
        try:
            found = await self._client.get(where, ref.name, infra.metadata.namespace)
        except NotFoundError:
            return ref.name, None
        return ref.name, msgspec.convert(found, Cluster)

    async def _save(self, infra: Infra, said: Condition, *, provisioned: bool) -> None:
        """Write the status if it says anything else yet. What is provisioned stays so: core would not look at it again."""
        now, status = self._clock.now(), infra.status
        conditions = set_condition(status.conditions, said, now)
        if provisioned or not status.initialization.provisioned:
            # Core shows this one on the Cluster: it is the place where a person looks first.
            conditions = set_condition(conditions, replace(said, type="Ready"), now)
        wanted = replace(
            status,
            ready=status.ready or provisioned,
            initialization=Initialization(provisioned=status.initialization.provisioned or provisioned),
            conditions=conditions,
        )
        await write_status(self._client, infra, wanted)


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


def _condition(good: bool, reason: str, message: str) -> Condition:
    return Condition(type="KubeconfigReady", status="True" if good else "False", reason=reason, message=message)


async def _save(client: Client, kind: type[T], request: Request, status: Struct, wanted: dict[str, Any]) -> None:
    """Write the status if it says anything else yet."""
    held = msgspec.to_builtins(status)
    if any(held.get(name) != value for name, value in wanted.items()):
        await client.merge_patch(
            kind, request.name, {"status": wanted}, namespace=request.namespace, subresource="status"
        )
