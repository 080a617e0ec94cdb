"""Getting a host: the claim, step by step, each one resumable. The order and its crash windows: docs/design."""

from datetime import datetime

from msgspec.structs import replace

from paddock.clients.scaleway import Gone, ScalewayError, Server, Unknown
from paddock.hosts.api import Address, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.claim import (
    BackOut,
    Bind,
    Candidate,
    ClaimStep,
    Forget,
    NoneFits,
    NotUsableYet,
    WriteClaim,
    already_claimed,
    choose,
    claim_step,
)
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.controllers.machine.order import Order
from paddock.hosts.names import Rename
from paddock.kube.controller import RequeueAfter
from paddock.kube.errors import ConflictError

__all__ = ["ClaimHost"]

Machine = ScalewayAppleSiliconMachine
_STEPS_AT_A_TIME = 24
_WHEN_NONE_FITS = 60.0
_WHEN_THE_CLOUD_FAILS = 30.0
_WHEN_NOT_USABLE = 10.0
_AT_THE_GATES = 0.1  # somebody deleted or paused the machine meanwhile: the next pass judges that before all else


class ClaimHost:
    """Brings a machine without a host to a bound one, or says why it waits."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._order = Order(context)
        # Hosts that machines of this process reach for now: the cache learns of it too late, and without this all
        # workers would reach for the same host. Only a hint: the claim on the Host decides.
        self._reaching: dict[str, str] = {}

    async def run(self, machine: Machine, pool_prefix: str, *, begin: bool = True) -> Machine | RequeueAfter:
        """As `_run`; what the machine reaches for is known to the others meanwhile.

        With `begin=False` only what is under way is brought to its end: the machine is bound, or reaches for nothing.
        """
        try:
            return await self._run(machine, pool_prefix, begin=begin)
        finally:
            self._reaching.pop(machine.metadata.uid, None)

    async def _run(self, machine: Machine, pool_prefix: str, *, begin: bool) -> Machine | RequeueAfter:
        """Take steps until the machine is bound, no host fits, or the cloud fails. Lost races only cost a step.

        A host that was given up is not reached for again in this run: the cache that offered it may be behind for a
        while, and offers it again at once.
        """
        refused: set[str] = set()
        if not begin and machine.status.ordering and not machine.status.claiming:
            found = await self._order.find(machine)
            if isinstance(found, RequeueAfter):
                return found
            machine = found
            if not machine.status.claiming:  # none was accepted: the next order is sent when it may begin
                return await self._context.save(machine, replace(machine.status, ordered_at=None), guarded=True)
        for _ in range(_STEPS_AT_A_TIME):
            if not begin and not machine.status.claiming:
                return machine
            reached_for = machine.status.claiming
            try:
                outcome = await self._step(machine, pool_prefix, refused)
            except ConflictError:
                machine = await self._context.again(machine)
                if machine.metadata.deletion_timestamp is not None or PAUSED in machine.metadata.annotations:
                    return RequeueAfter(_AT_THE_GATES)
                if machine.status.server_id:
                    return machine  # another leader bound it meanwhile: it must not reach for a second host
                continue
            except ScalewayError as error:
                return await self._cloud_failed(machine, str(error))
            if isinstance(outcome, RequeueAfter):
                return outcome
            machine = outcome
            if machine.status.server_id:
                return machine
            if reached_for and not machine.status.claiming:
                refused.add(reached_for)
        return RequeueAfter(1.0)

    async def _step(self, machine: Machine, pool_prefix: str, refused: set[str]) -> Machine | RequeueAfter:
        now = self._context.clock.now()
        if not machine.status.claiming:
            if machine.spec.source == "Order":
                return await self._order.run(machine)
            return await self._intend(machine, pool_prefix, refused, now)
        machine = await self._context.block_move(machine)
        host = await self._context.fresh_host(machine.status.claiming)
        step = claim_step(machine, host, None, pool_prefix, now)
        if step is None:
            assert host is not None
            server = await self._context.look(host)
            if isinstance(server, Unknown):
                return await self._cloud_failed(machine, server.reason)
            step = (
                # The claim stays: should the server come back, it is this machine's, and nobody else's to bill beside it.
                Forget("the server does not exist any more")
                if isinstance(server, Gone)
                else claim_step(machine, host, server, pool_prefix, now)
            )
        assert step is not None
        if isinstance(step, NotUsableYet):
            return await self._not_usable_yet(machine, step.reason, now)
        return await self._take(machine, host, step, now)

    async def _not_usable_yet(self, machine: Machine, reason: str, now: datetime) -> RequeueAfter:
        message = f"waits for host {machine.status.claiming} to become ready: {reason}"
        status = condition(machine.status, "Provisioned", False, "HostNotReady", message, now)
        await self._context.save(machine, ready(status, False, "HostNotReady", message, now))
        return RequeueAfter(_WHEN_NOT_USABLE)

    async def _intend(
        self, machine: Machine, pool_prefix: str, refused: set[str], now: datetime
    ) -> Machine | RequeueAfter:
        others = {
            other.status.claiming
            for other in self._context.machines.list()
            if other.status.claiming and other.metadata.uid != machine.metadata.uid
        }
        others |= {name for uid, name in self._reaching.items() if uid != machine.metadata.uid}
        hosts = self._context.hosts.list()
        choice = already_claimed(machine, [host for host in hosts if host.metadata.name not in refused]) or choose(
            machine.spec, pool_prefix, hosts, frozenset(others | refused), now
        )
        match choice:
            case Candidate(host):
                self._reaching[machine.metadata.uid] = host.metadata.name
                status = replace(machine.status, claiming=host.metadata.name, phase="Adopting")
                status = condition(status, "Provisioned", False, "Claiming", f"claims host {host.metadata.name}", now)
                status = ready(status, False, "Claiming", f"claims host {host.metadata.name}", now)
                return await self._context.save(machine, status, guarded=True)
            case NoneFits(message, coming):
                if (unlisted := self._context.zone_problems.get(machine.spec.zone)) is not None:
                    # What the zone has is not known, so nothing may be said of its pool, least of all to order a Mac.
                    said = f"{unlisted}; looked at again in {_WHEN_NONE_FITS:.0f} s"
                    status = replace(machine.status, phase="Pending")
                    status = condition(status, "Provisioned", False, "ZoneNotListed", said, now, severity="Warning")
                    await self._context.save(machine, ready(status, False, "ZoneNotListed", said, now))
                    return RequeueAfter(_WHEN_NONE_FITS)
                reason = "HostBeingWiped" if coming else "NoAvailableHost"
                self._context.say(machine, "Normal" if coming else "Warning", reason, message)
                said = f"{message}; looked at again in {_WHEN_NONE_FITS:.0f} s, or when a host becomes free"
                severity = "Info" if coming else "Warning"
                status = replace(machine.status, phase="Pending")
                status = condition(status, "Provisioned", False, reason, said, now, severity=severity)
                await self._context.save(machine, ready(status, False, reason, said, now))
                return RequeueAfter(_WHEN_NONE_FITS)

    async def _take(
        self, machine: Machine, host: ScalewayAppleSiliconHost | None, step: ClaimStep, now: datetime
    ) -> Machine:
        context = self._context
        match step:
            case NotUsableYet():
                return machine
            case Forget(reason):
                context.say(machine, "Normal", "ClaimForgotten", f"host {machine.status.claiming}: {reason}")
                return await context.save(machine, replace(machine.status, claiming=""), guarded=True)
            case WriteClaim(epoch):
                assert host is not None
                await context.write_claim(machine, host, epoch)
                context.say(machine, "Normal", "Adopting", f"claims host {host.metadata.name}")
                return machine
            case Rename(to, _):
                # Died before: the name is as it was, and this step comes again. Died after, or the answer was lost: the
                # next GET shows `to`, which is one of our own names.
                assert host is not None
                await context.fenced_cloud.rename(host.spec.zone, host.spec.server_id, to)
                return machine
            case BackOut(reason):
                assert host is not None
                await context.free_host(host)
                context.say(machine, "Warning", "ClaimTakenBack", f"host {host.metadata.name}: {reason}")
                return await context.save(machine, replace(machine.status, claiming=""), guarded=True)
            case Bind(server):
                assert host is not None
                return await self._bind(machine, host, server, now)

    async def _bind(self, machine: Machine, host: ScalewayAppleSiliconHost, server: Server, now: datetime) -> Machine:
        """Write down the server at once: from here on a lost claim would be an orphaned host."""
        context = self._context
        status = replace(
            machine.status,
            server_id=server.id,
            host_name=host.metadata.name,
            claiming="",
            ordering="",
            ordered_at=None,
            addresses=(Address(type="ExternalIP", address=server.ip),) if server.ip else (),
            bootstrap_attempts=0,
            bootstrap_reboot_issued=False,
            bootstrap_failed_at=None,
            bootstrap_step="",
            bound_at=now.replace(microsecond=0),
            claim_verified=False,
            password_missing_since=None,
            host_config_hash="",
            reinstall=None,
            reinstalled_at=None,
            phase="Adopting",
        )
        message = f"has host {host.metadata.name} ({server.ip or 'no address yet'})"
        status = condition(status, "Provisioned", True, "Adopted", message, now)
        machine = await context.save(machine, ready(status, False, "Adopted", message, now), guarded=True)
        context.say(machine, "Normal", "Adopted", message)
        return machine

    async def _cloud_failed(self, machine: Machine, problem: str) -> RequeueAfter:
        now = self._context.clock.now()
        message = (
            f"the cloud did not do what the claim needs, it is tried again in {_WHEN_THE_CLOUD_FAILS:.0f} s: {problem}"
        )
        self._context.say(machine, "Warning", "ProvisioningFailed", problem)
        machine = await self._context.again(machine)
        status = condition(machine.status, "Provisioned", False, "ScalewayAdoptFailed", message, now, severity="Error")
        await self._context.save(machine, ready(status, False, "ScalewayAdoptFailed", message, now))
        return RequeueAfter(_WHEN_THE_CLOUD_FAILS)
