"""`paddock drain` and `paddock undrain`: let a Mac, or a single runner Pod, finish what it does and take nothing more."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import DECLINED, Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.finding import read_busy_pods, read_mac
from paddock.cli.output import confirmed, say

if TYPE_CHECKING:
    from paddock.kube.builtin import Node

__all__ = ["command", "undrain_command"]


@click.command("drain")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@reach_flags
def command(name: str, yes: bool, reach: Reach) -> None:
    """Take no more jobs on the Mac or Pod NAME; what runs there finishes undisturbed.

    A Mac's Node is cordoned: idle runners on it are retired, busy ones end with their job. A Pod is marked: it is given
    no job, and exits when it next asks for one.
    """
    run(_drain(name, reach, yes=yes, on=True))


@click.command("undrain")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@reach_flags
def undrain_command(name: str, yes: bool, reach: Reach) -> None:
    """Let the Mac NAME take jobs again."""
    run(_drain(name, reach, yes=yes, on=False))


async def _drain(name: str, reach: Reach, *, yes: bool, on: bool) -> int:
    from paddock.kube.builtin import Node, Pod
    from paddock.kube.errors import NotFoundError
    from paddock.runners.api import OPERATOR_DRAIN_LABEL, RUNNER_LABEL

    async with connected(reach) as reached:
        node = await _node(reached, name)
        if node is not None:
            busy = await read_busy_pods(reached, node.metadata.name)
            plan = [f"{'cordon' if on else 'uncordon'} Node {node.metadata.name}"]
            if on:
                plan.append("retire its idle runners")
                plan += [f"let Pod {pod.metadata.name} finish its job" for pod in busy]
            if not confirmed(plan, "Go on?", yes=yes):
                return DECLINED
            change = {"metadata": {"uid": node.metadata.uid}, "spec": {"unschedulable": on or None}}
            await reached.client.merge_patch(Node, node.metadata.name, change)
            say(f"Node {node.metadata.name} takes {'no more jobs' if on else 'jobs again'}")
            return 0
        try:
            pod = await reached.client.get(Pod, name, reached.namespace)
        except NotFoundError:
            raise Problem(
                f"there is no Mac with a Node, and no Pod, called {name}: `paddock get machines`, `paddock get pods`"
            ) from None
        if pod.metadata.labels.get(RUNNER_LABEL) != "true":
            raise Problem(f"Pod {name} is no runner of ours: it lacks the label {RUNNER_LABEL}=true")
        if not on:
            raise Problem("a drained Pod is not taken back: its pool makes another one in its place")
        if not confirmed([f"give Pod {name} no job any more; it exits when it next asks for one"], "Go on?", yes=yes):
            return DECLINED
        marked = {"metadata": {"uid": pod.metadata.uid, "labels": {OPERATOR_DRAIN_LABEL: "true"}}}
        await reached.client.merge_patch(Pod, name, marked, namespace=pod.metadata.namespace)
        say(f"Pod {name} is given no job any more")
        return 0


async def _node(reached: Reached, name: str) -> "Node | None":
    """The Node of that name, or of the Mac of that name."""
    from paddock.kube.builtin import Node
    from paddock.kube.errors import NotFoundError

    names = [name]
    with suppress(Problem):  # not a Mac: perhaps a Linux node, or a Pod
        names.append((await read_mac(reached, name)).name)
    for each in dict.fromkeys(names):
        try:
            return await reached.client.get(Node, each)
        except NotFoundError:
            continue
    return None
