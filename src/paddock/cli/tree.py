"""`paddock tree`: fleet, machine, host, Node, Pod, job, as one tree in which equal siblings are folded.

A sibling that only says what its siblings say is counted; one that differs is shown. So a healthy fleet of a hundred is
three lines, and a broken Mac among them stands out.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.output import say
from paddock.cli.progress import showing

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
    """Show each fleet, or only FLEET, with its machines, hosts, Nodes, Pods and jobs; then the hosts without an owner."""
    run(_tree(fleet, reach, everything=everything))


async def _tree(fleet: str | None, reach: Reach, *, everything: bool) -> int:
    async with connected(reach) as reached, showing("growing the tree"):
        roots = await _grown(reached, fleet)
    if not roots:
        raise Problem("there is nothing to show: no fleet, no machine and no host")
    for root in roots:
        for line in drawn(root if everything else folded(root)):
            say(line)
    return 0


async def _grown(reached: Reached, only: str | None) -> list[Branch]:
    from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.kube.builtin import Node, Pod
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
    ground = _Ground(
        {host.metadata.name: host for host in hosts},
        {node.metadata.name: node for node in (await client.list(Node)).items},
        pods,
        await _jobs(reached),
    )
    roots = []
    placed: set[str] = set()
    for fleet in fleets:
        own = [m for m in machines if any(ref.uid == fleet.metadata.uid for ref in m.metadata.owner_references)]
        placed |= {m.metadata.uid for m in own}
        if only in (None, fleet.metadata.name):
            line = f"fleet {fleet.metadata.name}  {fleet.status.ready_replicas} of {fleet.spec.replicas} ready"
            roots.append(Branch(line, tuple(_machine(m, ground) for m in own)))
    if only is None:
        loose = [m for m in machines if m.metadata.uid not in placed]
        if loose:
            roots.append(Branch("machines of no fleet", tuple(_machine(m, ground) for m in loose)))
        claimed = {m.status.host_name for m in machines}
        free = [host for host in hosts if host.metadata.name not in claimed]
        if free:
            roots.append(Branch("hosts of no machine", tuple(_host(host) for host in free)))
    return roots


@dataclass(frozen=True, slots=True)
class _Ground:
    """What machines stand on: hosts and Nodes by name, Pods by Node, jobs by Pod."""

    hosts: dict[str, Any]
    nodes: dict[str, Any]
    pods: dict[str, list[Any]]
    jobs: dict[str, str]


async def _jobs(reached: Reached) -> dict[str, str]:
    """What runs on each Pod; nothing where the ledger cannot be asked, for the rest of the tree stands without it."""
    try:
        running = await reached.ledger.get("running?limit=1000") or []
    except Problem:
        return {}
    return {
        job["pod_name"]: f"job {job['job_id']}  {job['repository']} · {job['job_name'] or job['workflow_name']}"
        for job in running
        if job.get("pod_name")
    }


def _machine(machine: Any, ground: _Ground) -> Branch:
    ready = next((c for c in machine.status.conditions if c.type == "Ready"), None)
    phase, reason = machine.status.phase or "new", ready.reason if ready else "?"
    state = "Ready" if machine.status.ready else phase if phase == reason else f"{phase}: {reason}"
    host = ground.hosts.get(machine.status.host_name)
    node = ground.nodes.get(machine.metadata.name)
    under_host = (_node(node, ground),) if node is not None else ()
    below = (_host(host, under_host),) if host is not None else under_host
    doing = sorted({_doing(pod) for pod in ground.pods.get(machine.metadata.name, ())})
    alike = (state, *(kind for branch in below for kind in branch.alike or ()), *doing)
    what = ", ".join(doing) or "no runner"
    step = "" if machine.status.ready else machine.status.bootstrap_step
    line = f"machine {machine.metadata.name}  {state}{f', at {step}' if step else ''}"
    return Branch(line, below, alike, f"machines  {state}, each: {what}")


def _host(host: Any, below: tuple[Branch, ...] = ()) -> Branch:
    from paddock.hosts.retirement import set_aside

    state = set_aside(host) or host.status.state or "not judged"
    line = f"host {host.metadata.name}  {state}, {host.status.type}, {host.spec.zone}"
    return Branch(line, below, ("host", state), f"hosts  {state}")


def _node(node: Any, ground: _Ground) -> Branch:
    ready = next((c for c in node.status.conditions if c.type == "Ready"), None)
    state = "Ready" if ready is not None and ready.status == "True" else "not Ready"
    drained = ", drained" if node.spec.unschedulable else ""
    below = tuple(_pod(pod, ground.jobs) for pod in ground.pods.get(node.metadata.name, ()))
    return Branch(
        f"node {node.metadata.name}  {state}{drained}", below, ("node", state, drained), f"nodes  {state}{drained}"
    )


def _doing(pod: Any) -> str:
    """What a runner does, in a word that is the same for all that do the same."""
    from paddock.runners.api import OWNER_LABEL
    from paddock.runners.pools.pod_predicates import os_of, warm

    if pod.metadata.labels.get(OWNER_LABEL):
        return "a busy runner"
    return "an idle runner" if warm(pod, os_of(pod)) else "a runner that starts or ends"


def _pod(pod: Any, jobs: dict[str, str]) -> Branch:
    from paddock.runners.api import OWNER_LABEL
    from paddock.runners.pools.pod_predicates import os_of, warm

    owner = pod.metadata.labels.get(OWNER_LABEL, "")
    doing = f"busy for {owner}" if owner else "idle" if warm(pod, os_of(pod)) else pod.status.phase or "new"
    job = jobs.get(pod.metadata.name)
    below = (Branch(job),) if job is not None else ()
    return Branch(f"pod {pod.metadata.name}  {doing}", below, ("pod", "busy" if owner else doing), f"pods  {doing}")


def folded(branch: Branch, *, least: int = 3) -> Branch:
    """The same tree, with siblings that are alike drawn as one line once there are at least `least` of them."""
    groups: defaultdict[tuple[str, ...], list[Branch]] = defaultdict(list)
    for place, child in enumerate(branch.below):
        groups[child.alike if child.alike is not None else ("", str(place))].append(child)
    below: list[Branch] = []
    for members in groups.values():
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
