"""`paddock top`: who uses the fleet at this moment, the longest first."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from paddock.base.names import VM_RESOURCE
from paddock.cli.connections import Reach, Reached, connected, reach_flags, run
from paddock.cli.output import Column, listed, output_flag, say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.kube.builtin import Node, Pod

__all__ = ["MacUse", "command", "use_of_macs"]


@dataclass(frozen=True, slots=True)
class MacUse:
    """One Mac: its seats for VMs, how many hold a runner, how many of those work, and the job that runs longest."""

    name: str
    ready: bool
    seats: int
    runners: int
    jobs: int
    longest: str
    longest_seconds: float


@click.command("top")
@output_flag
@reach_flags
def command(output: str, reach: Reach) -> None:
    """Show every Mac with its VM seats, runners and jobs, and the job that runs longest there; the busiest first.

    For accounts see `paddock get accounts`, for pools `paddock get pools`.
    """
    run(_top(output, reach))


async def _top(output: str, reach: Reach) -> int:
    from paddock.base.clock import SystemClock
    from paddock.cli.ledger_kinds import rows
    from paddock.kube.builtin import Node, Pod
    from paddock.runners.api import RUNNER_LABEL

    async with connected(reach) as reached, showing("looking at Macs, Pods and jobs"):
        nodes = (await reached.client.list(Node)).items
        pods = (await reached.client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items
        running = await _running(reached, rows)
    found = use_of_macs(nodes, pods, running, SystemClock().now())
    shown = listed(
        found, output, _COLUMNS, name=lambda mac: f"node/{mac.name}", plain=asdict, nothing="No Macs.", kind="MacUse"
    )
    say(shown)
    if found and output in ("table", "wide"):
        seats, runners, jobs = (sum(getattr(mac, field) for mac in found) for field in ("seats", "runners", "jobs"))
        say(f"\n{len(found)} Macs, {seats} seats: {runners} hold a runner, {jobs} run a job")
    return 0


async def _running(reached: Reached, rows: Any) -> list[dict[str, Any]]:
    return await rows(reached, "running?limit=1000")


def use_of_macs(
    nodes: "Sequence[Node]", pods: "Sequence[Pod]", running: Sequence[dict[str, Any]], now: datetime
) -> list[MacUse]:
    """Every Node that offers VM seats or holds a runner, the busiest first. Pure."""
    from paddock.cli.ledger_kinds import moment
    from paddock.views.finding import pods_on, works

    jobs = {job.get("pod_name"): job for job in running}
    found: list[MacUse] = []
    for node in nodes:
        here = pods_on(pods, node.metadata.name)
        seats = int((node.status.allocatable or {}).get(VM_RESOURCE, "0"))
        if not seats and not here:
            continue
        working = [pod for pod in here if works(pod)]
        longest, lasted = "", timedelta()
        for pod in working:
            job = jobs.get(pod.metadata.name)
            since = moment(job.get("executing_since") or job.get("started_at")) if job else None
            if job is not None and since is not None and now - since >= lasted:
                longest = f"{job['job_id']} {job.get('repository') or ''} {job.get('job_name') or ''}".strip()
                lasted = now - since
        ready = any(c.type == "Ready" and c.status == "True" for c in node.status.conditions)
        found.append(MacUse(node.metadata.name, ready, seats, len(here), len(working), longest, lasted.total_seconds()))
    return sorted(found, key=lambda mac: (-mac.jobs, -mac.longest_seconds, mac.name))


def _lasts(mac: MacUse) -> str:
    from paddock.base.explanation import span

    return span(timedelta(seconds=mac.longest_seconds)) if mac.longest else ""


_COLUMNS: tuple[Column[MacUse], ...] = (
    Column("MAC", lambda mac: mac.name),
    Column("READY", lambda mac: mac.ready),
    Column("SEATS", lambda mac: mac.seats),
    Column("RUNNERS", lambda mac: mac.runners),
    Column("JOBS", lambda mac: mac.jobs),
    Column("LONGEST", _lasts, ticking=True),
    Column("JOB", lambda mac: mac.longest),
)
