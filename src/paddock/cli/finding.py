"""Finding what the user means: a Mac by the name of its machine, its Host object, its server id or its Node."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paddock.cli.connections import Problem, Reached

if TYPE_CHECKING:
    from paddock.hosts.api import ScalewayAppleSiliconHost as Host
    from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
    from paddock.kube.builtin import Pod

__all__ = ["Mac", "busy_pods", "find_mac"]


@dataclass(frozen=True, slots=True)
class Mac:
    """A machine and its host, as far as there are both."""

    machine: "Machine | None"
    host: "Host | None"

    @property
    def name(self) -> str:
        if self.machine is not None:
            return self.machine.metadata.name
        assert self.host is not None
        return self.host.metadata.name


async def find_mac(reached: Reached, name: str) -> Mac:
    """The Mac of that name; Problem where there is none, or where a shortened name fits several."""
    from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

    hosts = (await reached.client.list(ScalewayAppleSiliconHost)).items
    machines = (await reached.client.list(ScalewayAppleSiliconMachine)).items
    machine = next((m for m in machines if m.metadata.name == name), None)
    if machine is not None:
        return Mac(machine, _host_of(machine, hosts))
    host = _one(name, hosts)
    claim = host.spec.claim
    owner = next((m for m in machines if claim is not None and m.metadata.uid == claim.machine_uid), None)
    return Mac(owner, host)


async def busy_pods(reached: Reached, node: str) -> "list[Pod]":
    """The runner Pods on a Node that are stamped for somebody and have not ended."""
    from paddock.kube.builtin import Pod
    from paddock.runners.api import OWNER_LABEL, RUNNER_LABEL

    pods = (await reached.client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items
    return [
        pod
        for pod in pods
        if pod.spec.node_name == node
        and pod.metadata.labels.get(OWNER_LABEL)
        and pod.status.phase not in ("Succeeded", "Failed")
    ]


def _host_of(machine: "Machine", hosts: "Sequence[Host]") -> "Host | None":
    known = {machine.status.host_name, machine.status.server_id, machine.status.claiming} - {""}
    return next((host for host in hosts if {host.metadata.name, host.spec.server_id} & known), None)


def _one(name: str, hosts: "Sequence[Host]") -> "Host":
    exact = [host for host in hosts if name in (host.metadata.name, host.spec.server_id, host.status.cloud_name)]
    fitting = exact or [
        host for host in hosts if host.metadata.name.startswith(name) or host.spec.server_id.startswith(name)
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        some = ", ".join(sorted(host.metadata.name for host in fitting)[:5])
        raise Problem(f"{name} could be any of {len(fitting)} hosts ({some}): give more of the name")
    raise Problem(
        f"there is no machine and no host called {name}: `paddock get machines` and `paddock get hosts` list them"
    )
