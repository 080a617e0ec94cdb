"""The commands people type. Each is imported only when it is called, so that `paddock --help` stays quick."""

import importlib

import click

from paddock import __version__
from paddock.cli.exit_codes import MEANINGS

__all__ = ["main"]

_COMMANDS = {
    "up": ("paddock.cli.up", "command", "Run everything on this machine."),
    "operator": ("paddock.cli.operator", "command", "Run the controllers of hosts and runner pools against a cluster."),
    "dispatch": ("paddock.cli.dispatch", "command", "Take webhooks, hand jobs to Pods, and heal what disagrees."),
    "node-agent": ("paddock.cli.node_agent", "command", "Make a Mac a Node and its Pods Tart VMs."),
    "status": ("paddock.cli.status", "command", "Show on one screen whether everything is well."),
    "get": ("paddock.cli.get", "command", "List hosts, machines, fleets, pools, pods, jobs and more."),
    "describe": ("paddock.cli.describe", "command", "Show everything about one thing."),
    "why": ("paddock.cli.why", "command", "Explain why a host, a machine, a Pod or a job is as it is."),
    "tree": ("paddock.cli.tree", "command", "Show fleets with their machines, hosts, Pods and jobs."),
    "logs": ("paddock.cli.logs", "command", "Show what a job's or a Pod's runner printed."),
    "top": ("paddock.cli.top", "command", "Show who uses the Macs now."),
    "events": ("paddock.cli.events", "command", "Show what happened, and watch it happen."),
    "leaks": ("paddock.cli.leaks", "command", "Show what looks as if it leaked, and when that is decided."),
    "rewind": ("paddock.cli.rewind", "command", "Show what waited and ran at a moment of the past, and why."),
    "doctor": ("paddock.cli.doctor", "command", "Check what Paddock needs from outside, and say how to mend it."),
    "init": ("paddock.cli.init", "command", "Ask for Scaleway and GitHub, write what to start from, and check it."),
    "github-app": ("paddock.cli.github_app", "command", "Register the GitHub App, by one click."),
    "bundle-support": ("paddock.cli.bundle_support", "command", "Collect a redacted archive for a bug report."),
    "config": ("paddock.cli.config_check", "command", "Check the settings of the long-running processes."),
    "sweep": ("paddock.cli.sweep", "command", "Show whose every host is, and on what evidence."),
    "release": ("paddock.cli.release", "command", "Give a Mac back to the pool."),
    "terminate": ("paddock.cli.release", "terminate_command", "Give a Mac back to the cloud for good."),
    "detach": ("paddock.cli.detach", "command", "Delete a machine without releasing its host."),
    "adopt": ("paddock.cli.adopt", "command", "Rebuild machines for Macs that run, from names and Nodes."),
    "quarantine": ("paddock.cli.quarantine", "command", "Keep a host from being claimed."),
    "retire": ("paddock.cli.retire", "command", "Give a Mac back to the cloud once it is free."),
    "unquarantine": ("paddock.cli.quarantine", "unquarantine_command", "Let a host be claimed again."),
    "drain": ("paddock.cli.drain", "command", "Let a Mac or a Pod finish, and take no more jobs."),
    "undrain": ("paddock.cli.drain", "undrain_command", "Let a Mac take jobs again."),
    "accounts": ("paddock.cli.accounts", "command", "Say who may run jobs, and how much at once."),
    "ssh": ("paddock.cli.ssh", "command", "Open a shell on a Mac, and record that."),
    "vnc": ("paddock.cli.vnc", "command", "Open the screen of a Mac or of a runner's VM, and record that."),
    "poll": ("paddock.cli.poll", "command", "Wait for a job inside a runner Pod."),
    "prepare-host": (
        "paddock.cli.prepare_host",
        "command",
        "Give a Mac passwordless sudo and automatic login, by hand.",
    ),
    "simulated-world": ("paddock.cli.simulated_world", "command", ""),
    "completion": ("paddock.cli.completion", "command", "Print the script that completes commands in your shell."),
}

_GROUPS = {
    "Run": ("up", "operator", "dispatch", "node-agent", "poll"),
    "Look": ("status", "get", "describe", "why", "tree", "top", "logs", "events", "leaks", "rewind", "sweep"),
    "Change": (
        "drain", "undrain", "release", "terminate", "quarantine", "unquarantine", "retire", "detach", "adopt", "prepare-host",
        "accounts", "ssh", "vnc",
    ),
    "Set up and check": ("init", "github-app", "doctor", "config", "bundle-support", "completion"),
}  # fmt: skip
"""What belongs together in `--help`; what is in no group comes last."""

_UNLISTED = {"simulated-world"}
"""Programs start these, people do not."""


class _Lazy(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name in _COMMANDS if name not in _UNLISTED]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, name, _ = _COMMANDS[cmd_name]
        return getattr(importlib.import_module(module), name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from paddock.cli.near import did_you_mean

            raise click.UsageError(error.message + did_you_mean(args[0], self.list_commands(ctx)), ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        listed = self.list_commands(ctx)
        grouped = {name for names in _GROUPS.values() for name in names}
        groups = {**_GROUPS, "Other": tuple(name for name in listed if name not in grouped)}
        width = max(map(len, listed))
        for title, names in groups.items():
            if shown := [(name.ljust(width), _COMMANDS[name][2]) for name in names if name in listed]:
                with formatter.section(title):
                    formatter.write_dl(shown)


_EPILOG = "\b\nExit codes:\n" + "".join(f"  {code:<4} {meaning}\n" for code, meaning in MEANINGS.items())


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
@click.version_option(__version__, prog_name="paddock")
def main() -> None:
    """Runs Apple-silicon CI fleets: accounts for every host, claim, Pod and job."""
    from paddock.base import logs

    # What a command prints is its answer: its log goes beside it, and tells of trouble alone. Those that run on choose their own.
    logs.set_up(level="warning")
