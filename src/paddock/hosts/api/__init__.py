"""The kinds of the host subsystem. The CustomResourceDefinitions are generated from these structs (`make crds`).

**No field without a default may ever be added to a served version**: templates written before it could no longer be
cloned, and a fleet would stay short with every alert green. `tests/unit/hosts` holds the list of required fields fixed.
"""

from paddock.hosts.api.cluster import (
    ClusterEndpoint,
    ClusterSpec,
    ClusterStatus,
    ControlPlaneInitialization,
    ControlPlaneStatus,
    MachineTemplateResource,
    MachineTemplateSpec,
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconMachineTemplate,
    TemplateMeta,
)
from paddock.hosts.api.fleet import MacFleet, MacFleetSpec, MacFleetStatus, MacFleetTemplate
from paddock.hosts.api.host import (
    EndedJob,
    FirstContact,
    HostClaim,
    HostHistory,
    HostRelease,
    HostSpec,
    HostStatus,
    OperatingSystem,
    ScalewayAppleSiliconHost,
)
from paddock.hosts.api.machine import (
    Address,
    BootstrapFailure,
    Initialization,
    MachineSpec,
    MachineStatus,
    Reinstall,
    Remediation,
    RemediationAttempt,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.api.remediation import (
    RemediationSpec,
    RemediationStatus,
    ScalewayAppleSiliconRemediation,
    ScalewayAppleSiliconRemediationTemplate,
)
from paddock.hosts.api.shared import BOOTSTRAPPED, CLUSTER_API_GROUP, FINALIZER, IDENTITY_SINCE, PADDOCK_GROUP
from paddock.kube.objects import KubeObject

__all__ = [
    "BOOTSTRAPPED",
    "CLUSTER_API_GROUP",
    "FINALIZER",
    "IDENTITY_SINCE",
    "KINDS",
    "PADDOCK_GROUP",
    "Address",
    "BootstrapFailure",
    "ClusterEndpoint",
    "ClusterSpec",
    "ClusterStatus",
    "ControlPlaneInitialization",
    "ControlPlaneStatus",
    "EndedJob",
    "FirstContact",
    "HostClaim",
    "HostHistory",
    "HostRelease",
    "HostSpec",
    "HostStatus",
    "Initialization",
    "MacFleet",
    "MacFleetSpec",
    "MacFleetStatus",
    "MacFleetTemplate",
    "MachineSpec",
    "MachineStatus",
    "MachineTemplateResource",
    "MachineTemplateSpec",
    "OperatingSystem",
    "Reinstall",
    "Remediation",
    "RemediationAttempt",
    "RemediationSpec",
    "RemediationStatus",
    "ScalewayAppleSiliconCluster",
    "ScalewayAppleSiliconControlPlane",
    "ScalewayAppleSiliconHost",
    "ScalewayAppleSiliconMachine",
    "ScalewayAppleSiliconMachineTemplate",
    "ScalewayAppleSiliconRemediation",
    "ScalewayAppleSiliconRemediationTemplate",
    "TemplateMeta",
]

KINDS: tuple[type[KubeObject], ...] = (
    ScalewayAppleSiliconMachine,
    ScalewayAppleSiliconMachineTemplate,
    ScalewayAppleSiliconCluster,
    ScalewayAppleSiliconControlPlane,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconRemediation,
    ScalewayAppleSiliconRemediationTemplate,
    MacFleet,
)
"""Every kind of this subsystem, in the order in which their definitions are written."""
