"""The kinds of the host half. The CustomResourceDefinitions are generated from these structs (`make crds`).

**No field without a default may ever be added to a served version**: templates written before it could no longer be
cloned, and a fleet would stay short with every alert green. `tests/unit/hosts` holds the list of required fields fixed.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource, Scale

__all__ = [
    "CLUSTER_API_GROUP",
    "FINALIZER",
    "KINDS",
    "PADDOCK_GROUP",
    "Address",
    "ClusterEndpoint",
    "ControlPlaneStatus",
    "HostClaim",
    "HostHistory",
    "HostRelease",
    "HostSpec",
    "HostStatus",
    "Initialization",
    "MacFleet",
    "MacFleetSpec",
    "MacFleetStatus",
    "MachineSpec",
    "MachineStatus",
    "OperatingSystem",
    "ScalewayAppleSiliconCluster",
    "ScalewayAppleSiliconControlPlane",
    "ScalewayAppleSiliconHost",
    "ScalewayAppleSiliconMachine",
    "ScalewayAppleSiliconMachineTemplate",
]

CLUSTER_API_GROUP = "infrastructure.cluster.x-k8s.io"
PADDOCK_GROUP = "tuist.dev"
FINALIZER = "scalewayapplesilicon.cluster.x-k8s.io/finalizer"

# Cluster API core looks these up to know which of our versions speaks which contract; clusterctl to know what to move.
_CONTRACT_LABELS = {
    "cluster.x-k8s.io/v1beta1": "v1alpha1",
    "cluster.x-k8s.io/v1beta2": "v1alpha1",
    "clusterctl.cluster.x-k8s.io": "",
}
_AGE = Column("Age", ".metadata.creationTimestamp", "date", "How long the object exists")
_REASON = Column("Why", '.status.conditions[?(@.type=="Ready")].reason', description="Why it is, or is not, ready")
_MESSAGE = Column(
    "Message", '.status.conditions[?(@.type=="Ready")].message', description="The reason in one sentence", priority=1
)


class Address(Struct, frozen=True):
    """One address of a machine, as Cluster API reads it."""

    type: Literal["Hostname", "ExternalIP", "InternalIP", "ExternalDNS", "InternalDNS"]
    address: str


class Initialization(Struct, frozen=True):
    """What Cluster API's v1beta2 contract asks of an infrastructure object."""

    provisioned: bool = False


class MachineSpec(Struct, frozen=True):
    """What kind of Mac a machine wants, and from which pool."""

    provider_id: Annotated[str, Meta(description="Set by Paddock: scw-applesilicon://<zone>/<server id>.")] = field(
        default="", name="providerID"
    )
    type: Annotated[str, Meta(description="Scaleway server type, such as M2-L or M4-S.", min_length=1)] = "M2-L"
    zone: Annotated[str, Meta(description="Scaleway zone, such as fr-par-1.", min_length=1)] = "fr-par-1"
    os: Annotated[
        str, Meta(description="macOS family, such as Tahoe; never a version, because images are retired.", min_length=1)
    ] = "Tahoe"
    fleet_name: Annotated[str, Meta(description="Machines of one fleet share an SSH key and a node label.")] = ""
    adopt_pool_prefix: Annotated[
        str, Meta(description="Cloud names of free hosts start with this; empty means the operator's default.")
    ] = ""
    source: Annotated[
        Literal["Pool", "Order"],
        Meta(description="Pool claims a free host; Order rents a new one, and deletes it at the end."),
    ] = "Pool"
    host_cpu: Annotated[int, Meta(description="CPUs that the Node offers; 0 means the operator's default.", ge=0)] = (
        field(default=0, name="hostCPU")
    )
    host_memory_mb: Annotated[
        int, Meta(description="Memory in MB that the Node offers; 0 means the operator's default.", ge=0)
    ] = field(default=0, name="hostMemoryMB")


class MachineStatus(Struct, frozen=True):
    """What is known of a machine and its host."""

    ready: bool = False
    initialization: Initialization = Initialization()
    phase: str = ""
    claiming: Annotated[
        str, Meta(description="The Host that this machine is about to claim; written before the claim.")
    ] = ""
    ordering: Annotated[
        str, Meta(description="The cloud name under which a new server was ordered; written before.")
    ] = ""
    ordered_at: datetime | None = None
    server_id: Annotated[str, Meta(description="The cloud's id of the host; empty while there is none.")] = field(
        default="", name="serverID"
    )
    host_name: Annotated[str, Meta(description="The Host object of that server.")] = ""
    bound_at: Annotated[datetime | None, Meta(description="When the host got this machine's name.")] = None
    claim_verified: Annotated[bool, Meta(description="The name was read once more after late renames were past.")] = (
        False
    )
    password_missing_since: datetime | None = None
    addresses: tuple[Address, ...] = ()
    failure_domain: str = ""
    failure_reason: str = ""
    failure_message: str = ""
    bootstrap_attempts: Annotated[int, Meta(description="Failed bootstraps in a row on this host.", ge=0)] = 0
    bootstrap_reboot_issued: Annotated[
        bool, Meta(description="The one recovery reboot of this host was asked for.")
    ] = False
    bootstrap_failed_at: Annotated[
        datetime | None, Meta(description="When a bootstrap of this host last failed; the next one keeps its distance.")
    ] = None
    bootstrap_step: Annotated[str, Meta(description="The step of the bootstrap that runs now, or ran last.")] = ""
    host_config_hash: Annotated[str, Meta(description="Hash of the fleet configuration last put on the host.")] = ""
    failed_host_config_hash: str = ""
    update_attempts: Annotated[int, Meta(ge=0)] = 0
    last_update_failure_time: datetime | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ScalewayAppleSiliconMachine(KubeObject, frozen=True):
    """One Mac that a fleet wants, and the host that it has."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconMachine",
        "scalewayapplesiliconmachines",
        short_names=("samm",),
        categories=("cluster-api", "paddock"),
        labels=_CONTRACT_LABELS,
        columns=(
            Column("Host", ".status.hostName", description="The Host object that it has"),
            Column("Phase", ".status.phase", description="Where it is in its life"),
            Column("Ready", ".status.ready", "boolean", "Whether it can run work"),
            _REASON,
            Column("Type", ".spec.type", description="Scaleway server type", priority=1),
            Column("Zone", ".spec.zone", description="Scaleway zone", priority=1),
            Column("ProviderID", ".spec.providerID", description="Cloud id of the host", priority=1),
            _MESSAGE,
            _AGE,
        ),
        description="A Mac that a fleet wants, and the host that it has.",
    )

    spec: MachineSpec = MachineSpec()
    status: MachineStatus = MachineStatus()


class TemplateMeta(Struct, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class MachineTemplateResource(Struct, frozen=True):
    spec: MachineSpec
    metadata: TemplateMeta = TemplateMeta()


class MachineTemplateSpec(Struct, frozen=True):
    template: MachineTemplateResource


class ScalewayAppleSiliconMachineTemplate(KubeObject, frozen=True, kw_only=True):
    """What Cluster API clones to make machines. Changing one does nothing to the machines that exist."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconMachineTemplate",
        "scalewayapplesiliconmachinetemplates",
        short_names=("sammt",),
        categories=("cluster-api", "paddock"),
        labels=_CONTRACT_LABELS,
        status=False,
        columns=(
            Column("Type", ".spec.template.spec.type"),
            Column("Zone", ".spec.template.spec.zone"),
            Column("OS", ".spec.template.spec.os"),
            _AGE,
        ),
        description="What Cluster API clones to make machines.",
    )

    spec: MachineTemplateSpec


class ClusterEndpoint(Struct, frozen=True):
    host: str
    port: int


class ClusterSpec(Struct, frozen=True):
    control_plane_endpoint: ClusterEndpoint | None = None


class ClusterStatus(Struct, frozen=True):
    ready: bool = False
    initialization: Initialization = Initialization()
    conditions: tuple[Condition, ...] = ()


class ScalewayAppleSiliconCluster(KubeObject, frozen=True):
    """The infrastructure half of a Cluster API Cluster; there is nothing to build, so it is ready when it exists."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconCluster",
        "scalewayapplesiliconclusters",
        short_names=("sasc",),
        categories=("cluster-api", "paddock"),
        labels=_CONTRACT_LABELS,
        columns=(
            Column("Endpoint", ".spec.controlPlaneEndpoint.host"),
            Column("Ready", ".status.ready", "boolean"),
            _AGE,
        ),
        description="The infrastructure half of a Cluster API Cluster.",
    )

    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()


class ControlPlaneInitialization(Struct, frozen=True):
    control_plane_initialized: bool = False


class ControlPlaneStatus(Struct, frozen=True):
    initialization: ControlPlaneInitialization = ControlPlaneInitialization()
    external_managed_control_plane: bool = False
    conditions: tuple[Condition, ...] = ()


class ScalewayAppleSiliconControlPlane(KubeObject, frozen=True):
    """A stand-in that tells Cluster API core that the control plane is managed elsewhere, so that it drains Nodes."""

    RESOURCE: ClassVar[Resource] = Resource(
        "controlplane.cluster.x-k8s.io",
        "v1alpha1",
        "ScalewayAppleSiliconControlPlane",
        "scalewayapplesiliconcontrolplanes",
        short_names=("sascp",),
        categories=("cluster-api", "paddock"),
        labels=_CONTRACT_LABELS,
        columns=(Column("Initialized", ".status.initialization.controlPlaneInitialized", "boolean"), _AGE),
        description="Tells Cluster API core that the control plane is managed elsewhere.",
    )

    status: ControlPlaneStatus = ControlPlaneStatus()


class HostClaim(Struct, frozen=True, kw_only=True):
    """Who owns the host. Written under the Host's resourceVersion: this is the compare-and-swap that the cloud lacks."""

    machine_namespace: str
    machine_name: str
    machine_uid: str = field(name="machineUID")
    epoch: Annotated[int, Meta(description="Grows with every claim of this host; later writes name it.")] = 0
    since: datetime | None = None


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


class HostSpec(Struct, frozen=True):
    """Which server this is, and what we intend with it."""

    zone: str = ""
    server_id: str = field(default="", name="serverID")
    claim: HostClaim | None = None
    release: HostRelease | None = None
    epoch: Annotated[int, Meta(description="How often this host was claimed; never goes back.")] = 0
    not_before: Annotated[
        datetime | None,
        Meta(description="Not claimable before this moment: late calls of a deposed leader may arrive."),
    ] = None
    quarantine: Annotated[str, Meta(description="Why this host must not be claimed; empty means it may be.")] = ""


class OperatingSystem(Struct, frozen=True):
    family: str = ""
    name: str = ""
    version: str = ""


class HostHistory(Struct, frozen=True):
    """What happened to this host across all its claims; how often it was claimed is `spec.epoch`."""

    bootstraps: int = 0
    bootstrap_failures: int = 0
    reboots: int = 0
    releases: int = 0


class HostStatus(Struct, frozen=True):
    """What the cloud shows, and what that means. Written only when something changed."""

    state: Annotated[str, Meta(description="pooled, claiming, owned, releasing, foreign, stranded or gone.")] = ""
    cloud_name: str = ""
    cloud_status: str = ""
    type: str = ""
    os: OperatingSystem = OperatingSystem()
    delivered: bool = False
    ip: str = ""
    deletable_at: Annotated[datetime | None, Meta(description="The end of Apple's billing floor.")] = None
    deletion_scheduled: bool = False
    price_per_hour: str = ""
    currency: str = ""
    host_key: Annotated[str, Meta(description="Fingerprint of the SSH host key, pinned since the last install.")] = ""
    history: HostHistory = HostHistory()
    conditions: tuple[Condition, ...] = ()


class ScalewayAppleSiliconHost(KubeObject, frozen=True):
    """One rented Mac as Paddock's ledger has it."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconHost",
        "scalewayapplesiliconhosts",
        short_names=("sash",),
        categories=("paddock",),
        labels={**_CONTRACT_LABELS, "clusterctl.cluster.x-k8s.io/move": ""},
        columns=(
            Column("State", ".status.state", description="Whose it is, and what happens to it"),
            Column("Machine", ".spec.claim.machineName", description="The machine that owns it"),
            Column("Type", ".status.type", description="Scaleway server type"),
            Column("Cloud", ".status.cloudStatus", description="What the cloud says it does"),
            _REASON,
            Column("Zone", ".spec.zone", description="Scaleway zone", priority=1),
            Column("Cloud-Name", ".status.cloudName", description="Its name in the cloud", priority=1),
            Column("Deletable", ".status.deletableAt", description="The end of the billing floor", priority=1),
            Column("Price", ".status.pricePerHour", description="What an hour costs", priority=1),
            _MESSAGE,
            _AGE,
        ),
        selectable=(".spec.zone", ".status.state"),
        description="One rented Mac as Paddock's ledger has it.",
    )

    spec: HostSpec = HostSpec()
    status: HostStatus = HostStatus()


class MacFleetTemplate(Struct, frozen=True):
    spec: MachineSpec = MachineSpec()
    metadata: TemplateMeta = TemplateMeta()


class MacFleetSpec(Struct, frozen=True):
    """How many machines, and what kind."""

    replicas: Annotated[int, Meta(ge=0)] = 1
    template: MacFleetTemplate = MacFleetTemplate()


class MacFleetStatus(Struct, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    selector: str = ""
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class MacFleet(KubeObject, frozen=True):
    """Replicas of standalone machines, where there is no Cluster API."""

    RESOURCE: ClassVar[Resource] = Resource(
        PADDOCK_GROUP,
        "v1alpha1",
        "MacFleet",
        "macfleets",
        short_names=("macfleet",),
        categories=("paddock",),
        scale=Scale(label_selector=".status.selector"),
        columns=(
            Column("Desired", ".spec.replicas", "integer"),
            Column("Current", ".status.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
            _REASON,
            Column("Type", ".spec.template.spec.type", priority=1),
            Column("Zone", ".spec.template.spec.zone", priority=1),
            _MESSAGE,
            _AGE,
        ),
        description="Replicas of standalone machines, where there is no Cluster API.",
    )

    spec: MacFleetSpec = MacFleetSpec()
    status: MacFleetStatus = MacFleetStatus()


KINDS: tuple[type[KubeObject], ...] = (
    ScalewayAppleSiliconMachine,
    ScalewayAppleSiliconMachineTemplate,
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconHost,
    MacFleet,
)
"""Every kind of this half, in the order in which their definitions are written."""
