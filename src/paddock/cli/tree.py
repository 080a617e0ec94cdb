"""`paddock tree`: fleet, machine, host, Node, Pod, job, as one tree in which equal siblings are folded.

A sibling that only says what its siblings say is counted; one that differs is shown. So a healthy fleet of a hundred is
three lines, and a broken Mac among them stands out.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from paddock.cli.completing import names_of
from paddock.cli.progress import showing
from paddock.cli.reaching import Problem, Reach, Reached, connected, reach_flags, run

__all__ = ["Branch", "command", "drawn", "folded"]


@dataclass(frozen=True, slots=True)
class Branch:
    """A line of the tree. `alike` is what siblings must share to be folded; None never folds."""

    text: str
    below: tuple["Branch", ...] = ()
    alike: tuple[str, ...] | None = None
    plural: str = ""


@click.command("tree")
@click.argument("fleet", required=False, shell_complete=names_of("fleets"))
@click.option("--all", "everything", is_flag=True, help="Fold nothing.")
@reach_flags
def command(fleet: str | None, everything: bool, reach: Reach) -> None:
    """Show each fleet, or only FLEET, with its machines, hosts, Nodes, Pods and jobs; then the hosts of nobody."""
    run(_tree(fleet, reach, everything=everything))


async def _tree(fleet: str | None, reach: Reach, *, everything: bool) -> int:
    async with connected(reach) as reached, showing("growing the tree"):
        roots = await _grown(reached, fleet)
    if not roots:
        raise Problem("there is nothing to show: no fleet, no machine and no host")
    for root in roots:
        for line in drawn(root if everything else folded(root)):
            click.echo(line)
    return 0


async def _grown(reached: Reached, only: str | None) -> list[Branch]:
    from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.kube.builtin import Pod
    from paddock.runners.api import RUNNER_LABEL

    client = reached.client
    fleets = (await client.list(MacFleet)).items
    if only is not None and only not in (fleet.metadata.name for fleet in fleets):
        raise Problem(f"there is no fleet {only}: `paddock get fleets` lists them")
    hosts = (await client.list(ScalewayAppleSiliconHost)).items
    machines = (await client.list(ScalewayAppleSiliconMachine)).items
    pods: dict[str, list[Any]] = defaultdict(list)
    for pod in (await client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items:
        pods[pod.spec.node_name].append(pod)
    host_of = {host.metadata.name: host for host in hosts}
    roots = []
    placed: set[str] = set()
    for fleet in fleets:
        own = [m for m in machines if any(ref.uid == fleet.metadata.uid for ref in m.metadata.owner_references)]
        placed |= {m.metadata.uid for m in own}
        if only in (None, fleet.metadata.name):
            line = f"fleet {fleet.metadata.name}  {fleet.status.ready_replicas} of {fleet.spec.replicas} ready"
            roots.append(Branch(line, tuple(_machine(m, host_of, pods) for m in own)))
    if only is None:
        loose = [m for m in machines if m.metadata.uid not in placed]
        if loose:
            roots.append(Branch("machines of no fleet", tuple(_machine(m, host_of, pods) for m in loose)))
        claimed = {m.status.host_name for m in machines}
        free = [host for host in hosts if host.metadata.name not in claimed]
        if free:
            roots.append(Branch("hosts of no machine", tuple(_host(host) for host in free)))
    return roots


def _machine(machine: Any, hosts: dict[str, Any], pods: dict[str, list[Any]]) -> Branch:
    ready = next((c for c in machine.status.conditions if c.type == "Ready"), None)
    state = "Ready" if machine.status.ready else f"{machine.status.phase or 'new'}: {ready.reason if ready else '?'}"
    host = hosts.get(machine.status.host_name)
    below = (*((_host(host),) if host is not None else ()), *(_pod(pod) for pod in pods.get(machine.metadata.name, ())))
    kinds = tuple(sorted({"/".join(branch.alike or ()) for branch in below}))
    return Branch(f"machine {machine.metadata.name}  {state}", below, (state, *kinds), f"machines  {state}")


def _host(host: Any) -> Branch:
    state = "quarantined" if host.spec.quarantine else host.status.state or "not judged"
    return Branch(
        f"host {host.metadata.name}  {state}, {host.status.type}, {host.spec.zone}",
        (),
        ("host", state),
        f"hosts  {state}",
    )


def _pod(pod: Any) -> Branch:
    from paddock.runners.api import OWNER_LABEL

    owner = pod.metadata.labels.get(OWNER_LABEL, "")
    doing = f"busy for {owner}" if owner else "idle" if pod.status.phase == "Running" else pod.status.phase or "new"
    return Branch(f"pod {pod.metadata.name}  {doing}", (), ("pod", "busy" if owner else doing), f"pods  {doing}")


@dataclass(slots=True)
class _Group:
    members: list[Branch] = field(default_factory=list)


def folded(branch: Branch, *, least: int = 3) -> Branch:
    """The same tree, with siblings that are alike drawn as one line once there are at least `least` of them."""
    groups: dict[tuple[str, ...], _Group] = {}
    order: list[tuple[str, ...]] = []
    for place, child in enumerate(branch.below):
        key = child.alike if child.alike is not None else ("", str(place))
        if key not in groups:
            groups[key] = _Group()
            order.append(key)
        groups[key].members.append(child)
    below: list[Branch] = []
    for key in order:
        members = groups[key].members
        if len(members) >= least:
            below.append(Branch(f"{len(members)} {members[0].plural}"))
        else:
            below += [folded(member, least=least) for member in members]
    return Branch(branch.text, tuple(below), branch.alike, branch.plural)


def drawn(branch: Branch) -> list[str]:
    """The tree as lines."""
    return [branch.text, *_below(branch.below, "")]


def _below(branches: Sequence[Branch], indent: str) -> Iterator[str]:
    for place, branch in enumerate(branches):
        last = place == len(branches) - 1
        yield f"{indent}{'└─' if last else '├─'} {branch.text}"
        yield from _below(branch.below, indent + ("   " if last else "│  "))
