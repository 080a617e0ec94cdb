"""Finding a Mac, and what runs on it, by the names that people use. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, Pod
from paddock.runners.api import OWNER_LABEL, RUNNER_LABEL

__all__ = ["Mac", "busy_pods", "find_mac", "hosts_called", "mac_of", "pods_on", "works"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class Mac:
    """A host, its machine and its Node, as far as there are all three; never without both a host and a machine."""

    host: Host | None
    machine: Machine | None
    node: Node | None = None

    @property
    def name(self) -> str:
        if self.machine is not None:
            return self.machine.metadata.name
        assert self.host is not None
        return self.host.metadata.name


def find_mac(name: str, hosts: Sequence[Host], machines: Sequence[Machine], nodes: Sequence[Node] = ()) -> Mac | None:
    """The Mac whose machine, Host object, server or name in the cloud is called so; a machine's name goes first.

    None also where several are: in the cloud two servers may have one name, and a guess could name the wrong one.
    """
    machine = next((one for one in machines if one.metadata.name == name), None)
    if machine is not None:
        return Mac(_host_of(machine, hosts), machine, _node_of(machine, nodes))
    exact = _exactly(name, hosts)
    return mac_of(exact[0], machines, nodes) if len(exact) == 1 else None


def mac_of(host: Host, machines: Sequence[Machine], nodes: Sequence[Node] = ()) -> Mac:
    """The Mac that a host is, with the machine that its claim names."""
    claim = host.spec.claim
    owner = next((one for one in machines if claim is not None and one.metadata.uid == claim.machine_uid), None)
    return Mac(host, owner, _node_of(owner, nodes) if owner is not None else None)


def hosts_called(name: str, hosts: Sequence[Host]) -> list[Host]:
    """The hosts that a name may mean: those that have it, or else those whose name it begins."""
    return _exactly(name, hosts) or [
        host for host in hosts if host.metadata.name.startswith(name) or host.spec.server_id.startswith(name)
    ]


def _exactly(name: str, hosts: Sequence[Host]) -> list[Host]:
    return [host for host in hosts if name in (host.metadata.name, host.spec.server_id, host.status.cloud_name)]


def pods_on(pods: Iterable[Pod], node: str) -> list[Pod]:
    """The runner Pods on a Node that have not ended."""
    return [
        pod
        for pod in pods
        if pod.spec.node_name == node
        and pod.metadata.labels.get(RUNNER_LABEL) == "true"
        and pod.status.phase not in ("Succeeded", "Failed")
    ]


def busy_pods(pods: Iterable[Pod], node: str) -> list[Pod]:
    """Those of them that are assigned to an account."""
    return [pod for pod in pods_on(pods, node) if works(pod)]


def works(pod: Pod) -> bool:
    """Whether it is assigned to an account; the ledger knows for which job."""
    return bool(pod.metadata.labels.get(OWNER_LABEL))


def _host_of(machine: Machine, hosts: Sequence[Host]) -> Host | None:
    known = {machine.status.host_name, machine.status.server_id, machine.status.claiming} - {""}
    return next((host for host in hosts if {host.metadata.name, host.spec.server_id} & known), None)


def _node_of(machine: Machine, nodes: Sequence[Node]) -> Node | None:
    return next((node for node in nodes if node.metadata.name == machine.metadata.name), None)
