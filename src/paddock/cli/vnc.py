"""`paddock vnc`: the screen of a Mac or of a runner's VM, through an SSH tunnel. Who opened it, and why, is an Event of the host."""

import subprocess
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.output import say
from paddock.cli.ssh import arguments, call, entrance_to, key_files, record, who_types

if TYPE_CHECKING:
    from paddock.kube.builtin import Pod

__all__ = ["Screen", "command", "screen_of", "tunnel"]

_OPENED = "ScreenOpened"
_SCREEN_SHARING = 5900
_TART = "/usr/local/bin/tart"


@click.command("vnc")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--reason", required=True, help="Why; it is recorded as an event of the host, with your name.")
@click.option(
    "--local-port",
    default=5901,
    show_default=True,
    type=click.IntRange(1, 65535),
    help="Where the viewer connects, on loopback.",
)
@click.option("--user", default="", help="The login user; without it the one that the operator uses.")
@click.option("--port", default=22, show_default=True, type=click.IntRange(1, 65535), help="The Mac's SSH port.")
@reach_flags
def command(name: str, reason: str, local_port: int, user: str, port: int, reach: Reach) -> None:
    """Open a tunnel to the screen of the Mac NAME, or of the VM of the runner Pod NAME, until Ctrl-C.

    A viewer then connects to vnc://127.0.0.1:5901. Screen Sharing must be on in the Mac or in the VM's image; its login is
    its own. The host's key must be the one that is pinned.
    """
    run(_vnc(name, reason, local_port, user, port, reach))


@dataclass(frozen=True, slots=True)
class Screen:
    """Whose screen is looked at: a Mac's own, or that of a VM on it."""

    mac: str
    pod: str = ""
    vm: str = ""

    @property
    def what(self) -> str:
        return f"the VM of Pod {self.pod}" if self.vm else "the Mac itself"


def screen_of(name: str, pods: "list[Pod]") -> Screen:
    """A Pod's name means its VM, any other name a Mac. Problem for a Pod that has no VM. Pure."""
    from paddock.node.names import vm_name
    from paddock.runners.api import POOL_LABEL
    from paddock.runners.pools.pod_predicates import os_of

    wanted = name.removeprefix("pod/")
    pod = next((pod for pod in pods if pod.metadata.name == wanted), None)
    if pod is None:
        if name != wanted:
            raise Problem(f"there is no runner Pod called {wanted}: `paddock get pods` lists them")
        return Screen(name)
    if not pod.spec.node_name or pod.status.phase != "Running":
        raise Problem(
            f"Pod {wanted} has no VM now: it is {pod.status.phase or 'new'}; `paddock why pod {wanted}` explains it"
        )
    if os_of(pod) != "darwin":
        raise Problem(f"Pod {wanted} runs on Linux and has no screen")
    return Screen(pod.spec.node_name, wanted, vm_name(pod.metadata.labels.get(POOL_LABEL, ""), pod.metadata.uid))


def tunnel(typed: list[str], local_port: int, to: str) -> list[str]:
    """The command line of OpenSSH for the tunnel alone: no shell, loopback only, an end where the port is taken. Pure."""
    *options, target = typed
    forward = f"127.0.0.1:{local_port}:{to}:{_SCREEN_SHARING}"
    return [
        *options,
        "-N",
        "-T",
        "-o",
        "ExitOnForwardFailure=yes",
        "-o",
        "ServerAliveInterval=15",
        "-L",
        forward,
        target,
    ]


async def _vnc(name: str, reason: str, local_port: int, user: str, port: int, reach: Reach) -> int:
    async with connected(reach) as reached:
        screen = screen_of(name, await _runner_pods(reached))
        entrance = await entrance_to(reached, screen.mac, user, port)
        # Recorded before it opens, as with `paddock ssh`: a look that nobody knows of is the thing to avoid.
        message = f"{await who_types(reached)} opens the screen of {screen.what} as {entrance.login}: {reason}"
        await record(reached, entrance.mac, _OPENED, message)
    with key_files(entrance) as (key, hosts):
        to = await _address(key, hosts, entrance.target, port, screen.vm) if screen.vm else "127.0.0.1"
        say(f"connect a viewer to vnc://127.0.0.1:{local_port}; Ctrl-C closes the tunnel", err=True)
        return await call(tunnel(arguments(key, hosts, entrance.target, port, ()), local_port, to))


async def _runner_pods(reached: Reached) -> "list[Pod]":
    from paddock.kube.builtin import Pod
    from paddock.runners.api import RUNNER_LABEL

    return list((await reached.client.list(Pod, label_selector=f"{RUNNER_LABEL}=true")).items)


async def _address(key: Path, hosts: Path, target: str, port: int, vm: str) -> str:
    """Where the VM is on the Mac's own network, as Tart says there."""
    import asyncio

    typed = arguments(key, hosts, target, port, (_TART, "ip", vm))
    try:
        # Every word is our own, and no shell of ours reads them.
        asked = await asyncio.to_thread(
            lambda: subprocess.run(typed, check=False, capture_output=True, text=True, timeout=30)  # noqa: S603
        )
        return str(ip_address(asked.stdout.strip()))
    except FileNotFoundError:
        raise Problem("ssh is not installed here: install OpenSSH's client") from None
    except (ValueError, subprocess.TimeoutExpired):
        raise Problem(f"Tart on the Mac does not say where VM {vm} is: it may just have ended") from None
