"""`paddock ssh`: a shell on a Mac with the fleet's key. Who opened it, and why, is an Event of the host before it opens."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.finding import read_mac
from paddock.cli.output import say

if TYPE_CHECKING:
    from paddock.base.secrets import Secret
    from paddock.views.finding import Mac

__all__ = ["Entrance", "arguments", "call", "command", "entrance_to", "key_files", "record", "who_types"]

_OPENED = "ShellOpened"


@click.command("ssh", context_settings={"ignore_unknown_options": True})
@click.argument("name", shell_complete=names_of("machines"))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option("--reason", required=True, help="Why; it is recorded as an event of the host, with your name.")
@click.option("--user", default="", help="The login user; without it the one that the operator uses.")
@click.option("--port", default=22, show_default=True, type=click.IntRange(1, 65535), help="The Mac's SSH port.")
@reach_flags
def command(name: str, words: tuple[str, ...], reason: str, user: str, port: int, reach: Reach) -> None:
    """Open a shell on the Mac NAME, or run a COMMAND there, with the fleet's key.

    The host's key must be the one that is pinned. The private key lies in a folder of yours while the shell is open.
    """
    run(_ssh(name, words, reason, user, port, reach))


async def _ssh(name: str, words: tuple[str, ...], reason: str, user: str, port: int, reach: Reach) -> int:
    async with connected(reach) as reached:
        entrance = await entrance_to(reached, name, user, port)
        # Recorded before it opens: a shell that nobody knows of is the thing to avoid, a record of one that failed is not.
        message = f"{await who_types(reached)} opens a shell as {entrance.login}: {reason}"
        await record(reached, entrance.mac, _OPENED, message)
    with key_files(entrance) as (key, hosts):
        return await call(arguments(key, hosts, entrance.target, port, words))


@dataclass(frozen=True, slots=True)
class Entrance:
    """The way into a Mac: its address, the login, the fleet's key, and the line of known_hosts with the pinned key."""

    mac: "Mac"
    address: str
    login: str
    private: "Secret"
    known: str

    @property
    def target(self) -> str:
        return f"{self.login}@{self.address}"


async def entrance_to(reached: Reached, name: str, user: str, port: int) -> Entrance:
    """The way into the Mac of that name. Problem where it has no address, no key, or shows another host key than the pinned one."""
    from paddock.hosts.bootstrap.credentials import HostLogins

    mac = await read_mac(reached, name)
    if mac.machine is None or mac.host is None or not mac.host.status.ip:
        raise Problem(f"{name} has no machine with an address: `paddock why host {name}` explains it")
    address = mac.host.status.ip
    private = await _fleet_key(reached, mac)
    stored = await HostLogins(reached.client).read(mac.machine)
    login = user or (stored.ssh_username if stored is not None else "m1")
    return Entrance(mac, address, login, private, await _known_host(address, port, mac.host.status.host_key))


@contextmanager
def key_files(entrance: Entrance) -> Iterator[tuple[Path, Path]]:
    """The private key and known_hosts as files for us alone, gone at the end."""
    with tempfile.TemporaryDirectory(prefix="paddock-ssh-") as folder:
        key, hosts = Path(folder) / "key", Path(folder) / "known_hosts"
        key.touch(mode=0o600)
        key.write_text(entrance.private.reveal(), encoding="utf-8")
        hosts.write_text(entrance.known, encoding="utf-8")
        yield key, hosts


async def call(typed: list[str]) -> int:
    """Run OpenSSH on this terminal; gives its exit code."""
    import asyncio

    try:
        # Every word is our own or the user's, and no shell of ours reads them.
        return await asyncio.to_thread(lambda: subprocess.run(typed, check=False).returncode)  # noqa: S603
    except FileNotFoundError:
        raise Problem("ssh is not installed here: install OpenSSH's client") from None


def arguments(key: Path, known: Path, target: str, port: int, words: tuple[str, ...]) -> list[str]:
    """The command line of OpenSSH: this key and no other, this host key and no other, nothing of the user's own set-up."""
    options = {
        "IdentityFile": key,
        "IdentitiesOnly": "yes",
        "IdentityAgent": "none",
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "ForwardAgent": "no",
        "LogLevel": "ERROR",
    }
    given = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return ["ssh", "-F", "none", *given, "-p", str(port), target, *(("--", *words) if words else ())]


async def _fleet_key(reached: Reached, mac: "Mac") -> "Secret":
    from paddock.base.secrets import Secret
    from paddock.hosts.bootstrap.fleet_bootstrapper import key_name
    from paddock.hosts.bootstrap.fleet_key import PRIVATE, secret_name
    from paddock.kube.builtin import SecretObject
    from paddock.kube.errors import NotFoundError

    assert mac.machine is not None
    name, namespace = secret_name(key_name(mac.machine)), mac.machine.metadata.namespace
    try:
        found = await reached.client.get(SecretObject, name, namespace)
        return Secret(found.data[PRIVATE].decode())
    except (NotFoundError, KeyError):
        raise Problem(f"the fleet's key is not in Secret {namespace}/{name}: has its operator run here?") from None


async def _known_host(address: str, port: int, pinned: str) -> str:
    """A line of known_hosts with the key that the host shows, if it is the pinned one."""
    import asyncio

    import asyncssh

    try:
        async with asyncio.timeout(15):
            shown = await asyncssh.get_server_host_key(address, port)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        raise Problem(f"{address}:{port} does not answer ({error or 'no answer in 15 s'})") from error
    if shown is None or not pinned or shown.get_fingerprint("sha256") != pinned:
        raise Problem(
            f"{address} shows another key than the one that is pinned ({pinned or 'none is'}): it was reinstalled, or it "
            "is not that Mac; docs/operating.md says how to vouch for it"
        )
    return f"[{address}]:{port} {shown.export_public_key('openssh').decode().strip()}\n{address} {shown.export_public_key('openssh').decode().strip()}\n"


async def who_types(reached: Reached) -> str:
    """Who types this, by the API server's word and not by our own."""
    from paddock.kube.resource import Resource

    reviews = Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", namespaced=False)
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    answer = await reached.client.create(body, reviews)
    return answer["status"]["userInfo"]["username"]


async def record(reached: Reached, mac: "Mac", reason: str, message: str) -> None:
    """An Event of the host that says who did what, and why."""
    from paddock.base.clock import SystemClock
    from paddock.base.rng import kube_suffix, unseeded
    from paddock.kube.builtin import Event, ObjectReference
    from paddock.kube.objects import ObjectMeta

    assert mac.host is not None
    meta, resource, now = mac.host.metadata, mac.host.RESOURCE, SystemClock().now()
    event = Event(
        metadata=ObjectMeta(name=f"{meta.name}.ssh-{kube_suffix(unseeded(), 8)}", namespace=meta.namespace),
        involved_object=ObjectReference(
            api_version=resource.api_version, kind=resource.kind, namespace=meta.namespace, name=meta.name, uid=meta.uid
        ),
        reason=reason,
        message=message,
        type="Normal",
        count=1,
        first_timestamp=now,
        last_timestamp=now,
        reporting_component="paddock-ssh",
    )
    await reached.client.create(event)
    say(f"recorded: {message}", err=True)
