"""The kind of the runner half, and the labels that Pods carry."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource, Scale

__all__ = ["KINDS", "RunnerPool", "RunnerPoolSpec", "RunnerPoolStatus"]


class RunnerPoolSpec(Struct, frozen=True):
    """Which runners a pool keeps warm, and how many."""

    replicas: Annotated[int, Meta(description="How many Pods to keep; the autoscaler writes this.", ge=0)] = 0
    platform: Annotated[Literal["macos", "linux"], Meta(description="Which Pod shape and Nodes the runners need.")] = (
        "macos"
    )
    labels: Annotated[tuple[str, ...], Meta(description="The runs-on labels that these runners answer to.")] = ()
    image: Annotated[str, Meta(description="The runner image: a VM image on macOS, a container image on Linux.")] = ""
    vcpu: Annotated[int, Meta(ge=0)] = field(default=0, name="vcpu")
    memory_mb: Annotated[int, Meta(ge=0)] = field(default=0, name="memoryMB")
    fleet: Annotated[str, Meta(description="Pods run on Nodes of this fleet; empty means any that fits.")] = ""


class RunnerPoolStatus(Struct, frozen=True):
    replicas: int = 0
    idle: int = 0
    busy: int = 0
    selector: str = ""
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class RunnerPool(KubeObject, frozen=True):
    """A set of warm runner Pods of one shape."""

    RESOURCE: ClassVar[Resource] = Resource(
        "tuist.dev",
        "v1alpha1",
        "RunnerPool",
        "runnerpools",
        short_names=("rpool",),
        categories=("paddock",),
        scale=Scale(label_selector=".status.selector"),
        columns=(
            Column("Desired", ".spec.replicas", "integer"),
            Column("Idle", ".status.idle", "integer"),
            Column("Busy", ".status.busy", "integer"),
            Column("Platform", ".spec.platform"),
            Column("Why", '.status.conditions[?(@.type=="Ready")].reason'),
            Column("Image", ".spec.image", priority=1),
            Column("Message", '.status.conditions[?(@.type=="Ready")].message', priority=1),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        description="A set of warm runner Pods of one shape.",
    )

    spec: RunnerPoolSpec = RunnerPoolSpec()
    status: RunnerPoolStatus = RunnerPoolStatus()


KINDS: tuple[type[KubeObject], ...] = (RunnerPool,)
"""Every kind of this half."""
