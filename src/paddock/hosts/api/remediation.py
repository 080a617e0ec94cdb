"""The kinds by which a MachineHealthCheck of Cluster API asks for a Mac to be looked after."""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from paddock.hosts.api.cluster import TemplateMeta
from paddock.hosts.api.shared import AGE, CLUSTER_API_GROUP, CONTRACT_LABELS
from paddock.kube.objects import Condition, KubeObject, Struct
from paddock.kube.resource import Column, Resource

__all__ = [
    "RemediationResource",
    "RemediationSpec",
    "RemediationStatus",
    "RemediationTemplateSpec",
    "ScalewayAppleSiliconRemediation",
    "ScalewayAppleSiliconRemediationTemplate",
    "Strategy",
]

Strategy = Literal["RestartAgent", "Reboot", "Reinstall", "Replace"]


class RemediationSpec(Struct, frozen=True):
    """How far the operator may go for a Mac that a MachineHealthCheck calls unhealthy."""

    strategy: Annotated[
        Strategy,
        Meta(
            description="The last tier that is tried while this object exists: RestartAgent, Reboot, Reinstall (in place), or "
            "Replace, after which Cluster API is asked to replace the Machine."
        ),
    ] = "Replace"


class RemediationStatus(Struct, frozen=True):
    """Where the remediation stands; the condition `Progressing` says it in one sentence."""

    phase: Annotated[
        str, Meta(description="Waiting, Remediating, Replacing, Exhausted (a person has to look), Paused or Refused.")
    ] = ""
    tier: Annotated[int, Meta(description="The last tier that was tried for this trouble; see the Machine.", ge=0)] = 0
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()


class ScalewayAppleSiliconRemediation(KubeObject, frozen=True):
    """Made and deleted by a MachineHealthCheck: while it exists, the Mac of the Machine that owns it is in trouble."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconRemediation",
        "scalewayapplesiliconremediations",
        short_names=("sasr",),
        categories=("cluster-api", "paddock"),
        labels=CONTRACT_LABELS,
        columns=(
            Column("Strategy", ".spec.strategy", description="How far the operator may go"),
            Column("Phase", ".status.phase", description="Where it stands"),
            Column("Why", '.status.conditions[?(@.type=="Progressing")].reason', description="Why it stands there"),
            Column(
                "Message",
                '.status.conditions[?(@.type=="Progressing")].message',
                description="The reason in one sentence",
                priority=1,
            ),
            AGE,
        ),
        description="A MachineHealthCheck's request to look after the Mac of an unhealthy Machine.",
    )

    spec: RemediationSpec = RemediationSpec()
    status: RemediationStatus = RemediationStatus()


class RemediationResource(Struct, frozen=True):
    spec: RemediationSpec = RemediationSpec()
    metadata: TemplateMeta = TemplateMeta()


class RemediationTemplateSpec(Struct, frozen=True):
    template: RemediationResource = RemediationResource()


class ScalewayAppleSiliconRemediationTemplate(KubeObject, frozen=True):
    """What a MachineHealthCheck clones for each unhealthy Machine."""

    RESOURCE: ClassVar[Resource] = Resource(
        CLUSTER_API_GROUP,
        "v1alpha1",
        "ScalewayAppleSiliconRemediationTemplate",
        "scalewayapplesiliconremediationtemplates",
        short_names=("sasrt",),
        categories=("cluster-api", "paddock"),
        labels=CONTRACT_LABELS,
        status=False,
        columns=(Column("Strategy", ".spec.template.spec.strategy"), AGE),
        description="What a MachineHealthCheck clones for each unhealthy Machine.",
    )

    spec: RemediationTemplateSpec = RemediationTemplateSpec()
