"""The fleet: replicas of standalone machines, where there is no Cluster API."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from paddock.hosts.api.cluster import TemplateMeta
from paddock.hosts.api.machine import MachineSpec
from paddock.hosts.api.shared import AGE, MESSAGE, PADDOCK_GROUP, REASON
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource, Scale

__all__ = ["MacFleet", "MacFleetSpec", "MacFleetStatus", "MacFleetTemplate"]


class MacFleetTemplate(Struct, frozen=True):
    spec: MachineSpec = MachineSpec()
    metadata: TemplateMeta = TemplateMeta()


class MacFleetSpec(Struct, frozen=True):
    """How many machines, and what kind."""

    replicas: Annotated[int, Meta(ge=0)] = 1
    template: MacFleetTemplate = MacFleetTemplate()
    strategy: Annotated[
        Literal["OnDelete", "RollingUpdate"],
        Meta(
            description="What a changed template does to machines that exist: OnDelete leaves them until they are deleted; "
            "RollingUpdate replaces one after the other, each drained, the next when all are ready again."
        ),
    ] = "OnDelete"


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
        longest_name=57,  # its machines' names are longer by six, and a name in the cloud has at most 63 characters
        scale=Scale(label_selector=".status.selector"),
        columns=(
            Column("Desired", ".spec.replicas", "integer"),
            Column("Current", ".status.replicas", "integer"),
            Column("Ready", ".status.readyReplicas", "integer"),
            REASON,
            Column("Type", ".spec.template.spec.type", priority=1),
            Column("Zone", ".spec.template.spec.zone", priority=1),
            MESSAGE,
            AGE,
        ),
        description="Replicas of standalone machines, where there is no Cluster API.",
    )

    spec: MacFleetSpec = MacFleetSpec()
    status: MacFleetStatus = MacFleetStatus()
