"""Reading what the user means: a Mac by the name of its machine, its Host object, its server id or its Node."""

from typing import TYPE_CHECKING

from paddock.cli.connections import Problem, Reached

if TYPE_CHECKING:
    from paddock.kube.builtin import Pod
    from paddock.views.finding import Mac

__all__ = ["read_busy_pods", "read_mac"]


async def read_mac(reached: Reached, name: str) -> "Mac":
    """The Mac of that name; Problem where there is none, or where a shortened name fits several."""
    from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.views.finding import find_mac, hosts_called, mac_of

    hosts = (await reached.client.list(ScalewayAppleSiliconHost)).items
    machines = (await reached.client.list(ScalewayAppleSiliconMachine)).items
    if (found := find_mac(name, hosts, machines)) is not None:
        return found
    fitting = hosts_called(name, hosts)
    if len(fitting) == 1:
        return mac_of(fitting[0], machines)
    if fitting:
        some = ", ".join(sorted(host.metadata.name for host in fitting)[:5])
        raise Problem(f"{name} could be any of {len(fitting)} hosts ({some}): give more of the name")
    raise Problem(
        f"there is no machine and no host called {name}: `paddock get machines` and `paddock get hosts` list them"
    )


async def read_busy_pods(reached: Reached, node: str) -> "list[Pod]":
    """The runner Pods on a Node that are assigned to an account and have not ended."""
    from paddock.kube.builtin import Pod
    from paddock.runners.api import RUNNER_LABEL
    from paddock.views.finding import busy_pods

    return busy_pods((await reached.client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items, node)
