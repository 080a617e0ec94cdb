"""The host: one rented Mac as our ledger has it. Its `spec.claim` is the compare-and-swap that the cloud lacks."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from paddock.hosts.api.shared import AGE, CLUSTER_API_GROUP, CONTRACT_LABELS, MESSAGE, REASON
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource

__all__ = [
    "EndedJob",
    "FirstContact",
    "HostClaim",
    "HostHistory",
    "HostRelease",
    "HostSpec",
    "HostStatus",
    "OperatingSystem",
    "ScalewayAppleSiliconHost",
]


class HostClaim(Struct, frozen=True, kw_only=True):
    """Who owns the host. Written under the Host's resourceVersion: this is the compare-and-swap that the cloud lacks."""

    machine_namespace: str
    machine_name: str
    machine_uid: str = field(name="machineUID")
    epoch: Annotated[int, Meta(description="Grows with every claim of this host; later writes name it.")] = 0
    since: datetime | None = None
    key_hash: Annotated[
        str,
        Meta(
            description="SHA-256 of the key with which the Mac speaks to the gateway; it counts while this claim stands."
        ),
    ] = ""
    key_number: Annotated[int, Meta(description="Grows with every key; a Mac takes none with a lower one.")] = 0
    next_key_hash: Annotated[str, Meta(description="Of the key that the Mac was given last, until it has used it.")] = (
        ""
    )
    next_key_number: int = 0
    machine_id: Annotated[
        str,
        Meta(description="The Mac's own id, read over SSH when it was given its key: no other Mac may use that key."),
    ] = field(default="", name="machineID")


class HostRelease(Struct, frozen=True):
    """A release that is under way: recorded before the first effect, so that whoever leads next can finish it."""

    policy: Literal["pool", "terminate"] = "pool"
    reason: str = ""
    message: str = ""
    pool_prefix: str = ""
    os_family: str = ""
    cloud_name: Annotated[str, Meta(description="The name that the host had when the release was decided.")] = ""
    requested_at: datetime | None = None
    wipe: Annotated[
        Literal["", "requested", "started"],
        Meta(description="How far the wipe is. It is part of the release, so that no later release can inherit it."),
    ] = ""
    wipe_requested_at: datetime | None = None


class EndedJob(Struct, frozen=True, kw_only=True):
    """A job that ended because this Mac was taken."""

    key: Annotated[
        str, Meta(description="The uid of its Pod, or what stands for it where that is in another cluster.")
    ] = ""
    at: datetime | None = None
    path: Annotated[
        str, Meta(description="Who gave it up: force (a person), drain_timeout (the machine's own limit).")
    ] = ""
    why: str = ""
    pod: str = ""
    pod_uid: str = field(default="", name="podUID")
    account: str = ""
    machine: str = ""


class HostSpec(Struct, frozen=True):
    """Which server this is, and what we intend with it."""

    zone: str = ""
    server_id: str = field(default="", name="serverID")
    claim: HostClaim | None = None
    release: HostRelease | None = None
    last_machine: Annotated[
        str,
        Meta(
            description="The machine whose claim ended last. A host without a claim is this cluster's only while the cloud "
            "shows that name: another cluster may have taken it from the pool since."
        ),
    ] = ""
    pool_prefix: Annotated[
        str,
        Meta(
            description="The pool that it was last seen in, where a machine names that pool; empty means the operator's default. "
            "It stays in it, also when no machine names the pool any more."
        ),
    ] = ""
    ended_jobs: Annotated[
        tuple[EndedJob, ...],
        Meta(description="Jobs that were ended with this Mac and that dispatch has not written down yet."),
    ] = ()
    epoch: Annotated[int, Meta(description="How often this host was claimed; never goes back.")] = 0
    not_before: Annotated[
        datetime | None,
        Meta(description="Not claimable before this moment: late calls of a deposed leader may arrive."),
    ] = None
    quarantine: Annotated[str, Meta(description="Why this host must not be claimed; empty means it may be.")] = ""
    retire: Annotated[
        str,
        Meta(description="Why this host is given back to the cloud for good once it is free; empty means it stays."),
    ] = ""


class OperatingSystem(Struct, frozen=True):
    family: str = ""
    name: str = ""
    version: str = ""


class HostHistory(Struct, frozen=True):
    """What happened to this host across all its claims; how often it was claimed is `spec.epoch`."""

    bootstraps: int = 0
    bootstrap_failures: int = 0
    reboots: int = 0
    reinstalls: Annotated[
        int, Meta(description="How often it was reinstalled in place, for the machine that had it.")
    ] = 0
    recoveries: Annotated[int, Meta(description="How often it was in trouble at work, and came back.")] = 0
    releases: int = 0
    quarantines: Annotated[int, Meta(description="How often it was put aside for such a row.")] = 0
    failed_lives: Annotated[
        int, Meta(description="In how many lives in a row it was given up; an ordinary release ends the row.")
    ] = 0


class FirstContact(Struct, frozen=True):
    """Until when the first SSH key that the host shows is believed, and what that rests on."""

    opened_at: datetime | None = None
    until: datetime | None = None
    evidence: Annotated[str, Meta(description="What happened to the host before that window.")] = ""
    seen_at: Annotated[datetime | None, Meta(description="When the key was seen first.")] = None


class HostStatus(Struct, frozen=True):
    """What the cloud shows, and what that means. Written only when something changed."""

    state: Annotated[
        str, Meta(description="pooled, claiming, owned, releasing, foreign, stranded (orphaned) or gone.")
    ] = ""
    cloud_name: str = ""
    cloud_status: str = ""
    type: str = ""
    os: OperatingSystem = OperatingSystem()
    delivered: bool = False
    ip: str = ""
    deletable_at: Annotated[datetime | None, Meta(description="The end of Apple's billing floor.")] = None
    committed_until: Annotated[
        datetime | None,
        Meta(description="Under a monthly commitment its next anniversary, at which a deletion takes effect."),
    ] = None
    deletion_scheduled: bool = False
    unwipeable: Annotated[
        str,
        Meta(
            description="Why the cloud cannot wipe it, so that no machine claims it and it goes back to no pool; empty means that it can."
        ),
    ] = ""
    price_per_hour: str = ""
    currency: str = ""
    host_key: Annotated[str, Meta(description="Fingerprint of the SSH host key, pinned since the last install.")] = ""
    first_contact: FirstContact | None = None
    history: HostHistory = HostHistory()
    conditions: tuple[Condition, ...] = ()

    @property
    def paid_until(self) -> datetime | None:
        """Until when it is paid for, whatever is done with it: whichever of billing floor and commitment ends later."""
        return max((end for end in (self.deletable_at, self.committed_until) if end is not None), default=None)


class ScalewayAppleSiliconHost(KubeObject, frozen=True):
    """One rented Mac as Paddock's ledger has it."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconHost",
        "scalewayapplesiliconhosts",
        short_names=("sash",),
        categories=("paddock",),
        labels={**CONTRACT_LABELS, "clusterctl.cluster.x-k8s.io/move": ""},
        columns=(
            Column("State", ".status.state", description="Whose it is, and what happens to it"),
            Column("Machine", ".spec.claim.machineName", description="The machine that owns it"),
            Column("Type", ".status.type", description="Scaleway server type"),
            Column("Cloud", ".status.cloudStatus", description="What the cloud says it does"),
            REASON,
            Column("Zone", ".spec.zone", description="Scaleway zone", priority=1),
            Column("Cloud-Name", ".status.cloudName", description="Its name in the cloud", priority=1),
            Column("Deletable", ".status.deletableAt", description="The end of the billing floor", priority=1),
            Column("Price", ".status.pricePerHour", description="What an hour costs", priority=1),
            MESSAGE,
            AGE,
        ),
        selectable=(".spec.zone", ".status.state"),
        description="One rented Mac as Paddock's ledger has it.",
    )

    spec: HostSpec = HostSpec()
    status: HostStatus = HostStatus()
