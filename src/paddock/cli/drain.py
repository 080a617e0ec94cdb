"""`paddock drain` and `paddock undrain`: let a Mac, or a single runner Pod, finish what it does and take nothing more."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.exit_codes import DECLINED, FAILED
from paddock.cli.finding import read_busy_pods, read_mac
from paddock.cli.output import confirmed, dry_run_flag, say
from paddock.cli.waiting import Progress, wait_flags, waited

if TYPE_CHECKING:
    from paddock.kube.builtin import Node, Pod

__all__ = ["command", "undrain_command"]


@click.command("drain")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@dry_run_flag
@wait_flags
@reach_flags
def command(name: str, yes: bool, dry_run: bool, wait: bool, timeout: float, reach: Reach) -> None:
    """Take no more jobs on the Mac or Pod NAME; what runs there finishes undisturbed.

    A Mac's Node is cordoned: idle runners on it are retired, busy ones end with their job. A Pod is marked: it is given
    no job, and exits when it next asks for one.
    """
    run(_drain(name, reach, yes=yes, on=True, dry_run=dry_run, timeout=timeout if wait else None))


@click.command("undrain")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@dry_run_flag
@reach_flags
def undrain_command(name: str, yes: bool, dry_run: bool, reach: Reach) -> None:
    """Let the Mac NAME take jobs again."""
    run(_drain(name, reach, yes=yes, on=False, dry_run=dry_run))


async def _drain(name: str, reach: Reach, *, yes: bool, on: bool, dry_run: bool, timeout: float | None = None) -> int:
    from paddock.base.clock import SystemClock
    from paddock.kube.builtin import Node, Pod
    from paddock.kube.errors import NotFoundError
    from paddock.runners.api import OPERATOR_DRAIN_LABEL, RUNNER_LABEL
    from paddock.views.cordon import cordon_change, operators_cordon

    async with connected(reach) as reached:
        node = await _node(reached, name)
        if node is not None:
            busy = await read_busy_pods(reached, node.metadata.name)
            plan = [f"{'cordon' if on else 'uncordon'} Node {node.metadata.name}"]
            if on:
                plan.append("retire its idle runners")
                plan += [f"let Pod {pod.metadata.name} finish its job" for pod in busy]
            elif doing := operators_cordon(node):
                plan.append(f"the operator closed it for the {doing}, and closes it again while that lasts")
            if not confirmed(plan, "Go on?", yes=yes, dry_run=dry_run):
                return 0 if dry_run else DECLINED
            await reached.client.merge_patch(Node, node.metadata.name, cordon_change(node, on=on))
            say(f"Node {node.metadata.name} takes {'no more jobs' if on else 'jobs again'}")
            if timeout is None:
                return 0
            done = await waited(lambda: _node_progress(reached, node.metadata.name), SystemClock(), timeout)
            return 0 if done else FAILED
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
        plan = [f"give Pod {name} no job any more; it exits when it next asks for one"]
        if not confirmed(plan, "Go on?", yes=yes, dry_run=dry_run):
            return 0 if dry_run else DECLINED
        marked = {"metadata": {"uid": pod.metadata.uid, "labels": {OPERATOR_DRAIN_LABEL: "true"}}}
        await reached.client.merge_patch(Pod, name, marked, namespace=pod.metadata.namespace)
        say(f"Pod {name} is given no job any more")
        if timeout is None:
            return 0
        done = await waited(lambda: _pod_progress(reached, pod), SystemClock(), timeout)
        return 0 if done else FAILED


async def _node_progress(reached: Reached, node: str) -> Progress:
    from paddock.kube.builtin import Pod
    from paddock.runners.api import RUNNER_LABEL
    from paddock.views.finding import pods_on, works

    left = pods_on((await reached.client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items, node)
    if not left:
        return Progress(f"Node {node} is drained: no runner is left there", done=True)
    busy = [pod.metadata.name for pod in left if works(pod)]
    idle = len(left) - len(busy)
    told = [f"{', '.join(busy)} still {'works' if len(busy) == 1 else 'work'}"] if busy else []
    told += [f"{idle} idle runner{'' if idle == 1 else 's'} to go"] if idle else []
    return Progress("; ".join(told))


async def _pod_progress(reached: Reached, pod: "Pod") -> Progress:
    from paddock.kube.builtin import Pod
    from paddock.kube.errors import NotFoundError

    meta = pod.metadata
    try:
        now = await reached.client.get(Pod, meta.name, meta.namespace)
    except NotFoundError:
        return Progress(f"Pod {meta.name} is gone", done=True)
    if now.metadata.uid != meta.uid or now.status.phase in ("Succeeded", "Failed"):
        return Progress(f"Pod {meta.name} has ended", done=True)
    return Progress(f"Pod {meta.name} is {now.status.phase}")


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
