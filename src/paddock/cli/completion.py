"""`paddock completion SHELL`: the script that teaches a shell to complete commands, kinds and names."""

import click

__all__ = ["command"]

_SETUP = {
    "bash": 'eval "$(paddock completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(paddock completion zsh)"   # in ~/.zshrc, after compinit',
    "fish": "paddock completion fish > ~/.config/fish/completions/paddock.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(_SETUP.values()))
@click.argument("shell", type=click.Choice(sorted(_SETUP)))
def command(shell: str) -> None:
    """Print the completion script for SHELL."""
    from click.shell_completion import ShellComplete, get_completion_class

    from paddock.cli import main

    kind = get_completion_class(shell)
    assert kind is not None  # the choice names only shells that click knows
    # The base's `source`: that of bash asks the installed bash for its version, and prints a warning into the script.
    click.echo(ShellComplete.source(kind(main, {}, "paddock", "_PADDOCK_COMPLETE")))
