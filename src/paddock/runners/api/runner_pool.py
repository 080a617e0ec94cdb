"""The kind of the runner subsystem."""

from datetime import datetime
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from paddock.base.names import PADDOCK_GROUP
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource, Scale

__all__ = [
    "KINDS",
    "Autoscaling",
    "JobSource",
    "Platform",
    "Profile",
    "Provisioning",
    "Rollout",
    "RunnerPool",
    "RunnerPoolSpec",
    "RunnerPoolStatus",
    "ScaleSetSource",
    "WarmWindow",
]

Platform = Literal["linux", "macos"]
"""What a job counts against: the limits of an account are per platform."""


JobSource = Literal["Webhook", "ScaleSet"]
"""How a pool hears of its jobs: GitHub calls us, or we ask GitHub. See docs/design/scale-sets.md."""


class WarmWindow(Struct, frozen=True, kw_only=True):
    """A time in which more is kept warm: from each `start` until `end`, or for `durationMinutes`."""

    name: Annotated[str, Meta(max_length=63, description="How conditions call the window.")] = ""
    start: Annotated[str, Meta(description="When it opens, as cron has it: `30 7 * * mon-fri`.")]
    end: Annotated[str, Meta(description="When it closes, as cron has it; instead of durationMinutes.")] = ""
    duration_minutes: Annotated[
        Annotated[int, Meta(ge=1, le=10080)] | None, Meta(description="How long it is open; instead of end.")
    ] = None
    time_zone: Annotated[str, Meta(description="Whose clock start and end mean, such as Europe/Berlin.")] = "UTC"
    min_warm_pool_floor: Annotated[
        int, Meta(ge=0, description="Idle Pods to keep beyond the load while it is open.")
    ] = 0
    min_replicas: Annotated[
        int, Meta(ge=0, description="At least so many Pods while it is open, busy ones included.")
    ] = 0


class Autoscaling(Struct, frozen=True):
    """Zeros mean zero here, and are kept."""

    enabled: bool = False
    min_warm_pool_floor: Annotated[int, Meta(ge=0, description="Idle Pods to keep beyond the load.")] = 1
    max_replicas: Annotated[int, Meta(ge=0, description="Never more Pods than this; 0 keeps none.")] = 0
    scale_down_cooldown_seconds: Annotated[int, Meta(ge=0)] = 300
    warm_windows: Annotated[
        tuple[WarmWindow, ...],
        Meta(
            max_length=32, description="Times in which more is kept warm, never above maxReplicas; the highest counts."
        ),
    ] = ()


class Provisioning(Struct, frozen=True):
    max_concurrent_per_node: Annotated[
        int, Meta(ge=1, description="How many Pods may be starting on one Node at once, over all pools of the fleet.")
    ] = 6
    start_timeout_seconds: Annotated[
        int, Meta(ge=0, description="A Pod that has not started to wait for a job by then is replaced; 0 never.")
    ] = 300


class Rollout(Struct, frozen=True):
    max_concurrent_percent: Annotated[
        int, Meta(ge=1, le=100, description="How much of the pool may be replaced at once after the image changed.")
    ] = 5


class ScaleSetSource(Struct, frozen=True):
    """Which scale sets a pool with `jobSource: ScaleSet` listens to: one for each account, or for each repository."""

    repositories: Annotated[
        tuple[str, ...],
        Meta(description="owner/name of repositories of personal accounts; an organisation needs none."),
    ] = ()


class Profile(Struct, frozen=True, kw_only=True):
    """A label that chooses image and shape. It has a pool of its own, with what the pool that lists it has otherwise."""

    label: Annotated[
        str,
        Meta(min_length=1, max_length=63, description="The runs-on label, such as macos-26-xcode-26.1-6vcpu."),
    ]
    image: Annotated[str, Meta(description="Its image, best by digest; the pool's unless given.")] = ""
    pod_cpu_milli: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Its CPU; the pool's unless given.")
    ] = field(default=None, name="podCPUMilli")
    pod_memory_mb: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="Its memory; the pool's unless given.")
    ] = field(default=None, name="podMemoryMB")
    replicas: Annotated[int, Meta(ge=0, description="How many Pods to keep where autoscaling is off.")] = 0
    autoscaling: Annotated[
        Autoscaling | None, Meta(description="How many to keep warm; as the pool does unless given.")
    ] = None


class RunnerPoolSpec(Struct, frozen=True, kw_only=True):
    """Which runners a pool keeps warm, and how many."""

    image: Annotated[str, Meta(min_length=1, description="A VM image on macOS, a container image on Linux.")]
    fleet_selector: Annotated[
        str, Meta(min_length=1, description="The Nodes to run on; pools of one system and selector share capacity.")
    ]
    dispatch_label: Annotated[
        str, Meta(min_length=1, description="The runs-on label that brings a job to this pool; no two pools share one.")
    ]
    runner_labels: Annotated[
        tuple[str, ...], Meta(min_length=1, description="What the runners offer GitHub besides the dispatch label.")
    ]
    runner_group: Annotated[
        str,
        Meta(
            max_length=64,
            description="The organisation's runner group for these runners, by name; without it the default one.",
        ),
    ] = ""
    runner_scope: Annotated[
        Literal["auto", "organization", "repository"],
        Meta(
            description="Where runners are registered: auto is the organisation, and the repository where it refuses."
        ),
    ] = "auto"
    replicas: Annotated[int, Meta(description="How many Pods to keep; the autoscaler writes this.", ge=0)] = 0
    os: Annotated[Literal["darwin", "linux"], Meta(description="Which Pod shape and Nodes the runners need.")] = (
        "darwin"
    )
    pod_cpu_milli: Annotated[int, Meta(ge=1)] = field(default=6000, name="podCPUMilli")
    pod_memory_mb: Annotated[int, Meta(ge=1)] = field(default=14336, name="podMemoryMB")
    runtime_class: Annotated[str, Meta(description="Linux Pods with a Docker sidecar need `kata-qemu`.")] = ""
    docker: Annotated[bool, Meta(description="Linux: a Docker daemon beside the runner; needs a runtimeClass.")] = False
    isolation: Annotated[
        Literal["shared", "exclusive"],
        Meta(
            description="macOS: whether VMs of different accounts may be on one Mac at a time (shared, where Softnet is between them), or "
            "a job has the Mac for itself (exclusive, which halves what a Mac runs)."
        ),
    ] = "shared"
    idle_timeout_seconds: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Deprecated, does nothing: a runner is made for a job, and ended by itself where none comes."),
    ] = None
    job_source: Annotated[
        JobSource,
        Meta(
            description="ScaleSet: dispatch asks GitHub, and needs no public address. Webhook: GitHub calls dispatch, for those who want "
            "that or run a GitHub Enterprise Server without scale sets."
        ),
    ] = "ScaleSet"
    scale_set: ScaleSetSource = ScaleSetSource()
    autoscaling: Autoscaling = Autoscaling()
    provisioning: Provisioning = Provisioning()
    rollout: Rollout = Rollout()
    profiles: Annotated[
        tuple[Profile, ...],
        Meta(
            max_length=64,
            description="Labels that choose another image or shape; the operator keeps a pool for each.",
            extra={"list_map_keys": ["label"]},
        ),
    ] = ()


class RunnerPoolStatus(Struct, frozen=True):
    replicas: int = 0
    idle: int = 0
    busy: int = 0
    starting: int = 0
    stale: int = 0
    queued: int = 0
    withheld: int = 0
    selector: str = ""
    dispatch_label: str = ""
    """The dispatch label that it has had since `dispatchLabelSince`; of pools that share one, the first keeps it."""
    dispatch_label_since: datetime | None = None
    last_scale_down_at: datetime | None = None
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class RunnerPool(KubeObject, frozen=True, kw_only=True):
    """A set of warm runner Pods of one shape."""

    RESOURCE: ClassVar[Resource] = Resource(
        PADDOCK_GROUP,
        "v1alpha1",
        "RunnerPool",
        "runnerpools",
        short_names=("rpool",),
        categories=("paddock",),
        scale=Scale(label_selector=".status.selector"),
        columns=(
            Column("Want", ".spec.replicas", "integer"),
            Column("Warm", ".status.idle", "integer"),
            Column("Busy", ".status.busy", "integer"),
            Column("Starting", ".status.starting", "integer"),
            Column("Queued", ".status.queued", "integer"),
            Column("Why", '.status.conditions[?(@.type=="Ready")].reason'),
            Column("Label", ".spec.dispatchLabel", priority=1),
            Column("Withheld", ".status.withheld", "integer", priority=1),
            Column("Image", ".spec.image", priority=1),
            Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        description="A set of warm runner Pods of one shape.",
        longest_name=63,  # it is the value of a label
    )

    spec: RunnerPoolSpec
    status: RunnerPoolStatus = RunnerPoolStatus()

    @property
    def platform(self) -> Platform:
        """The platform that a job of this pool counts against."""
        return "macos" if self.spec.os == "darwin" else "linux"

    @property
    def vm_seats(self) -> int:
        """How many of a Mac's two seats each of its VMs takes: all of them where nobody may be beside it."""
        return 2 if self.spec.isolation == "exclusive" else 1

    @property
    def share_of_mac(self) -> float:
        """How much of a Mac a job of this pool pays for: one of its two places, or both; nothing where it runs on Linux."""
        return self.vm_seats / 2 if self.spec.os == "darwin" else 0.0

    @property
    def vcpus(self) -> int:
        """What a Pod counts as: partial cores count whole, so that admission never counts too little."""
        return -(-self.spec.pod_cpu_milli // 1000)


KINDS: tuple[type[KubeObject], ...] = (RunnerPool,)
"""Every kind of this subsystem."""
