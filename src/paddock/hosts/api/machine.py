"""The machine: one Mac that a fleet wants, and the host that it has."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from paddock.hosts.api.shared import AGE, CLUSTER_API_GROUP, CONTRACT_LABELS, MESSAGE, REASON
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource

__all__ = [
    "Address",
    "BootstrapFailure",
    "Initialization",
    "MachineSpec",
    "MachineStatus",
    "Reinstall",
    "Remediation",
    "RemediationAttempt",
    "ScalewayAppleSiliconMachine",
]


KEEPS_ITS_HOST = {
    "rule": "!has(oldSelf.providerID) || oldSelf.providerID == '' || "
    "(self.zone == oldSelf.zone && self.type == oldSelf.type && self.source == oldSelf.source)",
    "message": "zone, type and source of a machine that has a host cannot change: delete the machine and make another, "
    "or change the fleet's template",
}
"""What identifies the host of a bound machine; for the API server, which says so at the patch."""


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
    drain_timeout_seconds: Annotated[
        int,
        Meta(
            description="How long a deleted machine waits for the jobs on its Mac before it ends them; 0 waits for as long as they run.",
            ge=0,
            le=2_592_000,
        ),
    ] = 0


class BootstrapFailure(Struct, frozen=True):
    """A bootstrap that failed, in one life of one host. Kept when the host is given back, until one succeeds."""

    server_id: str = field(default="", name="serverID")
    life: Annotated[datetime | None, Meta(description="When the machine got that host.")] = None
    step: str = ""
    error: Annotated[str, Meta(description="What went wrong, without what is the host's own.")] = ""
    config: Annotated[str, Meta(description="Hash of the configuration that was to be put on it.")] = ""
    at: Annotated[datetime | None, Meta(description="When it failed last.")] = None


class RemediationAttempt(Struct, frozen=True):
    """One tier that was tried for a host that runs and is in trouble."""

    tier: int = 0
    at: Annotated[datetime | None, Meta(description="When it began.")] = None
    note: Annotated[str, Meta(description="Why it did not do what it should, where that is known.")] = ""


class Remediation(Struct, frozen=True):
    """What was done for a host that runs and is in trouble; absent while it is well."""

    since: Annotated[datetime | None, Meta(description="Since when it is in trouble.")] = None
    tier: Annotated[
        int,
        Meta(
            description="1: its agent was started anew; 2: it was rebooted over SSH; 3: it was rebooted by the cloud; "
            "4: it was reinstalled in place; 5: it is given back; 6, which comes after 1: its user was logged in anew.",
            ge=0,
        ),
    ] = 0
    at: Annotated[datetime | None, Meta(description="When the last tier began; of a reinstall, when it ended.")] = None
    tried: Annotated[
        tuple[RemediationAttempt, ...], Meta(description="Every tier that was tried, the oldest first.")
    ] = ()


class Reinstall(Struct, frozen=True):
    """A reinstall in place that is under way: recorded before its first effect, so that whoever leads next finishes it."""

    since: datetime | None = None
    message: str = ""
    dead: Annotated[
        bool, Meta(description="The Mac was proven dead, so that Pods that are bound to its Node are not waited for.")
    ] = False
    wipe: Annotated[Literal["", "requested", "started"], Meta(description="How far it is.")] = ""
    asked: Annotated[int, Meta(description="How often the cloud was asked.", ge=0)] = 0
    asked_at: datetime | None = None


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
    failures: Annotated[
        tuple[BootstrapFailure, ...], Meta(description="Failed bootstraps since the last success, on whichever hosts.")
    ] = ()
    host_config_hash: Annotated[str, Meta(description="Hash of the fleet configuration last put on the host.")] = ""
    failed_host_config_hash: str = ""
    update_attempts: Annotated[int, Meta(ge=0)] = 0
    last_update_failure_time: datetime | None = None
    remediation: Remediation | None = None
    reinstall: Reinstall | None = None
    reinstalled_at: Annotated[
        datetime | None, Meta(description="When this host was reinstalled in place: once for each claim.")
    ] = None
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
        labels=CONTRACT_LABELS,
        columns=(
            Column("Host", ".status.hostName", description="The Host object that it has"),
            Column("Phase", ".status.phase", description="Where it is in its life"),
            Column("Ready", ".status.ready", "boolean", "Whether it can run work"),
            REASON,
            Column("Type", ".spec.type", description="Scaleway server type", priority=1),
            Column("Zone", ".spec.zone", description="Scaleway zone", priority=1),
            Column("ProviderID", ".spec.providerID", description="Cloud id of the host", priority=1),
            MESSAGE,
            AGE,
        ),
        description="A Mac that a fleet wants, and the host that it has.",
    )

    spec: Annotated[MachineSpec, Meta(extra_json_schema={"x-kubernetes-validations": [KEEPS_ITS_HOST]})] = MachineSpec()
    status: MachineStatus = MachineStatus()
