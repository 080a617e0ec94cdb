"""The commands people type. Each is imported only when it is called, so that `paddock --help` stays quick."""

import importlib

import click

from paddock import __version__

__all__ = ["main"]

_COMMANDS = {
    "up": ("paddock.cli.up", "Run everything on this machine."),
    "operator": ("paddock.cli.operator", "Run the controllers of the hosts against a cluster."),
    "sweep": ("paddock.cli.sweep", "Show whose every host is, and on what evidence."),
    "detach": ("paddock.cli.detach", "Delete a machine without releasing its host."),
    "prepare-host": ("paddock.cli.prepare_host", "Give a Mac passwordless sudo and automatic login, by hand."),
}


class _Lazy(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        return importlib.import_module(_COMMANDS[cmd_name][0]).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="paddock")
def main() -> None:
    """Runs Apple-silicon CI fleets: every host, claim, Pod and job is accounted for."""
