"""Making a Mac a fleet node: credentials, bootstrap, and what follows when it fails."""

from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from paddock.base.explanation import span, utc
from paddock.clients.scaleway import Credentials, Gone, HealthDetails, ScalewayError
from paddock.hosts import recovery
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.contract import BootstrapFailed, Bootstrapped
from paddock.hosts.breaker import HALTED, remembered
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.controllers.disruption import DisruptionGate
from paddock.hosts.controllers.host_keys import pin_host_key
from paddock.hosts.controllers.machine.verify import forget_host
from paddock.hosts.controllers.release import record_release
from paddock.hosts.delete import pool_after, terminates
from paddock.hosts.fenced_cloud import LeaseTooShortError
from paddock.hosts.first_contact import EXPIRED, Believe, Known, Refuse, first_contact
from paddock.hosts.recovery import GiveBack, Reboot, Retry, after_failure, sealed_for_too_long, seconds_until_retry
from paddock.hosts.verify import RESTORED, bootstrapped_before, server_in
from paddock.kube.builtin import Node
from paddock.kube.conditions import is_true, without_condition
from paddock.kube.controller import RequeueAfter
from paddock.kube.errors import NotFoundError

__all__ = ["BootstrapHost", "ShownSteps"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_WHEN_THE_CLOUD_FAILS = 30.0
_SLOWLY = 60.0  # a sealed password, and what waits for a person: an unknown key, a halted fleet, no pool
_AT_THE_GATES = 0.1
_USER = "m1"  # on every Mac of the provider
_DIAGNOSTIC_LOOKS = 20  # the provider takes about 20 s
_DIAGNOSTIC_EVERY = 2.0


def _withdrawn(machine: Machine, host: Host) -> bool:
    """Whether the machine was deleted, paused or detached while the bootstrap ran, which can take long.

    Then the outcome is nobody's business any more: above all, nothing may be rebooted or given back because of it.
    """
    meta = machine.metadata
    detached = machine.status.server_id != host.spec.server_id
    return detached or meta.deletion_timestamp is not None or PAUSED in meta.annotations


class BootstrapHost:
    """Bootstraps a proven host; escalates by the tiers when that keeps failing."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._gate = DisruptionGate(context)

    async def run(self, machine: Machine, host: Host) -> Machine | RequeueAfter:
        if is_true(machine.status.conditions, "Bootstrapped"):
            return machine
        context = self._context
        if (config := bootstrapped_before(machine, host.spec.server_id)) is not None:
            return await self.restored(machine, host, config)
        wait = seconds_until_retry(machine.status.bootstrap_failed_at, context.clock.now(), context.settings.tiers)
        if wait > 0:
            return RequeueAfter(wait)
        contact, halt = first_contact(host, context.clock.now()), context.halt_of(machine)
        if isinstance(contact, Refuse):
            # Before the halt, which it outlasts: a host that cannot be dialled is never the one that a halted fleet tries.
            return await self._blocked(machine, EXPIRED, contact.message, _SLOWLY)
        if halt is not None and halt.probe != machine.metadata.name:
            return await self._blocked(machine, HALTED, halt.message, _SLOWLY)
        match contact:
            case Known(host_key):
                if not await self._pin(host, host_key, "a person vouched for it"):
                    return RequeueAfter(_AT_THE_GATES)
                host = replace(host, status=replace(host.status, host_key=host_key))
            case Believe():
                # Pinned before anything secret is on its way: died in between, the next pass believes no other key. One that
                # shows none now is dialled all the same, so that it counts as a host that cannot be reached.
                if host_key := await context.bootstrapper.host_key(host):
                    believed = isinstance(first_contact(host, context.clock.now()), Believe)
                    if not believed or not await self._pin(host, host_key, "first seen within the window"):
                        return RequeueAfter(_AT_THE_GATES)
                    host = replace(host, status=replace(host.status, host_key=host_key))
        credentials = await self.credentials(machine, host)
        if isinstance(credentials, RequeueAfter):
            return credentials
        await self._remove_node_of_a_server_that_is_gone(machine, host)
        # A Mac that is bootstrapped for the first time has no Node, and passes; one that was moved, or restored without
        # its status, may be at work.
        gated = await self._gate.clear(machine, "bootstrap")
        if isinstance(gated, RequeueAfter):
            return gated
        machine, _ = gated
        now = context.clock.now()
        message = f"bootstrap of host {host.metadata.name} runs"
        status = replace(machine.status, phase="Bootstrapping", password_missing_since=None)
        status = condition(status, "Bootstrapped", False, "Bootstrapping", message, now, severity="Info")
        machine = await context.save(machine, ready(status, False, "Bootstrapping", message, now))
        if machine.status.bootstrap_attempts == 0:
            context.say(machine, "Normal", "Bootstrapping", message)
        outcome = await context.on_host(
            context.bootstrapper.bootstrap, machine, host, credentials, ShownSteps(context, machine, "Bootstrapping")
        )
        if outcome.host_key and not host.status.host_key:
            await self._pin_seen(host, outcome.host_key)
        machine = await context.again(machine)
        if _withdrawn(machine, host):
            return RequeueAfter(_AT_THE_GATES)
        match outcome:
            case Bootstrapped():
                return await self._succeeded(machine, host, outcome)
            case BootstrapFailed() if why := recovery.wiped_for_its_key(machine, host, halt, outcome.reason):
                await context.begin_reinstall(machine, f"host {host.metadata.name}: {why}")
                return RequeueAfter(_AT_THE_GATES)
            case BootstrapFailed() if outcome.blames_host:
                return await self.failed(machine, host, outcome.step, outcome.message)
            case BootstrapFailed():
                retry = context.settings.tiers.retry_seconds
                message = f"step {outcome.step}: {outcome.message}; tried again in {retry:.0f} s, and no tier counts it"
                failed_at = replace(machine.status, bootstrap_failed_at=context.clock.now().replace(microsecond=0))
                machine = await context.save(machine, failed_at)
                return await self._blocked(machine, outcome.reason, message, retry)

    async def restored(self, machine: Machine, host: Host, config: str) -> Machine:
        """Go on where a machine was that lost its status, in a move or a restore: its Mac may be at work.

        What it missed meanwhile is brought by an update, which is safe on a live host.
        """
        context, now = self._context, self._context.clock.now()
        message = f"host {host.metadata.name} was bootstrapped before the machine was moved or restored"
        status = replace(machine.status, host_config_hash=config)
        machine = await context.save(machine, condition(status, "Bootstrapped", True, RESTORED, message, now))
        context.say(machine, "Normal", "Restored", message)
        return machine

    async def _remove_node_of_a_server_that_is_gone(self, machine: Machine, host: Host) -> None:
        """A Node keeps its provider id for ever: the one of an earlier host must go, or nobody ever matches the new one.

        Only where the cloud proves that the server it names does not exist: then nobody can work there. Any other is left
        to the gate, and ends with its disk.
        """
        context, name = self._context, machine.metadata.name
        node = await context.fresh.get(Node, name)
        server = server_in(node.spec.provider_id) if node is not None else ""
        if node is None or server in ("", host.spec.server_id):
            return
        if isinstance(await context.cloud.is_gone(host.spec.zone, server), Gone):
            with suppress(NotFoundError):
                await context.client.delete(Node, name, uid=node.metadata.uid)

    async def _pin(self, host: Host, host_key: str, why: str) -> bool:
        if host.status.host_key == host_key:
            return True
        return await pin_host_key(self._context.client, self._context.clock, host, host_key, why)

    async def _pin_seen(self, host: Host, host_key: str) -> None:
        """Of a host that showed no key before its bootstrap, also when the rest of that failed; not if it was wiped since."""
        now = await self._context.fresh_host(host.metadata.name)
        if now is None or now.status.host_key or now.status.first_contact != host.status.first_contact:
            return
        await self._pin(now, host_key, "first seen by the bootstrap")

    async def _succeeded(self, machine: Machine, host: Host, outcome: Bootstrapped) -> Machine:
        context, now = self._context, self._context.clock.now()
        # Before the write that ends the bootstrap: died in between, it is bootstrapped again, and opened again. The Host is
        # written first: whoever saw an idle Mac, and stalled, can no longer record its release.
        await context.count(host, bootstraps=1)
        await self._gate.reopen(machine)
        await context.note_bootstrapped(machine, host, outcome.config_hash)
        message = f"host {host.metadata.name} is bootstrapped"
        status = replace(
            machine.status,
            bootstrap_attempts=0,
            bootstrap_reboot_issued=False,
            bootstrap_failed_at=None,
            bootstrap_step="",
            failures=(),
            host_config_hash=outcome.config_hash,
        )
        status = condition(status, "Bootstrapped", True, "Bootstrapped", message, now)
        status = replace(status, conditions=without_condition(status.conditions, "Drained"))
        machine = await context.save(machine, status)
        context.say(machine, "Normal", "Bootstrapped", message)
        return machine

    # Credentials

    async def login(self, machine: Machine, host: Host) -> Credentials:
        """How to log in to a host that is bootstrapped: the fleet's key opens it, and its sudo asks for nothing.

        A password goes along where there is one, but nothing waits for it: a cloud that seals it, or does not answer, is
        no reason to leave a live host without its update.
        """
        kept = await self._context.logins.read(machine)
        if kept is not None:
            return kept
        try:
            return (await self._context.cloud.get_server(host.spec.zone, host.spec.server_id)).credentials
        except ScalewayError:
            return Credentials(_USER, None)

    async def credentials(self, machine: Machine, host: Host) -> Credentials | RequeueAfter:
        """From the Secret, or from a GET when it is missing or sealed; never from the answer of a mutation."""
        context = self._context
        kept = await context.logins.read(machine)
        if kept is not None and kept.password is not None:
            return kept
        try:
            fetched = await context.cloud.get_server(host.spec.zone, host.spec.server_id)
        except ScalewayError as error:
            message = f"the password could not be read, it is tried again in {_WHEN_THE_CLOUD_FAILS:.0f} s: {error}"
            return await self._blocked(machine, "CredentialsRefreshFailed", message, _WHEN_THE_CLOUD_FAILS)
        if fetched.credentials.password is not None:
            await context.logins.write(machine, fetched.credentials)
            if kept is not None:
                context.say(machine, "Normal", "CredentialsReclaimed", "the cloud shows the password again")
            return fetched.credentials
        return await self._sealed(machine, host)

    async def _sealed(self, machine: Machine, host: Host) -> RequeueAfter:
        """Wait for the seal to lift; count it as a failed bootstrap when it lasts. Sudo is never tried meanwhile."""
        context, now = self._context, self._context.clock.now()
        since = machine.status.password_missing_since
        if since is None:
            machine = await context.save(
                machine, replace(machine.status, password_missing_since=now.replace(microsecond=0))
            )
        elif sealed_for_too_long(since, now, context.settings.tiers):
            machine = await context.save(
                machine, replace(machine.status, password_missing_since=now.replace(microsecond=0))
            )
            message = f"the cloud has shown no usable password since {utc(since)}"
            return await self.failed(machine, host, "password", message)
        message = (
            f"the cloud shows no usable password (sealed); it is read again every {span(_SLOWLY)}, "
            f"and counts as a failed bootstrap after {span(context.settings.tiers.sealed_timeout)}"
        )
        return await self._blocked(machine, "MissingSudoPassword", message, _SLOWLY)

    async def _blocked(self, machine: Machine, reason: str, message: str, seconds: float) -> RequeueAfter:
        context, now = self._context, self._context.clock.now()
        context.say(machine, "Warning", reason, message)
        status = condition(machine.status, "Bootstrapped", False, reason, message, now, severity="Warning")
        await context.save(machine, ready(status, False, reason, message, now))
        return RequeueAfter(seconds)

    # Failure and its tiers

    async def failed(self, machine: Machine, host: Host, step: str, problem: str) -> RequeueAfter:
        """Count the failure, say it, and do what the tiers say."""
        context, now, tiers = self._context, self._context.clock.now(), self._context.settings.tiers
        attempts = machine.status.bootstrap_attempts + 1
        prefix = pool_after(machine, host, context.settings.default_adopt_pool_prefix)
        decision = after_failure(
            attempts,
            reboot_issued=machine.status.bootstrap_reboot_issued,
            can_release=bool(prefix) or terminates(machine),
            tiers=tiers,
        )
        message = f"step {step}: {problem}; {decision.message}"
        context.say(machine, "Warning", "BootstrapFailed", f"attempt {attempts}: step {step}: {problem}")
        status = replace(
            machine.status,
            bootstrap_attempts=attempts,
            bootstrap_step=step,
            bootstrap_failed_at=now.replace(microsecond=0),
        )
        status = remembered(status, step, problem, context.bootstrapper.desired_hash(machine), now)
        # What befalls several hosts alike is no host's fault: neither a reboot nor a wipe would help, and each costs.
        # The one that was tried because it was its turn is another matter where the configuration works elsewhere.
        before, halt = context.halt_of(machine), context.halt_of(replace(machine, status=status))
        tried = before is not None and before.probe == machine.metadata.name and before.elsewhere_well
        if halt is not None and not tried:
            decision = Retry(tiers.retry_seconds, halt.message)
            message = f"step {step}: {problem}; {halt.message}"
        status = condition(status, "Bootstrapped", False, "BootstrapFailed", message, now, severity="Warning")
        machine = await context.save(machine, ready(status, False, "BootstrapFailed", message, now))
        await context.count(host, bootstrap_failures=1)
        if not isinstance(decision, Retry):
            # Its agent may have registered during the bootstrap, and work may have come: then this tier waits, and the
            # next attempt does not even begin before the Mac is idle. The Host is read before the gate.
            host = await context.fresh_host(host.metadata.name) or host
            gated = await self._gate.clear(machine, "reboot" if isinstance(decision, Reboot) else "release")
            if isinstance(gated, RequeueAfter):
                return gated
            machine, _ = gated
        match decision:
            case GiveBack(why):
                return await self.give_back(machine, host, prefix, why)
            case Reboot():
                await self._reboot(machine, host)
            case Retry():
                pass
        return RequeueAfter(tiers.retry_seconds)

    async def _reboot(self, machine: Machine, host: Host) -> None:
        """Once for each host; an API error does not use it up. The cloud's own diagnosis is asked and kept before."""
        context = self._context
        seen = await self._diagnosis(host)
        try:
            await context.fenced_cloud.reboot(host.spec.zone, host.spec.server_id)
        except (ScalewayError, LeaseTooShortError) as error:
            context.say(machine, "Warning", "RebootForRecoveryFailed", f"{error}; tried again after the next failure")
            return
        context.bootstrapper.forgive(host)
        # Died before this write: the reboot is asked for once more, which costs two minutes and loses nothing.
        await context.save(machine, replace(machine.status, bootstrap_reboot_issued=True))
        context.say(
            machine, "Normal", "RebootingForRecovery", f"host {host.metadata.name} is rebooted once; before that {seen}"
        )
        await context.count(host, reboots=1)

    async def _diagnosis(self, host: Host) -> str:
        """What the provider sees of the host, in words. It is evidence only: a failure to get it changes nothing."""
        try:
            seen = await self._health(host)
        except ScalewayError as error:
            return f"no diagnosis could be had ({error})"
        if seen is None:
            return "the provider's diagnosis did not finish"
        up = {
            "server": seen.is_server_alive,
            "agent": seen.is_agent_alive,
            "ssh": seen.is_ssh_port_up,
            "vnc": seen.is_vnc_port_up,
        }
        return "the provider saw " + ", ".join(f"{name} {'up' if ok else 'down'}" for name, ok in up.items())

    async def health(self, host: Host) -> HealthDetails | None:
        """The provider's own look at the host; None where it could not be had, or did not finish."""
        try:
            return await self._health(host)
        except ScalewayError:
            return None

    async def _health(self, host: Host) -> HealthDetails | None:
        context = self._context
        started = await context.cloud.start_diagnostic(host.spec.zone, host.spec.server_id)
        for _ in range(_DIAGNOSTIC_LOOKS):
            found = await context.cloud.get_diagnostic(host.spec.zone, started)
            if found.finished and found.health_details is not None:
                return found.health_details
            await context.clock.sleep(_DIAGNOSTIC_EVERY)
        return None

    async def give_back(
        self, machine: Machine, host: Host, prefix: str, why: str, *, reason: str = "BootstrapExhausted"
    ) -> RequeueAfter:
        """Record the release first; only then forget the host. Died in between: the record makes us let go of it.

        `host` was read before the gate, and the release is recorded in that very version of it: a Mac that was opened to
        work since has another.
        """
        context = self._context
        if host.spec.claim is None or host.spec.claim.machine_uid != machine.metadata.uid:
            return RequeueAfter(1.0)  # it is not ours any more: the next pass sees why
        await record_release(
            context,
            host,
            policy="terminate" if terminates(machine) else "pool",
            prefix=prefix,
            family=machine.spec.os,
            reason=reason,
            message=why,
            cloud_name=machine.metadata.name,
        )
        context.say(machine, "Normal", reason, why)
        await context.count(host, failed_lives=1)
        await forget_host(context, machine, "HostReleased", why)
        return RequeueAfter(1.0)

    async def give_back_in_trouble(self, machine: Machine, host: Host, why: str) -> RequeueAfter:
        """The same for a host that ran, where there is a pool to give it to, or it ends. The caller has asked the gate."""
        context = self._context
        prefix = pool_after(machine, host, context.settings.default_adopt_pool_prefix)
        if not prefix and not terminates(machine):
            why_not = host.status.unwipeable or "no pool is set"
            context.say(machine, "Warning", "GiveBackImpossible", f"the host stays as it is: {why_not}")
            return RequeueAfter(_SLOWLY)
        return await self.give_back(machine, host, prefix, why, reason="HostInTrouble")


@dataclass(slots=True)
class ShownSteps:
    """Shows the step of a run on the machine while it runs, without touching whether it is ready."""

    context: ReconcileContext
    machine: Machine
    reason: str

    async def __call__(self, step: str) -> None:
        now, message = self.context.clock.now(), f"{self.reason.lower()}: {step}"
        status = replace(self.machine.status, bootstrap_step=step)
        if self.reason == "Bootstrapping":
            status = condition(status, "Bootstrapped", False, self.reason, message, now, severity="Info")
            status = ready(status, False, self.reason, message, now)
        self.machine = await self.context.save(self.machine, status)
