"""Rebuilding ownership from what is left: the cloud's names, and Nodes that say which server they are. Pure.

An empty or restored cluster has no machine for Macs that run. Two ledgers must agree before one is taken up again: the
cloud shows the name, and a Node of that name carries the server's provider id. A name alone may be another cluster's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from paddock.base.names import FLEET_LABEL
from paddock.hosts.api import (
    BOOTSTRAPPED,
    MacFleet,
    MachineSpec,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.verify import provider_id
from paddock.kube.builtin import Node
from paddock.kube.objects import ObjectMeta, OwnerReference

__all__ = ["Adopt", "LeaveAlone", "adoptions"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class Adopt:
    """Make this machine: it names the server, so that the operator takes the host up again, without bootstrap or wipe."""

    host: str
    machine: Machine
    message: str


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    host: str
    message: str


def adoptions(
    hosts: Iterable[Host],
    machines: Sequence[Machine],
    nodes: Iterable[Node],
    fleets: Iterable[MacFleet],
    prefix: str,
) -> list[Adopt | LeaveAlone]:
    """What can be rebuilt for every host whose cloud name starts with `prefix` and that no machine owns. All reads complete."""
    by_name = {node.metadata.name: node for node in nodes}
    owned = {machine.status.server_id for machine in machines} | {
        machine.spec.provider_id.rpartition("/")[2] for machine in machines
    }
    taken = {(machine.metadata.namespace, machine.metadata.name) for machine in machines}
    of_fleet = {(fleet.metadata.namespace, fleet.metadata.name): fleet for fleet in fleets}
    found: list[Adopt | LeaveAlone] = []
    for host in sorted(hosts, key=lambda each: (each.status.cloud_name, each.metadata.name)):
        name, server = host.status.cloud_name, host.spec.server_id
        if not name.startswith(prefix) or server in owned or host.status.state == "gone":
            continue
        node = by_name.get(name)
        if host.spec.release is not None:
            found.append(LeaveAlone(host.metadata.name, f"{name}: it is being given back"))
        elif (host.metadata.namespace, name) in taken:
            found.append(LeaveAlone(host.metadata.name, f"{name}: a machine of that name has another host"))
        elif node is None:
            found.append(
                LeaveAlone(host.metadata.name, f"{name}: no Node of that name, so nothing proves that it is ours")
            )
        elif node.spec.provider_id != provider_id(host.spec.zone, server):
            told = node.spec.provider_id or "no server"
            found.append(LeaveAlone(host.metadata.name, f"{name}: its Node names {told}, not this server"))
        else:
            fleet = of_fleet.get((host.metadata.namespace, node.metadata.labels.get(FLEET_LABEL, "")))
            made = _machine(host, node, fleet)
            whose = f" of fleet {fleet.metadata.name}" if fleet is not None else ""
            found.append(
                Adopt(host.metadata.name, made, f"{name}: machine {name}{whose} is made, and takes server {server} up")
            )
    return found


def _machine(host: Host, node: Node, fleet: MacFleet | None) -> Machine:
    fleet_name = node.metadata.labels.get(FLEET_LABEL, "")
    base = fleet.spec.template.spec if fleet is not None else MachineSpec()
    owners = (
        (
            OwnerReference(
                api_version=MacFleet.RESOURCE.api_version,
                kind="MacFleet",
                name=fleet.metadata.name,
                uid=fleet.metadata.uid,
                controller=True,
                block_owner_deletion=True,
            ),
        )
        if fleet is not None
        else ()
    )
    spec = replace(
        base,
        provider_id=provider_id(host.spec.zone, host.spec.server_id),
        zone=host.spec.zone,
        type=host.status.type or base.type,
        fleet_name=base.fleet_name or fleet_name,
    )
    return Machine(
        metadata=ObjectMeta(
            name=host.status.cloud_name,
            namespace=host.metadata.namespace,
            labels={FLEET_LABEL: fleet_name} if fleet_name else {},
            # Its agent registered the Node, so it was bootstrapped; with which configuration is not known: an update follows.
            annotations={BOOTSTRAPPED: f"{host.spec.server_id}/"},
            owner_references=owners,
        ),
        spec=spec,
    )
