"""`paddock logs`: what a runner printed, while it runs and for a week after it ended."""

from typing import TYPE_CHECKING, Any

import click

from paddock.cli.connections import Problem, Reach, Reached, connected, in_path, reach_flags, run
from paddock.cli.output import say

if TYPE_CHECKING:
    from paddock.base.clock import Clock

__all__ = ["command"]

_LOOK_EVERY = 1.0


@click.command("logs")
@click.argument("name")
@click.option("--follow", "-f", is_flag=True, help="Go on showing what is printed, until the runner ends or Ctrl-C.")
@click.option("--tail", default=-1, type=click.IntRange(-1), metavar="LINES", help="Only the last lines; -1 for all.")
@reach_flags
def command(name: str, follow: bool, tail: int, reach: Reach) -> None:
    """Show the log of the job or runner Pod NAME: a job's number, job/NUMBER, a Pod's name or pod/NAME.

    Kept are the last MiB of each runner, for a week. What a job's steps print is at GitHub: this is the runner's own log.
    """
    kind, _, called = name.rpartition("/")
    if kind not in ("", "job", "jobs", "pod", "pods"):
        raise click.UsageError(f"{name}: only jobs and Pods have logs; say job/NUMBER or pod/NAME")
    numbered = called.isdecimal() if not kind else kind.startswith("job")
    run(_logs("jobs" if numbered else "pods", called, reach, follow=follow, tail=tail))


async def _logs(kind: str, name: str, reach: Reach, *, follow: bool, tail: int) -> int:
    from paddock.base.clock import SystemClock

    clock = SystemClock()
    async with connected(reach) as reached:
        log = await _read(reached, kind, name, 0)
        waited = False
        while log is None and follow and await _will_print(reached, kind, name):
            if not waited:
                say(f"{kind[:-1]} {name} has printed nothing yet; waiting…", err=True)
            waited = True
            await clock.sleep(_LOOK_EVERY)
            log = await _read(reached, kind, name, 0)
        if log is None:
            if kind == "pods" and (text := await _of_cluster(reached, name)) is not None:
                log = {"text": text, "next": 0, "ended": True}
            else:
                raise Problem(await _why_none(reached, kind, name))
        text = log["text"]
        _print("\n".join(text.splitlines()[-tail:] if tail > 0 else ()) if tail >= 0 else text)
        if follow:
            await _follow(reached, kind, name, log, clock)
    return 0


async def _follow(reached: Reached, kind: str, name: str, log: dict[str, Any], clock: "Clock") -> None:
    while not log["ended"]:
        await clock.sleep(_LOOK_EVERY)
        newer = await _read(reached, kind, name, log["next"])
        if newer is None:
            return  # it was forgotten meanwhile: a week went by, or the space was needed
        _print(newer["text"])
        log = newer


def _print(text: str) -> None:
    if text:
        say(text.removesuffix("\n"))


async def _read(reached: Reached, kind: str, name: str, first: int) -> dict[str, Any] | None:
    return await reached.ledger.get(f"{kind}/{in_path(name)}/log?from={first}")


async def _will_print(reached: Reached, kind: str, name: str) -> bool:
    """Whether it is worth waiting for the first line: the job has not ended, or the Pod is there."""
    if kind == "jobs":
        page = await reached.ledger.get(f"jobs/{name}")
        return page is not None and not (page.get("job") or {}).get("completed_at")
    return await _pod(reached, name) is not None


async def _pod(reached: Reached, name: str) -> Any:
    from paddock.kube.builtin import Pod

    pods = (await reached.client.list(Pod, field_selector=f"metadata.name={name}")).items
    return pods[0] if pods else None


async def _of_cluster(reached: Reached, name: str) -> str | None:
    """The log by the API server: Pods on Linux post none to dispatch."""
    from paddock.kube.errors import KubeError

    pod = await _pod(reached, name)
    if pod is None:
        return None
    path = f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{name}/log"
    try:
        return (await reached.client.connection.request("GET", path, timeout=30.0)).decode("utf-8", "replace")
    except KubeError:
        return None  # it says as little as dispatch: the sentence of the caller holds


async def _why_none(reached: Reached, kind: str, name: str) -> str:
    if kind == "jobs" and await reached.ledger.get(f"jobs/{name}") is None:
        return f"there is no job {name}: `paddock get jobs` lists them"
    if (
        kind == "pods"
        and await _pod(reached, name) is None
        and await reached.ledger.get(f"pods/{in_path(name)}") is None
    ):
        return f"there is no Pod {name}, and there was none: `paddock get pods` lists them"
    return (
        f"no log is kept of {kind[:-1]} {name}: its runner has printed nothing yet (-f waits for it), its agent posted "
        f"none, or it ended more than a week ago; `paddock why {kind[:-1]} {name}` says how it is"
    )
