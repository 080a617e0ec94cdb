"""The Cluster API objects that we read, as far as we read them, and what they forbid us. Pure.

Their version is taken from the owner reference, so that old and new Cluster API cores are both understood.
"""

from collections.abc import Collection
from dataclasses import dataclass

from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.kube.objects import KubeObject, ObjectMeta, OwnerReference, Struct
from paddock.kube.resource import Resource

__all__ = [
    "BLOCK_MOVE",
    "BLOCK_MOVE_IS_OURS",
    "CLUSTER_NAME_LABEL",
    "DELETE_FOR_MOVE",
    "GROUP",
    "PAUSED",
    "PAUSES",
    "WATCH_FILTER_LABEL",
    "Cluster",
    "Go",
    "Hold",
    "OwnerMachine",
    "cluster_owner",
    "cluster_resource",
    "lost_in_a_move",
    "machine_owner",
    "machine_resource",
    "may_delete",
    "may_reconcile",
    "watched",
    "zone_to_take",
]

GROUP = "cluster.x-k8s.io"
PAUSED = "cluster.x-k8s.io/paused"
PAUSES = frozenset({"Paused", "ClusterPaused"})
"""The holds that a person, or a move, asked for."""
DELETE_FOR_MOVE = "clusterctl.cluster.x-k8s.io/delete-for-move"
BLOCK_MOVE = "clusterctl.cluster.x-k8s.io/block-move"
"""clusterctl, which pauses the Cluster first, waits with a move until no object has this annotation."""
BLOCK_MOVE_IS_OURS = "paddock"
"""Its value where we set it; another one is somebody else's, and stays."""
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
WATCH_FILTER_LABEL = "cluster.x-k8s.io/watch-filter"


class OwnerMachineSpec(Struct, frozen=True):
    cluster_name: str = ""
    failure_domain: str | None = None


class OwnerMachine(Struct, frozen=True):
    """A Cluster API Machine."""

    metadata: ObjectMeta = ObjectMeta()
    spec: OwnerMachineSpec = OwnerMachineSpec()


class ClusterSpec(Struct, frozen=True):
    paused: bool | None = None


class ClusterInitialization(Struct, frozen=True):
    infrastructure_provisioned: bool | None = None


class ClusterStatus(Struct, frozen=True):
    infrastructure_ready: bool | None = None
    initialization: ClusterInitialization | None = None


class Cluster(Struct, frozen=True):
    """A Cluster API Cluster, in either contract's shape."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()

    @property
    def infrastructure_ready(self) -> bool:
        new = self.status.initialization
        return bool(self.status.infrastructure_ready or (new is not None and new.infrastructure_provisioned))


def machine_resource(version: str) -> Resource:
    return Resource(GROUP, version, "Machine", "machines")


def cluster_resource(version: str) -> Resource:
    return Resource(GROUP, version, "Cluster", "clusters")


def machine_owner(obj: KubeObject) -> OwnerReference | None:
    """The Cluster API Machine that owns an object, if one does."""
    for ref in obj.metadata.owner_references:
        if ref.kind == "Machine" and ref.api_version.startswith(f"{GROUP}/"):
            return ref
    return None


def cluster_owner(obj: KubeObject) -> OwnerReference | None:
    """The Cluster that owns an infrastructure cluster, if one does."""
    for ref in obj.metadata.owner_references:
        if ref.kind == "Cluster" and ref.api_version.startswith(f"{GROUP}/"):
            return ref
    return None


def watched(obj: KubeObject, watch_filter: str, namespaces: Collection[str] = ()) -> bool:
    """Whether an object is this operator's to work on. Without a filter, and without namespaces, everything is.

    Only work is filtered, never knowledge: the machines of another operator still own their hosts.
    """
    if namespaces and obj.metadata.namespace not in namespaces:
        return False
    return not watch_filter or obj.metadata.labels.get(WATCH_FILTER_LABEL) == watch_filter


@dataclass(frozen=True, slots=True)
class Go:
    """Nothing forbids it."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Leave everything as it is; `seconds` says when to look again (None: when something changes)."""

    reason: str
    message: str
    seconds: float | None


def zone_to_take(machine: ScalewayAppleSiliconMachine, owner: OwnerMachine | None) -> str:
    """The zone that Cluster API's Machine asks for and this one does not say yet; empty where there is nothing to change.

    Only before it reaches for a host: a machine keeps the host that it has.
    """
    wanted = (owner.spec.failure_domain or "") if owner is not None else ""
    status = machine.status
    free = not (status.server_id or status.claiming or status.ordering or machine.spec.provider_id)
    return wanted if free and wanted != machine.spec.zone else ""


def lost_in_a_move(machine: ScalewayAppleSiliconMachine) -> str:
    """What is under way for a machine that only its status knows, which no move takes along; empty where nothing is.

    The target cluster would claim, or rent, a second host, or take a wiped disk for the one that it knew.
    """
    status = machine.status
    if status.claiming:
        return f"it claims host {status.claiming}"
    if status.ordering and status.ordered_at is not None:
        return f"it has ordered a server under the name {status.ordering}"
    if status.reinstall is not None:
        return f"server {status.server_id} is being reinstalled in place"
    if status.server_id and not machine.spec.provider_id:
        return f"that it has server {status.server_id} is not in its spec yet"
    return ""


def may_delete(machine: ScalewayAppleSiliconMachine, cluster: Cluster | None) -> Go | Hold:
    """Whether a deletion may have effects. It is above the machine's own pause, but never above a move.

    While clusterctl moves a cluster it deletes the source's objects under a paused Cluster: reacting to that would wipe
    the hosts that the target cluster has just taken over.
    """
    if DELETE_FOR_MOVE in machine.metadata.annotations:
        return Hold("BeingMoved", "clusterctl moves this machine to another cluster: its host is not touched", None)
    if cluster is not None and cluster.spec.paused:
        return Hold("ClusterPaused", "the Cluster is paused: nothing is touched until it is resumed", 30)
    return Go()


def may_reconcile(
    machine: ScalewayAppleSiliconMachine, owner: OwnerMachine | None, cluster: Cluster | None
) -> Go | Hold:
    """Whether a living machine may be worked on."""
    if cluster is not None and cluster.spec.paused:
        return Hold("ClusterPaused", "the Cluster is paused: nothing is touched until it is resumed", 30)
    if PAUSED in machine.metadata.annotations:
        return Hold("Paused", f"the annotation {PAUSED} is set: nothing is done until it is removed", None)
    if owner is None:
        if CLUSTER_NAME_LABEL in machine.metadata.labels:
            return Hold("WaitingForOwner", "Cluster API has not yet made its Machine the owner", 30)
        return Go()
    if owner.spec.cluster_name and cluster is None:
        return Hold("WaitingForCluster", f"the Cluster {owner.spec.cluster_name} does not exist yet", 30)
    if cluster is not None and not cluster.infrastructure_ready:
        return Hold("WaitingForCluster", "the Cluster's infrastructure is not provisioned yet", 30)
    return Go()
