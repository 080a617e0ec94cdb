"""`paddock quarantine` and `paddock unquarantine`: keep a Mac out of every pool without touching what runs on it."""

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import Reach, connected, reach_flags, run
from paddock.cli.finding import read_mac
from paddock.cli.host_marks import host_of, mark_host
from paddock.cli.output import dry_run_flag, say

__all__ = ["command", "unquarantine_command"]


@click.command("quarantine")
@click.argument("name", shell_complete=names_of("hosts"))
@click.option("--reason", required=True, help="Why; shown wherever the host is shown.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@dry_run_flag
@reach_flags
def command(name: str, reason: str, yes: bool, dry_run: bool, reach: Reach) -> None:
    """Keep every machine from claiming the host NAME from now on.

    A machine that has it keeps it, and so does the job that runs on it; once released it is not claimed again.
    """
    run(_set(name, reason, reach, yes=yes, dry_run=dry_run))


@click.command("unquarantine")
@click.argument("name", shell_complete=names_of("hosts"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@dry_run_flag
@reach_flags
def unquarantine_command(name: str, yes: bool, dry_run: bool, reach: Reach) -> None:
    """Let the host NAME be claimed again."""
    run(_set(name, "", reach, yes=yes, dry_run=dry_run))


async def _set(name: str, reason: str, reach: Reach, *, yes: bool, dry_run: bool) -> int:
    async with connected(reach) as reached:
        mac = await read_mac(reached, name)
        host = host_of(mac, name)
        called = host.metadata.name
        if host.spec.quarantine == reason:
            say(f"host {called} is {'quarantined' if reason else 'not quarantined'} already; nothing to do")
            return 0
        if reason:
            plan = [f"host {called} is not claimed by anybody any more: {reason}"]
            if mac.machine is not None:
                plan.append(f"machine {mac.machine.metadata.name} keeps it, and its jobs, until it is released")
        else:
            plan = [f"host {called} may be claimed again (it was quarantined: {host.spec.quarantine})"]
        done = "quarantined" if reason else "free to be claimed"
        return await mark_host(reached, host, "quarantine", reason, plan=plan, done=done, yes=yes, dry_run=dry_run)
