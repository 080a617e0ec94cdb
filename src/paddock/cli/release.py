"""`paddock release` and `paddock terminate`: give a Mac back, to the pool or for good, after saying what that ends."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from paddock.base.explanation import utc
from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.exit_codes import DECLINED, FAILED
from paddock.cli.finding import read_busy_pods, read_mac
from paddock.cli.output import confirmed, dry_run_flag, say
from paddock.cli.waiting import Progress, wait_flags, waited

if TYPE_CHECKING:
    from paddock.kube.builtin import Pod
    from paddock.views.finding import Mac

__all__ = ["command", "plan", "terminate_command"]


@click.command("release")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force-kill-job", is_flag=True, help="Go on although a job is running on the Mac; the job is lost.")
@dry_run_flag
@wait_flags
@reach_flags
def command(
    name: str, yes: bool, force_kill_job: bool, dry_run: bool, wait: bool, timeout: float, reach: Reach
) -> None:
    """Give the Mac NAME back to the pool: its machine is deleted, the disk is wiped, the host is free again.

    NAME is the name of the machine or of its host. A fleet or Cluster API makes another machine in its place.
    """
    how = _How(yes=yes, force=force_kill_job, terminate=False, dry_run=dry_run, timeout=timeout if wait else None)
    run(_give_back(name, reach, how))


@click.command("terminate")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--force-kill-job", is_flag=True, help="Go on although a job is running on the Mac; the job is lost.")
@dry_run_flag
@wait_flags
@reach_flags
def terminate_command(
    name: str, yes: bool, force_kill_job: bool, dry_run: bool, wait: bool, timeout: float, reach: Reach
) -> None:
    """Give the Mac NAME back to the cloud for good, for example because its hardware is broken.

    Below its billing floor the cloud refuses the deletion; the operator then schedules it, and the command does not wait for it.
    """
    how = _How(yes=yes, force=force_kill_job, terminate=True, dry_run=dry_run, timeout=timeout if wait else None)
    run(_give_back(name, reach, how))


@dataclass(frozen=True, slots=True)
class _How:
    yes: bool
    force: bool
    terminate: bool
    dry_run: bool
    timeout: float | None
    """How long to wait for the end; None: not at all."""


async def _give_back(name: str, reach: Reach, how: _How) -> int:
    from paddock.base.clock import SystemClock
    from paddock.views.giving_back import JobsCameError, fate, give_back

    async with connected(reach) as reached:
        mac = await read_mac(reached, name)
        machine = mac.machine
        if machine is None:
            raise Problem(_unowned(mac))
        busy = await read_busy_pods(reached, machine.metadata.name)
        terminate, verb = how.terminate, "terminate" if how.terminate else "release"
        say(f"To {verb} {machine.metadata.name}:")
        if busy and not how.force:
            for pod in busy:
                say(f"  {_job(pod)}")
            raise Problem(
                f"a job is running there: `paddock drain {machine.metadata.name}` lets it finish first, "
                "--force-kill-job gives it up"
            )
        if not confirmed(plan(mac, busy, terminate=terminate), "Go on?", yes=how.yes, dry_run=how.dry_run):
            return 0 if how.dry_run else DECLINED
        try:
            await give_back(reached.client, machine, shown={pod.metadata.uid for pod in busy}, terminate=terminate)
        except JobsCameError as error:
            came = ", ".join(_job(pod) for pod in error.pods)
            raise Problem(
                f"a job came while you were asked ({came}); nothing was changed: give the command again to see all"
            ) from None
        if how.timeout is not None:
            becomes = fate(mac, terminate=terminate).becomes
            done = await waited(lambda: _progress(reached, mac, becomes), SystemClock(), how.timeout)
            return 0 if done else FAILED
        about = f"host {mac.host.metadata.name}" if mac.host else f"machine {machine.metadata.name}"
        say(f"asked for; `paddock why {about}` says how far it is (--wait waits for it)")
        return 0


async def _progress(reached: Reached, mac: "Mac", becomes: str) -> Progress:
    """How far it is: the machine has to go first, then its host is wiped and pooled, or gone for good, or left alone."""
    from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.kube.errors import NotFoundError

    assert mac.machine is not None
    meta, message = mac.machine.metadata, ""
    try:
        machine = await reached.client.get(ScalewayAppleSiliconMachine, meta.name, meta.namespace)
        if machine.metadata.uid == meta.uid:
            # What keeps it is said by the condition that waits: the drain, or the release.
            waiting = [c for c in machine.status.conditions if c.status == "False" and c.message]
            drained = next((c for c in waiting if c.type == "Drained"), waiting[0] if waiting else None)
            message = drained.message if drained else "its end was asked for"
            return Progress(f"machine {meta.name}: {message}")
    except NotFoundError:
        pass
    if mac.host is None:
        return Progress(f"machine {meta.name} is gone; it had no host", done=True)
    about = f"host {mac.host.metadata.name}"
    if becomes == "kept":
        return Progress(f"machine {meta.name} is gone; {about} was not touched", done=True)
    terminate = becomes == "terminated"
    try:
        host = await reached.client.get(ScalewayAppleSiliconHost, mac.host.metadata.name, mac.host.metadata.namespace)
    except NotFoundError:
        return Progress(f"{about} is gone", done=True)
    if host.status.state == "gone":
        return Progress(f"{about} is gone", done=True)
    if terminate and host.status.deletion_scheduled:
        when = f"on {utc(end)}" if (end := host.status.paid_until) is not None else "later"
        why = "under a monthly commitment" if host.status.committed_until is not None else "below its billing floor"
        return Progress(f"{about} is {why}; the cloud deletes it {when}", done=True)
    claimed = host.spec.claim is not None and host.spec.claim.machine_uid == meta.uid
    if not terminate and not claimed and host.spec.release is None and host.status.state != "releasing":
        return Progress(f"{about} was wiped, and is {host.status.state}", done=True)
    ready = next((c for c in host.status.conditions if c.type == "Ready"), None)
    return Progress(f"{about}: {host.status.state}, {host.status.cloud_status}; {ready.message if ready else ''}")


def plan(mac: "Mac", busy: "list[Pod]", *, terminate: bool) -> list[str]:
    """What will be done, in order, and what it ends."""
    from paddock.views.giving_back import fate, successor

    assert mac.machine is not None
    steps = [f"end {_job(pod)}" for pod in busy]
    if terminate:
        steps.append("mark it to be given back for good")
    steps.append(f"delete machine {mac.machine.metadata.name}")
    steps.append(fate(mac, terminate=terminate).sentence)
    if mac.host is None:
        return steps
    if follows := successor(mac, terminate=terminate):
        steps.append(follows)
    return steps


def _job(pod: "Pod") -> str:
    from paddock.runners.api import OWNER_LABEL

    return f"Pod {pod.metadata.name} works for {pod.metadata.labels.get(OWNER_LABEL, '?')}"


def _unowned(mac: "Mac") -> str:
    assert mac.host is not None
    if mac.host.spec.release is not None:
        return f"host {mac.name} is being given back already: `paddock why host {mac.name}` says how far it is"
    return f"host {mac.name} belongs to no machine ({mac.host.status.state}): `paddock why host {mac.name}` explains it"
