"""What the commands that run until they are stopped have in common: their cluster, their log, and how they are told to stop."""

import asyncio
import signal
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["kubeconfig_flag", "log_level_flag", "when_told_to_stop"]

F = TypeVar("F", bound=Callable[..., Any])


def kubeconfig_flag(command: F) -> F:
    """Adds `--kubeconfig`. Unlike `reach_flags` it never means a `paddock up` nearby: a process acts on what it is told."""
    return click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The cluster; without it $KUBECONFIG, then the cluster this runs in, then ~/.kube/config.",
    )(command)


def log_level_flag(default: str, description: str | None = None) -> Callable[[F], F]:
    """Adds `--log-level`, and sets up the log before the command is called, which never sees the flag."""

    def decorate(command: F) -> F:
        @wraps(command)  # which takes along the options that are declared below this one
        def logged(*args: Any, log_level: str, **flags: Any) -> Any:
            from paddock.base import logs

            logs.set_up(level=log_level)
            return command(*args, **flags)

        decorated: Any = logged
        return click.option(
            "--log-level",
            default=default,
            type=click.Choice(["debug", "info", "warning", "error"]),
            show_default=True,
            help=description,
        )(decorated)

    return decorate


def when_told_to_stop(stop: Callable[[], object]) -> None:
    """Have `stop` called by the running loop at every Ctrl-C and every SIGTERM, instead of what they would do."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
