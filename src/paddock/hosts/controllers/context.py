"""What every stage of a machine's life works with, and how it writes down what it did."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeVar

from msgspec.structs import replace
from prometheus_client import Counter

from paddock.base.clock import Clock, rfc3339
from paddock.base.secrets import Secret, new_key
from paddock.base.tasks import end as end_task
from paddock.clients.scaleway import (
    Cloud,
    Credentials,
    Gone,
    NotFound,
    OSNotPublished,
    PermissionDenied,
    Server,
    StillThere,
    Unknown,
)
from paddock.hosts.api import (
    BOOTSTRAPPED,
    HostClaim,
    MachineStatus,
    Reinstall,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
    ScalewayAppleSiliconRemediation,
)
from paddock.hosts.bootstrap.contract import BootstrapFailed, Bootstrapper, ReportStep
from paddock.hosts.bootstrap.credentials import HostLogins
from paddock.hosts.breaker import Halt, fleet_halt, same_fleet
from paddock.hosts.cluster_api import BLOCK_MOVE, BLOCK_MOVE_IS_OURS, lost_in_a_move, machine_owner
from paddock.hosts.controllers.catalogue import Catalogue
from paddock.hosts.disruption import WorkLedger
from paddock.hosts.fenced_cloud import FencedCloud
from paddock.hosts.mac_key import ended
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.conditions import set_condition
from paddock.kube.controller import step_aside
from paddock.kube.difference import merge_difference
from paddock.kube.events import EventRecorder
from paddock.kube.objects import Condition
from paddock.kube.reader import CachedReader, FreshReader
from paddock.kube.status_writes import write_status

__all__ = [
    "GoneError",
    "ReconcileContext",
    "condition",
    "ready",
    "without_key",
]

T = TypeVar("T")
EventType = Literal["Normal", "Warning"]
_LOOK_EVERY = 2.0


class GoneError(Exception):
    """The machine does not exist any more: there is nothing left to reconcile."""


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """The machine controller's dependencies."""

    client: Client
    fresh: FreshReader
    logins: HostLogins
    cloud: Cloud
    fenced_cloud: FencedCloud
    hosts: CachedReader[ScalewayAppleSiliconHost]
    machines: CachedReader[ScalewayAppleSiliconMachine]
    remediations: CachedReader[ScalewayAppleSiliconRemediation]
    recorder: EventRecorder
    bootstrapper: Bootstrapper
    catalogue: Catalogue
    clock: Clock
    settings: HostSettings
    live_kills: Counter
    new_key: Callable[[], Secret] = new_key
    """Draws a Mac's key for the gateway."""
    work: WorkLedger | None = None
    zone_problems: dict[str, str] = field(default_factory=dict)
    """Zone → why its last list proves nothing; the inventory writes it, for people."""

    def say(self, machine: ScalewayAppleSiliconMachine, type_: EventType, reason: str, message: str) -> None:
        """An event about a machine. The same text is in its condition."""
        self.recorder.record(machine, type_, reason, message)

    async def save(
        self, machine: ScalewayAppleSiliconMachine, status: MachineStatus, *, guarded: bool = False
    ) -> ScalewayAppleSiliconMachine:
        """As `write_status`; GoneError when the machine was deleted or replaced meanwhile."""
        saved = await write_status(self.client, machine, status, guarded=guarded)
        if saved is None:
            raise GoneError(f"machine {machine.metadata.name} is gone")
        return saved

    async def patch(self, machine: ScalewayAppleSiliconMachine, patch: dict[str, Any]) -> ScalewayAppleSiliconMachine:
        """Patch a machine's metadata or spec under the version that was read."""
        meta = machine.metadata
        guarded = {**patch, "metadata": {**patch.get("metadata", {}), "resourceVersion": meta.resource_version}}
        return await self.client.merge_patch(ScalewayAppleSiliconMachine, meta.name, guarded, namespace=meta.namespace)

    async def patch_host(self, host: ScalewayAppleSiliconHost, spec: dict[str, Any]) -> ScalewayAppleSiliconHost:
        """Patch a Host's spec under the version that was judged: the compare-and-swap that the cloud lacks."""
        patch = {"metadata": {"resourceVersion": host.metadata.resource_version}, "spec": spec}
        return await self.client.merge_patch(
            ScalewayAppleSiliconHost, host.metadata.name, patch, namespace=host.metadata.namespace
        )

    async def write_claim(
        self, machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost, epoch: int
    ) -> None:
        """Say on the Host whose it is; ConflictError when anything about it changed since it was judged."""
        meta, before = machine.metadata, host.spec.claim
        claim = HostClaim(
            machine_namespace=meta.namespace,
            machine_name=meta.name,
            machine_uid=meta.uid,
            epoch=epoch,
            since=self.clock.now().replace(microsecond=0),
            # No key of the claim before is good for this one; the number stays, for the disk may be the same.
            key_number=ended(before).key_number if before is not None else 0,
        )
        await self.patch_host(host, {"claim": merge_difference(before, claim), "epoch": epoch})

    async def end_key(self, host: ScalewayAppleSiliconHost) -> ScalewayAppleSiliconHost:
        """No key counts any more for this Mac, whose disk is gone; ConflictError when anything about the Host changed since."""
        change = without_key(host)
        return await self.patch_host(host, change) if change else host

    async def free_host(self, host: ScalewayAppleSiliconHost) -> None:
        """Make a Host nobody's: claimable when nothing that was sent before can arrive any more.

        Whose it was is kept: a late call of ours may still give the host that name, and no other name of a machine is ours.
        """
        spec = {"claim": None, "release": None, "notBefore": rfc3339(self.clock.now() + self.settings.settle)}
        if host.spec.claim is not None:
            spec["lastMachine"] = host.spec.claim.machine_name
        await self.patch_host(host, spec)

    async def look(self, host: ScalewayAppleSiliconHost) -> Server | Gone | Unknown:
        """The server as a GET shows it now; whether it is gone where the cloud will not show it."""
        zone, server_id = host.spec.zone, host.spec.server_id
        try:
            return (await self.cloud.get_server(zone, server_id)).server
        except (NotFound, PermissionDenied):
            found = await self.cloud.is_gone(zone, server_id)
            return found.server if isinstance(found, StillThere) else found

    async def image_of(self, host: ScalewayAppleSiliconHost, family: str) -> str | None:
        """The newest image of the family; None, which is the type's default, where there is none any more."""
        if not family:
            return None
        try:
            image = await self.cloud.newest_image(host.spec.zone, family, server_type=host.status.type or None)
        except OSNotPublished as problem:
            said = f"{problem}; the type's default image is used"
            self.recorder.record(host, "Warning", "OSPinUnavailable", said)
            return None
        return image.id

    async def count(self, host: ScalewayAppleSiliconHost, **more: int) -> None:
        """Add to a Host's history. It is told for people: a lost count is not worth failing for."""
        fresh = await self.fresh_host(host.metadata.name)
        if fresh is None:
            return
        history = fresh.status.history
        counted = replace(history, **{name: getattr(history, name) + amount for name, amount in more.items()})
        await self.client.merge_patch(
            ScalewayAppleSiliconHost,
            host.metadata.name,
            {"status": {"history": merge_difference(history, counted)}},
            namespace=host.metadata.namespace,
            subresource="status",
        )

    async def note_bootstrapped(
        self, machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost, config: str
    ) -> None:
        """Write on the machine itself what its status will say, because no move and no backup takes a status along.

        Before the status: died in between, the bootstrap is repeated, which its condition asks for.
        """
        meta = machine.metadata
        noted = f"{host.spec.server_id}/{config}"
        if meta.annotations.get(BOOTSTRAPPED) != noted:
            patch = {"metadata": {"uid": meta.uid, "annotations": {BOOTSTRAPPED: noted}}}
            await self.client.merge_patch(ScalewayAppleSiliconMachine, meta.name, patch, namespace=meta.namespace)

    async def begin_reinstall(self, machine: ScalewayAppleSiliconMachine, message: str) -> None:
        """Record a reinstall in place: whoever leads finishes it, behind the gate."""
        now = self.clock.now()
        self.say(machine, "Warning", "Reinstalling", message)
        status = replace(machine.status, reinstall=Reinstall(since=now.replace(microsecond=0), message=message))
        await self.save(machine, ready(status, False, "Reinstalling", message, now), guarded=True)

    async def block_move(self, machine: ScalewayAppleSiliconMachine) -> ScalewayAppleSiliconMachine:
        """Keep clusterctl from moving a machine while something is under way that a move would lose; repeatable.

        Before its first effect: died after it, a mark without a reason goes in the next pass.
        """
        if machine_owner(machine) is None or BLOCK_MOVE in machine.metadata.annotations:
            return machine
        return await self.patch(machine, {"metadata": {"annotations": {BLOCK_MOVE: BLOCK_MOVE_IS_OURS}}})

    async def allow_move(self, machine: ScalewayAppleSiliconMachine) -> ScalewayAppleSiliconMachine:
        """Take our own mark back once nothing would be lost."""
        ours = machine.metadata.annotations.get(BLOCK_MOVE) == BLOCK_MOVE_IS_OURS
        if not ours or lost_in_a_move(machine):
            return machine
        return await self.patch(machine, {"metadata": {"annotations": {BLOCK_MOVE: None}}})

    def halt_of(self, machine: ScalewayAppleSiliconMachine) -> Halt | None:
        """Whether the machine's fleet is halted, by the machine as it is given and the others as the cache has them."""
        fleet = same_fleet(machine, self.machines.list())
        return fleet_halt(fleet, self.bootstrapper.desired_hash(machine), self.clock.now())

    async def on_host(
        self,
        run: Callable[
            [ScalewayAppleSiliconMachine, ScalewayAppleSiliconHost, Credentials, ReportStep],
            Awaitable[T | BootstrapFailed],
        ],
        machine: ScalewayAppleSiliconMachine,
        host: ScalewayAppleSiliconHost,
        credentials: Credentials,
        progress: ReportStep,
        *,
        although_deleted: bool = False,
    ) -> T | BootstrapFailed:
        """Work on a Mac, which may take minutes when it does not answer: beside the workers, so that it holds up nobody.

        A machine that is deleted meanwhile is not kept waiting: the work is cut off, as it is when this process dies, and
        every step of it is made for that. `although_deleted` is for what its deletion needs.
        """
        async with step_aside():
            work = asyncio.ensure_future(run(machine, host, credentials, progress))
            try:
                while not work.done():
                    timer = asyncio.ensure_future(self.clock.sleep(_LOOK_EVERY))
                    try:
                        await asyncio.wait([work, timer], return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        await end_task(timer)
                    if not (work.done() or although_deleted) and self._is_deleted(machine):
                        return BootstrapFailed("", "its machine was deleted meanwhile", blames_host=False)
                return work.result()
            finally:
                await end_task(work)

    def _is_deleted(self, machine: ScalewayAppleSiliconMachine) -> bool:
        seen = self.machines.get(machine.metadata.name, machine.metadata.namespace)
        return seen is not None and seen.metadata.deletion_timestamp is not None

    async def fresh_host(self, name: str) -> ScalewayAppleSiliconHost | None:
        return await self.fresh.get(ScalewayAppleSiliconHost, name, self.settings.namespace)

    async def again(self, machine: ScalewayAppleSiliconMachine) -> ScalewayAppleSiliconMachine:
        """The machine as it is now; GoneError when it was deleted or replaced meanwhile."""
        meta = machine.metadata
        now = await self.fresh.get(ScalewayAppleSiliconMachine, meta.name, meta.namespace)
        if now is None or now.metadata.uid != meta.uid:
            raise GoneError(f"machine {meta.name} is gone")
        return now


def without_key(host: ScalewayAppleSiliconHost) -> dict[str, Any]:
    """The change of a Host's spec that ends its claim's keys; empty where there are none."""
    claim = host.spec.claim
    change = merge_difference(claim, ended(claim)) if claim is not None else {}
    return {"claim": change} if change else {}


def condition(
    status: MachineStatus, kind: str, verdict: bool, reason: str, message: str, now: datetime, *, severity: str = ""
) -> MachineStatus:
    """The status with one condition set."""
    made = Condition(
        type=kind, status="True" if verdict else "False", reason=reason, message=message, severity=severity
    )
    return replace(status, conditions=set_condition(status.conditions, made, now))


def ready(status: MachineStatus, verdict: bool, reason: str, message: str, now: datetime) -> MachineStatus:
    """The status with its one-sentence summary: what `kubectl get`, Cluster API and the page show."""
    return replace(condition(status, "Ready", verdict, reason, message, now), ready=verdict)
