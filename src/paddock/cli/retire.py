"""`paddock retire`: give a Mac back to the cloud for good, without putting anybody out for it."""

import click

from paddock.base.explanation import utc
from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, connected, reach_flags, run
from paddock.cli.finding import read_mac
from paddock.cli.host_marks import host_of, mark_host
from paddock.cli.output import dry_run_flag, say

__all__ = ["command"]


@click.command("retire")
@click.argument("name", shell_complete=names_of("hosts"))
@click.option("--reason", default="", help="Why; shown wherever the host is shown.")
@click.option("--undo", is_flag=True, help="Keep it after all, if it is not on its way yet.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@dry_run_flag
@reach_flags
def command(name: str, reason: str, undo: bool, yes: bool, dry_run: bool, reach: Reach) -> None:
    """Terminate the host NAME once it is free and past its billing floor.

    A machine that has it keeps it, and so does the job that runs on it. One host of a zone goes at a time, an hour apart.
    """
    if undo == bool(reason):
        raise click.UsageError("say --reason WHY, or --undo")
    run(_set(name, reason, reach, yes=yes, dry_run=dry_run))


async def _set(name: str, reason: str, reach: Reach, *, yes: bool, dry_run: bool) -> int:
    from paddock.hosts.retirement import retiring

    async with connected(reach) as reached:
        mac = await read_mac(reached, name)
        host = host_of(mac, name)
        called = host.metadata.name
        if host.spec.retire == reason:
            say(f"host {called} is {'to be retired' if reason else 'not to be retired'} already; nothing to do")
            return 0
        if not reason and retiring(host):
            raise Problem(f"host {called} is on its way to the cloud already: `paddock why host {called}` says how far")
        if reason:
            plan = [f"host {called} is terminated for good, because: {reason}"]
            if (end := host.status.committed_until) is not None:
                plan.append(f"its deletion takes effect when its monthly commitment ends, on {utc(end)} at the soonest")
            if mac.machine is not None:
                plan.append(f"machine {mac.machine.metadata.name} keeps it, and its jobs, until it gives it back")
        else:
            plan = [f"host {called} stays (it was to be retired: {host.spec.retire})"]
        done = "to be retired" if reason else "kept"
        return await mark_host(reached, host, "retire", reason, plan=plan, done=done, yes=yes, dry_run=dry_run)
