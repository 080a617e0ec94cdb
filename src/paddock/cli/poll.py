"""`paddock poll`: what the poller of a Linux runner Pod runs. Waits for a job and leaves its config for the runner."""

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.output import say

if TYPE_CHECKING:
    from paddock.base.secrets import Secret

__all__ = ["command", "hand_over"]


@click.command("poll")
@click.option("--url", required=True, envvar="TUIST_RUNNER_DISPATCH_URL", help="Where the dispatch service is.")
@click.option(
    "--token-file",
    default="/var/run/secrets/paddock/token",
    show_default=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The Pod's projected token; read anew before every request.",
)
@click.option(
    "--jit-file",
    required=True,
    envvar="TUIST_RUNNER_JIT_FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the runner expects its config.",
)
@click.option(
    "--wait",
    default=75.0,
    show_default=True,
    type=click.FloatRange(0, 300),
    help="Seconds to wait per request at most. It begins with 25, and waits less where something cuts longer ones off.",
)
def command(url: str, token_file: Path, jit_file: Path, wait: float) -> None:
    """Wait for a job, and write its config to the file that the runner reads.

    Exits with 0 when there is a job, and when the Pod is to be replaced (there is no file then); with 1 when the
    service refuses this Pod, or when the config could not be written: the job is then given to another Pod.
    """
    sys.exit(asyncio.run(_poll(url, token_file, jit_file, wait)))


async def _poll(url: str, token_file: Path, jit_file: Path, wait: float) -> int:
    import httpx2

    from paddock.base import logs
    from paddock.base.clock import SystemClock
    from paddock.base.rng import unseeded
    from paddock.base.secrets import Secret
    from paddock.clients.dispatch import Drained, HoldTime, PollClient, Refused, Served

    logs.set_up(level="info")

    def token() -> Secret:
        return Secret(token_file.read_text(encoding="utf-8").strip())

    try:
        clock = SystemClock()
        async with httpx2.AsyncClient() as http:
            client = PollClient(http, url, token, clock=clock, rng=unseeded(), hold=HoldTime(clock, wait))
            match await client.next():
                case Served(config=config, owner=owner, job_id=job_id):
                    hand_over(config, jit_file)
                    say(f"job {job_id} of {owner}: its config is handed over")
                case Drained(reason=reason):
                    say(f"no job any more: {reason}")
                case Refused(status=status, reason=reason):
                    say(f"paddock: the dispatch service refuses this Pod ({status}): {reason}", err=True)
                    return 1
    except OSError as error:
        say(f"paddock: {error.filename or jit_file}: {error.strerror}", err=True)
        return 1
    return 0


def hand_over(config: "Secret", path: Path) -> None:
    """The whole file or none, readable by the runner: it is another user in another container of this Pod."""
    draft = path.with_name(f".{path.name}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(config.reveal())
    draft.chmod(0o444)
    draft.rename(path)
