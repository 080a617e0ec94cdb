"""Performing a recorded reinstall in place; the decision is `paddock.hosts.reinstall`.

It runs before the bootstrap, which begins when this has ended. The order of effects and their windows: docs/design/disruption.md.
"""

from contextlib import suppress
from datetime import datetime

from msgspec.structs import replace

from paddock.base.clock import rfc3339
from paddock.base.explanation import utc
from paddock.clients.scaleway import ScalewayError
from paddock.hosts.api import (
    BOOTSTRAPPED,
    IDENTITY_SINCE,
    MachineStatus,
    Reinstall,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.controllers.disruption import DisruptionGate
from paddock.hosts.controllers.health_check import HealthChecks
from paddock.hosts.controllers.machine.bootstrap import BootstrapHost
from paddock.hosts.first_contact import WINDOW
from paddock.hosts.reinstall import (
    AskForReinstall,
    GiveHostBack,
    HostIsNew,
    InstallBegan,
    ProveAgain,
    WaitForInstall,
    reinstall_step,
)
from paddock.hosts.remediation import Trouble, proven_dead, trouble_of
from paddock.hosts.verify import server_in
from paddock.kube.builtin import Node
from paddock.kube.conditions import is_true, without_condition
from paddock.kube.controller import RequeueAfter
from paddock.kube.errors import NotFoundError

__all__ = ["ReinstallHost"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_AT_ONCE = 0.1
_WHEN_THE_CLOUD_FAILS = 60.0


class ReinstallHost:
    """One step a pass. Every write to the machine is made in the version that was judged."""

    def __init__(self, context: ReconcileContext, prepare: BootstrapHost) -> None:
        self._context = context
        self._prepare = prepare
        self._gate = DisruptionGate(context)
        self._checks = HealthChecks(context)

    async def run(self, machine: Machine, host: Host) -> Machine | RequeueAfter:
        """The machine, where nothing is to be reinstalled; otherwise when to look again."""
        context, work = self._context, machine.status.reinstall
        if work is None:
            return machine
        try:
            seen = await context.look(host)
            step = reinstall_step(machine, seen, context.clock.now(), context.settings.settle)
            match step:
                case None:
                    return machine
                case WaitForInstall(message, seconds):
                    await self._tell(machine, work, message)
                    return RequeueAfter(seconds)
                case AskForReinstall():
                    return await self._ask(machine, host, work)
                case InstallBegan():
                    return await self._began(machine, host, work)
                case HostIsNew():
                    return await self._finish(machine, host, work)
                case ProveAgain(message):
                    context.say(machine, "Warning", "ReinstallStopped", message)
                    now = context.clock.now().replace(microsecond=0)
                    unproven = replace(machine.status, claim_verified=False, bound_at=now)
                    await context.save(machine, unproven, guarded=True)
                    return RequeueAfter(_AT_ONCE)
                case GiveHostBack(message):
                    return await self._give_back(machine, host, work, message)
        except ScalewayError as error:
            context.say(machine, "Warning", "ReinstallFailed", str(error))
            again = f"it is tried again in {_WHEN_THE_CLOUD_FAILS:.0f} s"
            await self._tell(machine, work, f"the cloud did not do what it needs, {again}: {error}")
            return RequeueAfter(_WHEN_THE_CLOUD_FAILS)

    async def _ask(self, machine: Machine, host: Host, work: Reinstall) -> RequeueAfter:
        """The gate once more, for this may be long after the record; then the intent, then the request.

        Died after the intent: asked again after two minutes, unless the cloud is seen installing. The answer was lost: the
        same. What the disk had is not on record any more before it can be gone, so that no move takes the machine for one
        that was bootstrapped; died there, it is only missing until the next update.
        """
        context = self._context
        # One on which nothing was ever put has nothing that could be well again: it is installed for its key.
        worked = is_true(machine.status.conditions, "Bootstrapped")
        if worked and not work.wipe and await self._trouble(machine, host) is None:
            await self._cancel(machine)
            return RequeueAfter(_AT_ONCE)
        taken = await self._may_take(machine, host, work, "reinstall")
        if isinstance(taken, RequeueAfter):
            return taken
        machine = taken
        image = await context.image_of(host, machine.spec.os)
        machine = await context.block_move(machine)
        if BOOTSTRAPPED in machine.metadata.annotations:
            machine = await context.patch(machine, {"metadata": {"annotations": {BOOTSTRAPPED: None}}})
        now = context.clock.now().replace(microsecond=0)
        asked = replace(work, wipe="requested", asked=work.asked + 1, asked_at=now)
        machine = await context.save(machine, replace(machine.status, reinstall=asked), guarded=True)
        await context.fenced_cloud.reinstall(host.spec.zone, host.spec.server_id, image)
        await self._tell(machine, work, "the cloud was asked to install it anew")
        return RequeueAfter(5.0)

    async def _may_take(self, machine: Machine, host: Host, work: Reinstall, doing: str) -> Machine | RequeueAfter:
        """The gate; past it only for a Mac that is proven dead now. That it was so when the reinstall was recorded proves
        nothing any more: the requests are minutes apart, and a Mac may come back with its VMs.
        """
        if work.wipe == "started":
            return machine  # the old disk is gone, and what ran there with it
        context = self._context
        gated = await self._gate.clear(machine, doing, lost=True)
        if not isinstance(gated, RequeueAfter):
            return gated[0]
        trouble = await self._trouble(machine, host) if work.dead else None
        if trouble is None or not proven_dead(trouble, await self._prepare.health(host), context.clock.now()):
            return gated
        return await context.again(machine)

    async def _trouble(self, machine: Machine, host: Host) -> Trouble | None:
        """What is wrong with the Mac now, by fresh reads."""
        context = self._context
        node = await context.fresh.get(Node, machine.metadata.name)
        known, expected, now = machine.status.remediation, context.settings.expect_nodes, context.clock.now()
        asked = await self._checks.asks(machine)
        return trouble_of(node, host, known, now, missing=expected, asked=asked)

    async def _began(self, machine: Machine, host: Host, work: Reinstall) -> RequeueAfter:
        """The old disk is gone: its key and its certificates are refused from now on, and its Node, which could only lie, goes.

        Died in between: the cloud is seen installing again, and all of this is repeated. The key ends here and not when the
        cloud is asked: where it refuses, the Mac that is still there is the only one that can say that nobody works on it.
        """
        context, now = self._context, self._context.clock.now()
        fresh = await context.fresh_host(host.metadata.name)
        if fresh is not None and fresh.spec.claim is not None:
            if fresh.spec.claim.machine_uid != machine.metadata.uid:
                return RequeueAfter(_AT_ONCE)
            await context.end_key(fresh)
        machine = await context.patch(machine, {"metadata": {"annotations": {IDENTITY_SINCE: rfc3339(now)}}})
        await context.bootstrapper.forget(machine)
        node = await context.fresh.get(Node, machine.metadata.name)
        if node is not None and server_in(node.spec.provider_id) in ("", host.spec.server_id):
            with suppress(NotFoundError):
                await context.client.delete(Node, node.metadata.name, uid=node.metadata.uid)
        status = replace(machine.status, reinstall=replace(work, wipe="started"), phase="Bootstrapping")
        await context.save(machine, self._said(status, work, "the cloud installs its new disk", now), guarded=True)
        return RequeueAfter(15.0)

    async def _finish(self, machine: Machine, host: Host, work: Reinstall) -> RequeueAfter:
        """Forget what was of the old disk, then let the bootstrap begin.

        The host's key goes first, in the version that was read: a bootstrap that still pins it would refuse the new disk.
        Died in between: the install is still recorded, and this is repeated; nobody has spoken to the new disk yet.
        """
        context, now = self._context, self._context.clock.now()
        fresh = await context.fresh_host(host.metadata.name)
        if fresh is None:
            return RequeueAfter(_AT_ONCE)
        # A stalled leader may have written a key of the old disk since; whatever it writes from here on conflicts.
        fresh = await context.end_key(fresh)
        evidence = f"the reinstall in place that was asked for at {utc(work.asked_at or now)} ended"
        begun = {"openedAt": rfc3339(now), "until": rfc3339(now + WINDOW), "evidence": evidence, "seenAt": None}
        await context.client.merge_patch(
            Host,
            fresh.metadata.name,
            {
                "metadata": {"resourceVersion": fresh.metadata.resource_version},
                "status": {"hostKey": None, "firstContact": begun},
            },
            namespace=fresh.metadata.namespace,
            subresource="status",
        )
        context.bootstrapper.forgive(host)
        await context.logins.forget(machine)
        known = machine.status.remediation
        status = replace(
            machine.status,
            reinstall=None,
            reinstalled_at=now.replace(microsecond=0),
            remediation=replace(known, at=now.replace(microsecond=0)) if known is not None else None,
            bootstrap_attempts=0,
            bootstrap_reboot_issued=False,
            bootstrap_failed_at=None,
            password_missing_since=None,
            host_config_hash="",
        )
        message = f"host {host.metadata.name} has a new disk: it is bootstrapped anew"
        status = condition(status, "Bootstrapped", False, "Reinstalled", message, now, severity="Info")
        status = replace(status, conditions=without_condition(status.conditions, "Drained"))
        await context.save(machine, ready(status, False, "Reinstalled", message, now), guarded=True)
        context.say(machine, "Normal", "Reinstalled", message)
        await context.count(host, reinstalls=1)
        return RequeueAfter(_AT_ONCE)

    async def _cancel(self, machine: Machine) -> None:
        """It is well again, and nothing was asked for yet: the record goes, and whoever looks after it finds it well."""
        context = self._context
        message = "it is well again, so that it is not reinstalled"
        context.say(machine, "Normal", "ReinstallCancelled", message)
        await context.save(machine, replace(machine.status, reinstall=None), guarded=True)

    async def _give_back(self, machine: Machine, host: Host, work: Reinstall, message: str) -> RequeueAfter:
        """The gate once more while the old disk may be there: the requests took minutes, and work may have come."""
        taken = await self._may_take(machine, host, work, "release")
        if isinstance(taken, RequeueAfter):
            return taken
        machine = taken
        why = f"it could not be reinstalled in place ({message}): the host is given back and wiped"
        return await self._prepare.give_back_in_trouble(machine, host, why)

    async def _tell(self, machine: Machine, work: Reinstall, message: str) -> None:
        now = self._context.clock.now()
        await self._context.save(machine, self._said(machine.status, work, message, now))

    @staticmethod
    def _said(status: MachineStatus, work: Reinstall, message: str, now: datetime) -> MachineStatus:
        """The one sentence. That it is bootstrapped stays true for as long as its old disk may be there."""
        since = f", since {utc(work.since)}" if work.since is not None else ""
        said = f"is reinstalled in place{since}: {message}; the reason: {work.message}"
        if status.reinstall is not None and status.reinstall.wipe == "started":
            status = condition(status, "Bootstrapped", False, "Reinstalling", said, now, severity="Info")
        return ready(status, False, "Reinstalling", said, now)
