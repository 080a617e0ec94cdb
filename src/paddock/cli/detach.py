"""`paddock detach`: take a machine off its host without anything being done to the host, in the only safe order.

Pause, clear, delete. Without the pause first, the operator sees a machine without a host between the second and the third
step, and claims it another one.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from paddock.cli.completion_values import names_of
from paddock.cli.connections import Problem, Reach, connected, reach_flags, run
from paddock.cli.exit_codes import DECLINED, FAILED
from paddock.cli.output import confirmed, dry_run_flag, say
from paddock.cli.progress import showing

if TYPE_CHECKING:
    from paddock.base.clock import Clock
    from paddock.hosts.api import ScalewayAppleSiliconHost as Host
    from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
    from paddock.kube.client import Client
    from paddock.kube.objects import OwnerReference

__all__ = ["Detachment", "command", "detach", "plan"]


@dataclass(frozen=True, slots=True)
class Detachment:
    """What will be done, and to what. `owner` is the Cluster API Machine that is deleted instead of ours."""

    machine: "Machine"
    host: "Host | None"
    owner: "OwnerReference | None"
    steps: tuple[str, ...]
    afterwards: tuple[str, ...]


@click.command("detach")
@click.argument("name", shell_complete=names_of("machines"))
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    type=click.FloatRange(0),
    help="Seconds to wait until the operator has let the machine go.",
)
@dry_run_flag
@reach_flags
def command(name: str, yes: bool, timeout: float, dry_run: bool, reach: Reach) -> None:
    """Delete the machine NAME without releasing its host.

    The host is neither renamed nor wiped nor rebooted; only an order that is not delivered yet is ended. Use it to undo a duplicate claim, or to keep a broken host for
    a closer look. It pauses the machine, clears what it says about its host, and deletes it.
    """
    run(_detach(name, reach, yes=yes, timeout=timeout, dry_run=dry_run))


async def _detach(name: str, reach: Reach, *, yes: bool, timeout: float, dry_run: bool) -> int:
    from paddock.base.clock import SystemClock

    async with connected(reach) as reached:
        async with showing(f"looking at machine {name}"):
            intended = await plan(reached.client, name, reached.namespace)
        say(f"To detach machine {reached.namespace}/{name}:")
        if not confirmed(intended.steps, "Go on?", yes=yes, afterwards=intended.afterwards, dry_run=dry_run):
            return 0 if dry_run else DECLINED
        return 0 if await detach(reached.client, intended, SystemClock(), timeout, say) else FAILED


async def plan(client: "Client", name: str, namespace: str) -> Detachment:
    """Read everything that matters and say what would be done. Changes nothing."""
    from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
    from paddock.hosts.cluster_api import PAUSED, machine_owner
    from paddock.kube.errors import NotFoundError

    try:
        machine = await client.get(ScalewayAppleSiliconMachine, name, namespace)
    except NotFoundError:
        raise Problem(
            f"there is no machine {namespace}/{name}: `paddock get machines` lists them; give its namespace with -n"
        ) from None
    status = machine.status
    bound = {status.server_id, status.claiming, status.host_name, machine.spec.provider_id} - {""}
    # One that is paused and names no host was detached before: the operator has not let it go yet, and nothing is released.
    if machine.metadata.deletion_timestamp is not None and (bound or PAUSED not in machine.metadata.annotations):
        raise Problem(
            f"machine {namespace}/{name} is being deleted already, and its host is on its way to the pool: "
            "it is too late to keep the host"
        )
    hosts = (await client.list(ScalewayAppleSiliconHost)).items
    host = next((host for host in hosts if {host.spec.server_id, host.metadata.name} & bound), None)
    if host is None and status.ordering:
        host = next((host for host in hosts if host.status.cloud_name == status.ordering), None)
    if host is None:  # cleared before, by a detachment that was interrupted: the claim still says whose it was
        uid = machine.metadata.uid
        host = next(
            (host for host in hosts if host.spec.claim is not None and host.spec.claim.machine_uid == uid), None
        )
    owner = machine_owner(machine)
    deleted = f"Machine {owner.name}, which takes this one with it" if owner is not None else f"machine {name}"
    steps = (
        f"pause it (annotation {PAUSED}), so that it does not claim another host meanwhile"
        + (" (it is paused already)" if PAUSED in machine.metadata.annotations else ""),
        f"clear its server ({status.server_id or 'it has none'}) and its provider id, so that nothing is released",
        f"delete {deleted}",
        *([f"end its order: {_ordered(machine)} is given back to the cloud for good"] if status.ordering else []),
    )
    return Detachment(machine, host, owner, steps, _afterwards(machine, host))


def _ordered(machine: "Machine") -> str:
    return f"the server that it ordered as {machine.status.ordering}, where the cloud has made it,"


def _afterwards(machine: "Machine", host: "Host | None") -> tuple[str, ...]:
    if machine.status.ordering:
        return ("No other machine would ever use what was ordered for this one.",)
    if host is None:
        return ("It has no host that the inventory knows; only the machine goes.",)
    shown, claim = host.status.cloud_name, host.spec.claim
    whose = f"Host {host.metadata.name} ({shown}) is not touched."
    if claim is not None and claim.machine_uid != machine.metadata.uid:
        return (whose, f"It stays with machine {claim.machine_namespace}/{claim.machine_name}, which claims it.")
    lines = [
        whose,
        "No machine owns it then: it bills, the sweep reports it, and reclaims it where the operator has",
        "--orphan-reclaim-claim-name-prefix. To keep it out of every pool, `paddock quarantine` it.",
    ]
    fleet = next((ref for ref in machine.metadata.owner_references if ref.kind == "MacFleet"), None)
    if fleet is not None:
        lines.append(f"MacFleet {fleet.name} makes another machine in its place; scale it down first to prevent that.")
    return tuple(lines)


async def detach(
    client: "Client",
    intended: Detachment,
    clock: "Clock",
    timeout: float,
    say: Callable[[str], object],
) -> bool:
    """Pause, clear, delete; every step may be repeated, so that an interrupted detachment is simply run again.

    Died after the pause: the machine is silent, its host is still its own. Died after the clearing: it is silent and has
    no host; deleting it releases nothing. True when the machine is gone before the timeout.
    """
    from paddock.base.explanation import span
    from paddock.hosts.api import ScalewayAppleSiliconMachine
    from paddock.hosts.cluster_api import PAUSED, machine_resource
    from paddock.kube.conditions import get_condition
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
        with suppress(NotFoundError):
            await client.delete(machine_resource(version), intended.owner.name, meta.namespace, uid=intended.owner.uid)
        say(f"deleted Machine {intended.owner.name}")
    else:
        with suppress(NotFoundError):
            await client.delete(kind, meta.name, meta.namespace, uid=meta.uid)
        say(f"deleted machine {meta.name}")
    async with showing("waiting for the operator to let the machine go", clock):
        left = await _left(client, intended, clock, timeout)
    if left is not None:
        drained = get_condition(left.status.conditions, "Drained")
        waits = drained.message if drained is not None and drained.status == "False" else ""
        why = waits or "its finalizer goes when the operator sees it; is the operator running?"
        say(f"it is still there after {span(timeout)}: {why}")
        return False
    say(
        f"done; {_ordered(intended.machine)} is given back by the operator"
        if intended.machine.status.ordering
        else "done; no host was touched"
        if intended.host is None
        else f"done; host {intended.host.metadata.name} ({intended.host.status.cloud_name}) was not touched"
    )
    return True


async def _left(client: "Client", intended: Detachment, clock: "Clock", timeout: float) -> "Machine | None":
    """The machine as it is at the timeout; None once it is gone."""
    from paddock.hosts.api import ScalewayAppleSiliconMachine
    from paddock.kube.errors import NotFoundError

    meta, deadline = intended.machine.metadata, clock.monotonic() + timeout
    while True:
        try:
            now = await client.get(ScalewayAppleSiliconMachine, meta.name, meta.namespace)
        except NotFoundError:
            return None
        if now.metadata.uid != meta.uid:
            return None
        if clock.monotonic() >= deadline:
            return now
        await clock.sleep(0.5)
