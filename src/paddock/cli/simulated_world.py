"""`paddock simulated-world`: the world of `paddock up --simulate`, which starts it; nobody types this."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli.output import say

if TYPE_CHECKING:
    from paddock.simulator.agents import AgentCommand

__all__ = ["agent_command", "command"]


@click.command("simulated-world", hidden=True)
@click.option("--data", required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--hosts", required=True, type=int)
@click.option("--speed", required=True, type=float)
@click.option("--jobs", required=True, type=float)
@click.option("--linger", required=True, type=float)
@click.option("--seed", type=int)
def command(**flags: Any) -> None:
    """Be the world that `paddock up --simulate` works on, until told to stop or forgotten."""
    from paddock.base import logs

    os.umask(0o077)  # its files hold keys, and the data folder lets others pass through
    logs.set_up(level="info", json=True, stream=_log(flags["data"]))
    sys.exit(asyncio.run(_run(flags)))


def _log(data: Path) -> Any:
    from paddock.node.logs import RotatingLog
    from paddock.simulator.world.folder import WorldFolder

    folder = WorldFolder(data)
    folder.make()
    return RotatingLog(folder.log, largest=4 * 1024 * 1024)


def agent_command(arguments: Sequence[str]) -> "AgentCommand":
    """The arguments of a Mac's job as the shipped command reads them."""
    from paddock.cli.node_agent import agent_flags, agent_settings
    from paddock.simulator.agents import AgentCommand

    flags = agent_flags(arguments)
    return AgentCommand(str(flags["kubeconfig"]), agent_settings(flags))


async def _run(flags: dict[str, Any]) -> int:
    from paddock.base.clock import SystemClock
    from paddock.base.logs import get_logger
    from paddock.base.rng import unseeded
    from paddock.cli.long_running import when_told_to_stop
    from paddock.simulator.world.folder import WorldFolder, WorldRunningError
    from paddock.simulator.world.messages import WorldOptions
    from paddock.simulator.world.world import World

    log = get_logger("simulated world")
    folder = WorldFolder(flags["data"])
    options = WorldOptions(
        hosts=flags["hosts"], speed=flags["speed"], jobs=flags["jobs"], seed=flags["seed"], linger=flags["linger"]
    )
    try:
        with folder.held() as sockets:
            world = World(folder, options, agent_command, clock=SystemClock(), rng=unseeded())
            when_told_to_stop(world.stop)
            log.info("the simulated world begins", hosts=options.hosts, speed=options.speed)
            why = await world.run(sockets)
            log.info("the simulated world ends", why=why)
    except WorldRunningError as error:
        say(f"paddock: {error}", err=True)
        return 1
    return 0
