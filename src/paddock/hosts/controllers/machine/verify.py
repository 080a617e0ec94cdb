"""Keeping a host: is it still ours, is the claim proven, what does the inventory say of it."""

from datetime import datetime

from msgspec.structs import replace

from paddock.base.clock import rfc3339
from paddock.clients.scaleway import ScalewayError
from paddock.hosts.api import (
    BOOTSTRAPPED,
    IDENTITY_SINCE,
    Address,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.mac_key import KNOWN_TO_GATEWAY
from paddock.hosts.names import Rename
from paddock.hosts.verify import (
    KeepBinding,
    LetGo,
    NotVerifiedYet,
    Verified,
    WaitForInventory,
    WriteMissingClaim,
    ownership,
    provider_id,
    verification,
)
from paddock.kube.conditions import without_condition
from paddock.kube.controller import RequeueAfter

__all__ = ["VerifyHost", "forget_host", "hostless"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_SOON = 10.0


def hostless(machine: Machine, reason: str, message: str, now: datetime) -> Machine:
    """The machine without its host: everything that described the host is reset, so that another one can be claimed."""
    status = replace(
        machine.status,
        server_id="",
        host_name="",
        claiming="",
        ordering="",
        ordered_at=None,
        addresses=(),
        bound_at=None,
        claim_verified=False,
        password_missing_since=None,
        bootstrap_attempts=0,
        bootstrap_reboot_issued=False,
        bootstrap_failed_at=None,
        bootstrap_step="",
        host_config_hash="",
        failed_host_config_hash="",
        update_attempts=0,
        remediation=None,
        reinstall=None,
        reinstalled_at=None,
        phase="Pending",
        conditions=without_condition(machine.status.conditions, KNOWN_TO_GATEWAY),
    )
    status = condition(status, "Provisioned", False, reason, message, now, severity="Warning")
    status = condition(status, "Bootstrapped", False, reason, message, now, severity="Warning")
    return replace(machine, status=ready(status, False, reason, message, now))


async def forget_host(context: ReconcileContext, machine: Machine, reason: str, message: str) -> None:
    """Make a machine hostless, whatever happens in between.

    The provider id goes first: a machine that has one and no server is taken for one that lost its status in a move or a
    restore, and would take the host up again. Died after any step, the next pass lets go again.
    """
    # First of all the Mac stops being this machine's node: its disk may be wiped only later, and its next one has the
    # same name. Certificates from before this moment are refused (`paddock up`), or the node is (`revocation`).
    # The first write is made in the version that was judged: nobody loses an identity because of an old reading.
    since = {"annotations": {IDENTITY_SINCE: rfc3339(context.clock.now()), BOOTSTRAPPED: None}}
    machine = await context.patch(machine, {"metadata": since})
    await context.bootstrapper.forget(machine)
    if machine.spec.provider_id:
        machine = await context.patch(machine, {"spec": {"providerID": None}})
    machine = await context.save(machine, hostless(machine, reason, message, context.clock.now()).status, guarded=True)
    await context.logins.forget(machine)


class VerifyHost:
    """Runs before anything is done to a host. What it returns is either a machine whose host is proven, or a wait."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context

    async def run(self, machine: Machine, *, deleting: bool = False) -> tuple[Machine, Host] | RequeueAfter:
        context = self._context
        host = await context.fresh_host(machine.status.host_name or machine.status.server_id)
        rivals = [
            other
            for other in context.machines.list()
            if other.status.server_id == machine.status.server_id and other.metadata.uid != machine.metadata.uid
        ]
        match ownership(machine, host, rivals):
            case WaitForInventory(message):
                now = context.clock.now()
                await context.save(machine, ready(machine.status, False, "HostUnknown", message, now))
                return RequeueAfter(_SOON)
            case LetGo(reason, message):
                return await self.let_go(machine, reason, message)
            case WriteMissingClaim(epoch):
                assert host is not None
                # Not proven by what was proven before: the host may have been wiped and pooled since the mirror was made.
                if machine.status.claim_verified:
                    now = context.clock.now().replace(microsecond=0)
                    unproven = replace(machine.status, claim_verified=False, bound_at=now)
                    machine = await context.save(machine, unproven, guarded=True)
                await context.write_claim(machine, host, epoch)
                message = f"the claim on host {host.metadata.name} was missing and is written again"
                context.say(machine, "Normal", "ClaimRestored", message)
                return RequeueAfter(0.1)
            case KeepBinding():
                assert host is not None
                machine = await self._follow(machine, host)
                return await self._verify(machine, host, deleting=deleting)

    async def let_go(self, machine: Machine, reason: str, message: str) -> RequeueAfter:
        """Forget the host without touching it."""
        self._context.say(machine, "Warning", reason, message)
        await forget_host(self._context, machine, reason, message)
        return RequeueAfter(1.0)

    async def _follow(self, machine: Machine, host: Host) -> Machine:
        """Addresses and provider id as they are now; written only when they changed."""
        context = self._context
        addresses = (
            (Address(type="ExternalIP", address=host.status.ip),) if host.status.ip else machine.status.addresses
        )
        wanted = provider_id(host.spec.zone, host.spec.server_id)
        if machine.spec.provider_id != wanted:
            machine = await context.patch(machine, {"spec": {"providerID": wanted}})
        status = replace(
            machine.status,
            addresses=addresses,
            host_name=host.metadata.name,
            failure_domain=host.spec.zone,
            initialization=replace(machine.status.initialization, provisioned=True),
            observed_generation=machine.metadata.generation,
        )
        return await context.save(machine, status)

    async def _verify(self, machine: Machine, host: Host, *, deleting: bool) -> tuple[Machine, Host] | RequeueAfter:
        if machine.status.claim_verified:
            # Read again, now that the claim was seen: what was proven may have been an earlier claim of the same host.
            again = await self._context.again(machine)
            same = again.status.server_id == machine.status.server_id and again.status.claim_verified
            lives = deleting or again.metadata.deletion_timestamp is None
            return (again, host) if same and lives else RequeueAfter(_SOON)
        context, claim = self._context, host.spec.claim
        assert claim is not None
        now, settle = context.clock.now(), context.settings.settle
        if machine.status.bound_at is None:  # restored or made by hand: the time to wait begins now
            bound = replace(machine.status, bound_at=now.replace(microsecond=0))
            machine = await context.save(machine, bound, guarded=True)
        outcome = verification(machine, claim, None, now, settle)
        if outcome is None:
            try:
                fetched = await context.cloud.get_server(host.spec.zone, host.spec.server_id)
            except ScalewayError as error:
                return await self._wait(
                    machine, f"the claim is to be verified, but the cloud does not answer: {error}", 30
                )
            outcome = verification(machine, claim, fetched.server, now, settle)
        match outcome:
            case NotVerifiedYet(seconds):
                message = f"has host {host.metadata.name}; its name is read once more in {seconds:.0f} s, when no late rename can arrive"
                return await self._wait(machine, message, seconds)
            case Rename(to, _):
                await context.fenced_cloud.rename(host.spec.zone, host.spec.server_id, to)
                await context.save(machine, replace(machine.status, bound_at=now.replace(microsecond=0)), guarded=True)
                return RequeueAfter(settle.total_seconds())
            case LetGo(reason, message):
                await context.free_host(host)
                return await self.let_go(machine, reason, message)
            case Verified() | None:
                machine = await context.save(machine, replace(machine.status, claim_verified=True), guarded=True)
                return machine, host

    async def _wait(self, machine: Machine, message: str, seconds: float) -> RequeueAfter:
        # The sentence counts down, so it is written once: rewriting it every time would be a write for nothing.
        if not any(c.type == "Ready" and c.reason == "Verifying" for c in machine.status.conditions):
            now = self._context.clock.now()
            await self._context.save(machine, ready(machine.status, False, "Verifying", message, now))
        return RequeueAfter(max(seconds, 0.1))
