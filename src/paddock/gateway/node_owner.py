"""Which Node is a Mac's, and what of a Node comes from its Machine. Pure.

A Mac's name is its Machine's, and so is its Node's. A Node of that name that carries neither the Machine's uid nor its provider id is
somebody else's, and never written.
"""

from paddock.base.names import FLEET_LABEL
from paddock.gateway.bounds import Ceiling
from paddock.gateway.lease import OWNER_UID
from paddock.gateway.macs import Reported
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node
from paddock.kube.version import KUBERNETES
from paddock.node.node_object import NodeTemplate

__all__ = ["ceiling_of", "owned_by", "owner_annotations", "template_of"]


def owned_by(node: Node, reported: Reported) -> bool:
    owner = node.metadata.annotations.get(OWNER_UID, "")
    if owner:
        return owner == reported.mac.machine_uid
    provider_id = reported.machine.spec.provider_id if reported.machine is not None else ""
    return provider_id != "" and node.spec.provider_id == provider_id


def owner_annotations(reported: Reported) -> dict[str, str]:
    return {OWNER_UID: reported.mac.machine_uid}


def ceiling_of(machine: ScalewayAppleSiliconMachine | None) -> Ceiling:
    """What the Mac cannot exceed. Without its Machine no Node is written, and nothing grants Softnet."""
    if machine is None:
        return Ceiling()
    spec = machine.spec
    memory = spec.host_memory_mb * 1024 * 1024 if spec.host_memory_mb else None
    return Ceiling(cpus=spec.host_cpu or None, memory_bytes=memory, softnet=True)


def template_of(machine: ScalewayAppleSiliconMachine) -> NodeTemplate:
    labels = {FLEET_LABEL: machine.spec.fleet_name} if machine.spec.fleet_name else {}
    return NodeTemplate(
        name=machine.metadata.name,
        provider_id=machine.spec.provider_id,
        labels=labels,
        kubelet_version=f"{KUBERNETES}-paddock",
    )
