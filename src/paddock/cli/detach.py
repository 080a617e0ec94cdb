"""`paddock detach`: take a machine off its host without anything being done to the host, in the only safe order.

Pause, clear, delete. Without the pause first, the operator sees a machine without a host between the second and the third
step, and claims it another one.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from paddock.base.clock import Clock
    from paddock.hosts.api import ScalewayAppleSiliconHost as Host
    from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
    from paddock.kube.client import Client
    from paddock.kube.objects import OwnerReference

__all__ = ["Detachment", "command", "detach", "plan"]


class DetachError(Exception):
    """The machine cannot be detached: the message says why, and what to do instead."""


@dataclass(frozen=True, slots=True)
class Detachment:
    """What will be done, and to what. `owner` is the Cluster API Machine that is deleted instead of ours."""

    machine: "Machine"
    host: "Host | None"
    owner: "OwnerReference | None"
    steps: tuple[str, ...]
    afterwards: tuple[str, ...]


@click.command("detach")
@click.argument("name")
@click.option("--namespace", "-n", default="default", show_default=True, help="Where the machine is.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to wait until the operator has let the machine go.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The cluster; without it $KUBECONFIG, then the cluster this runs in, then ~/.kube/config.",
)
def command(name: str, namespace: str, yes: bool, timeout: float, kubeconfig: Path | None) -> None:
    """Delete the machine NAME without releasing its host.

    The host is neither renamed nor wiped nor rebooted. Use it to undo a duplicate claim, or to keep a broken host for
    a closer look. It pauses the machine, clears what it says about its host, and deletes it.
    """
    sys.exit(asyncio.run(_detach(name, namespace, yes, timeout, kubeconfig)))


async def _detach(name: str, namespace: str, yes: bool, timeout: float, kubeconfig: Path | None) -> int:  # noqa: ASYNC109
    from paddock.base.clock import SystemClock
    from paddock.kube import config
    from paddock.kube.client import Client
    from paddock.kube.errors import KubeError

    try:
        async with Client(config.load(kubeconfig)) as client:
            intended = await plan(client, name, namespace)
            click.echo(f"To detach machine {namespace}/{name}:")
            for number, step in enumerate(intended.steps, 1):
                click.echo(f"  {number}. {step}")
            for line in intended.afterwards:
                click.echo(f"  {line}")
            if not yes and not click.confirm("Go on?"):
                click.echo("Nothing was changed.")
                return 1
            return 0 if await detach(client, intended, SystemClock(), timeout, click.echo) else 1
    except (DetachError, KubeError) as error:
        click.echo(f"paddock: {error}", err=True)
        return 1


async def plan(client: "Client", name: str, namespace: str) -> Detachment:
    """Read everything that matters and say what would be done. Changes nothing."""
    from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.hosts.cluster_api import PAUSED, machine_owner
    from paddock.kube.errors import NotFoundError

    try:
        machine = await client.get(ScalewayAppleSiliconMachine, name, namespace)
    except NotFoundError:
        raise DetachError(f"there is no machine {namespace}/{name}; `kubectl get samm -A` lists them") from None
    if machine.metadata.deletion_timestamp is not None:
        raise DetachError(
            f"machine {namespace}/{name} is being deleted already, and its host is on its way to the pool: "
            "it is too late to keep the host"
        )
    status = machine.status
    hosts = (await client.list(ScalewayAppleSiliconHost)).items
    known = {status.server_id, status.claiming, status.host_name} - {""}
    host = next((host for host in hosts if {host.spec.server_id, host.metadata.name} & known), None)
    owner = machine_owner(machine)
    deleted = f"Machine {owner.name}, which takes this one with it" if owner is not None else f"machine {name}"
    steps = (
        f"pause it (annotation {PAUSED}), so that it does not claim another host meanwhile"
        + (" (it is paused already)" if PAUSED in machine.metadata.annotations else ""),
        f"clear its server ({status.server_id or 'it has none'}) and its provider id, so that nothing is released",
        f"delete {deleted}",
    )
    return Detachment(machine, host, owner, steps, _afterwards(machine, host))


def _afterwards(machine: "Machine", host: "Host | None") -> tuple[str, ...]:
    if host is None:
        return ("It has no host that the inventory knows; only the machine goes.",)
    shown, claim = host.status.cloud_name, host.spec.claim
    whose = f"Host {host.metadata.name} ({shown}) is not touched."
    if claim is not None and claim.machine_uid != machine.metadata.uid:
        return (whose, f"It stays with machine {claim.machine_namespace}/{claim.machine_name}, which claims it.")
    lines = [
        whose,
        "It belongs to nobody then: it bills, the sweep reports it, and reclaims it where the operator has",
        "--orphan-reclaim-claim-name-prefix. To keep it out of every pool, set its spec.quarantine.",
    ]
    fleet = next((ref for ref in machine.metadata.owner_references if ref.kind == "MacFleet"), None)
    if fleet is not None:
        lines.append(f"MacFleet {fleet.name} makes another machine in its place; scale it down first to prevent that.")
    return tuple(lines)


async def detach(
    client: "Client",
    intended: Detachment,
    clock: "Clock",
    timeout: float,  # noqa: ASYNC109 - how long to wait for somebody else, said to the user
    say: Callable[[str], object],
) -> bool:
    """Pause, clear, delete; every step may be repeated, so that an interrupted detachment is simply run again.

    Died after the pause: the machine is silent, its host is still its own. Died after the clearing: it is silent and has
    no host; deleting it releases nothing. True when the machine is gone before the timeout.
    """
    from paddock.hosts.api import ScalewayAppleSiliconMachine
    from paddock.hosts.cluster_api import PAUSED, machine_resource
    from paddock.kube.errors import NotFoundError

    kind, meta = ScalewayAppleSiliconMachine, intended.machine.metadata
    annotated = {"metadata": {"uid": meta.uid, "annotations": {PAUSED: "true"}}}
    await client.merge_patch(kind, meta.name, annotated, namespace=meta.namespace)
    say(f"paused {meta.name}")
    cleared = {"serverID": None, "hostName": None, "claiming": None}
    await client.merge_patch(
        kind,
        meta.name,
        {"metadata": {"uid": meta.uid}, "status": cleared},
        namespace=meta.namespace,
        subresource="status",
    )
    without = {"metadata": {"uid": meta.uid}, "spec": {"providerID": None}}
    await client.merge_patch(kind, meta.name, without, namespace=meta.namespace)
    say(f"cleared its server {intended.machine.status.server_id or '(none)'}")
    if intended.owner is not None:
        version = intended.owner.api_version.rpartition("/")[2]
        await client.delete(machine_resource(version), intended.owner.name, meta.namespace, uid=intended.owner.uid)
        say(f"deleted Machine {intended.owner.name}")
    else:
        with suppress(NotFoundError):
            await client.delete(kind, meta.name, meta.namespace, uid=meta.uid)
        say(f"deleted machine {meta.name}")
    if not await _gone(client, intended, clock, timeout):
        say(
            f"it is still there after {timeout:.0f} s: its finalizer goes when the operator sees it; is the operator running?"
        )
        return False
    say(
        "done; no host was touched"
        if intended.host is None
        else f"done; host {intended.host.metadata.name} ({intended.host.status.cloud_name}) was not touched"
    )
    return True


async def _gone(client: "Client", intended: Detachment, clock: "Clock", timeout: float) -> bool:  # noqa: ASYNC109
    from paddock.hosts.api import ScalewayAppleSiliconMachine
    from paddock.kube.errors import NotFoundError

    meta, deadline = intended.machine.metadata, clock.monotonic() + timeout
    while True:
        try:
            now = await client.get(ScalewayAppleSiliconMachine, meta.name, meta.namespace)
        except NotFoundError:
            return True
        if now.metadata.uid != meta.uid:
            return True
        if clock.monotonic() >= deadline:
            return False
        await clock.sleep(0.5)
