"""The kinds that only Cluster API needs: the template, the infrastructure cluster and the stub control plane."""

from typing import ClassVar

from paddock.hosts.api.machine import Initialization, MachineSpec
from paddock.hosts.api.shared import AGE, CLUSTER_API_GROUP, CONTRACT_LABELS
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource

__all__ = [
    "ClusterEndpoint",
    "ClusterSpec",
    "ClusterStatus",
    "ControlPlaneInitialization",
    "ControlPlaneStatus",
    "MachineTemplateResource",
    "MachineTemplateSpec",
    "ScalewayAppleSiliconCluster",
    "ScalewayAppleSiliconControlPlane",
    "ScalewayAppleSiliconMachineTemplate",
    "TemplateMeta",
]


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
        labels=CONTRACT_LABELS,
        status=False,
        columns=(
            Column("Type", ".spec.template.spec.type"),
            Column("Zone", ".spec.template.spec.zone"),
            Column("OS", ".spec.template.spec.os"),
            AGE,
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
    """The infrastructure part of a Cluster API Cluster; there is nothing to build, so it is ready when it exists."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconCluster",
        "scalewayapplesiliconclusters",
        short_names=("sasc",),
        categories=("cluster-api", "paddock"),
        labels=CONTRACT_LABELS,
        columns=(
            Column("Endpoint", ".spec.controlPlaneEndpoint.host"),
            Column("Ready", ".status.ready", "boolean"),
            AGE,
        ),
        description="The infrastructure part of a Cluster API Cluster.",
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
        labels=CONTRACT_LABELS,
        columns=(Column("Initialized", ".status.initialization.controlPlaneInitialized", "boolean"), AGE),
        description="Tells Cluster API core that the control plane is managed elsewhere.",
    )

    status: ControlPlaneStatus = ControlPlaneStatus()
