"""Performing the tiers for a host that runs and is in trouble; the decision is `paddock.hosts.remediation`."""

from msgspec.structs import replace

from paddock.clients.scaleway import HealthDetails, ScalewayError
from paddock.hosts.api import (
    MachineStatus,
    Reinstall,
    Remediation,
    RemediationAttempt,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.bootstrap.contract import BootstrapFailed
from paddock.hosts.bootstrap.errors import FailureKind
from paddock.hosts.breaker import same_fleet
from paddock.hosts.controllers.context import ReconcileContext, ready
from paddock.hosts.controllers.disruption import DisruptionGate
from paddock.hosts.controllers.health_check import HealthChecks
from paddock.hosts.controllers.machine.bootstrap import BootstrapHost
from paddock.hosts.fenced_cloud import LeaseTooShortError
from paddock.hosts.remediation import (
    DEAD_AFTER,
    GIVE_BACK,
    KICK_SESSION,
    REBOOT,
    REINSTALL,
    RESTART,
    SOFT_REBOOT,
    Asked,
    GiveUp,
    KickSession,
    RebootHost,
    ReinstallInPlace,
    RestartAgent,
    SoftReboot,
    Trouble,
    WaitForHost,
    next_step,
    proven_dead,
    rank,
    reboot_may_come,
    trouble_of,
    with_power,
)
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition, without_condition
from paddock.kube.controller import RequeueAfter

__all__ = ["RemediateHost"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_SOON = 60.0
_AT_ONCE = 0.1
_WHEN_WELL = 30.0
_DOING = {SOFT_REBOOT: "reboot", REBOOT: "reboot", REINSTALL: "reinstall", GIVE_BACK: "release"}


class RemediateHost:
    """One machine a pass, one tier a pass. The tier is written before its effect: died in between, it counts as done, and
    the next one follows after its pause; a tier that is skipped costs time, one that is repeated could cost a job. A
    reinstall is another matter: what is written is the intent, and `ReinstallHost` performs it from there.
    """

    def __init__(self, context: ReconcileContext, prepare: BootstrapHost) -> None:
        self._context = context
        self._prepare = prepare
        self._gate = DisruptionGate(context)
        self._checks = HealthChecks(context)

    async def run(
        self, machine: Machine, host: Host, node: Node | None, *, missing: bool = False
    ) -> RequeueAfter | Machine:
        """The machine, where it is well or has time; otherwise when to look again."""
        context, now = self._context, self._context.clock.now()
        known = machine.status.remediation
        # What is not urgent has no record before its first tier: that a gate was asked says that its Node may be cordoned.
        gated = get_condition(machine.status.conditions, "Drained") is not None
        if (known is not None or gated) and await self._checks.leaves(machine):
            # Core drains its Node first: a tier would get in its way, and opening the Node again would undo its drain.
            return RequeueAfter(_SOON)
        asked = await self._checks.asks(machine)
        trouble = trouble_of(node, host, known, now, missing=missing, asked=asked)
        if trouble is None:
            return await self._recovered(machine, host, known) if known is not None or gated else machine
        if known is None and trouble.urgent:
            begun = Remediation(since=trouble.since)
            machine = await context.save(machine, replace(machine.status, remediation=begun))
        halt = context.halt_of(machine)
        fleet = same_fleet(machine, context.machines.list())
        halted = halt.message if halt is not None else ""
        step = next_step(trouble, machine, fleet, now, halted=halted, unwipeable=host.status.unwipeable)
        # What disrupts is told when it may be done; until then the gate tells.
        if isinstance(step, WaitForHost | RestartAgent) and trouble.urgent:
            machine = await context.save(machine, ready(machine.status, False, "HostInTrouble", step.message, now))
        match step:
            case WaitForHost(_, seconds):
                return RequeueAfter(seconds) if trouble.urgent else machine
            case RestartAgent(message):
                return await self._restart(await self._begin(machine, trouble, RESTART, message), host)
            case KickSession(message):
                return await self._kick(machine, host, trouble, message)
            case SoftReboot(message):
                return await self._disrupt(machine, host, trouble, SOFT_REBOOT, message, asked)
            case RebootHost(message):
                return await self._disrupt(machine, host, trouble, REBOOT, message, asked)
            case ReinstallInPlace(message):
                return await self._disrupt(machine, host, trouble, REINSTALL, message, asked)
            case GiveUp(message):
                return await self._disrupt(machine, host, trouble, GIVE_BACK, message, asked)

    async def _recovered(self, machine: Machine, host: Host, known: Remediation | None) -> RequeueAfter | Machine:
        """A tier, or the gate before it, may have cordoned it: open it again. Died in between, all of this is repeated.

        The Host is written before: whoever saw that nobody works there, and stalled, can no longer record a release.
        What the gate said goes last: it is over, and a later deletion must not take it for its own.
        """
        context, now = self._context, self._context.clock.now()
        if known is not None and reboot_may_come(known, now):
            message = "it is well again; it takes work when no reboot can come any more"
            await context.save(machine, ready(machine.status, False, "HostInTrouble", message, now))
            return RequeueAfter(_WHEN_WELL)
        await context.count(host, recoveries=1)
        await self._gate.reopen(machine)
        context.say(machine, "Normal", "HostRecovered", f"host {host.metadata.name} is well again")
        conditions = without_condition(machine.status.conditions, "Drained")
        return await context.save(machine, replace(machine.status, remediation=None, conditions=conditions))

    async def _restart(self, machine: Machine, host: Host) -> RequeueAfter:
        credentials = await self._prepare.login(machine, host)
        outcome = await self._context.on_host(
            self._context.bootstrapper.restart_agent, machine, host, credentials, _silent
        )
        if isinstance(outcome, BootstrapFailed):
            self._context.say(machine, "Warning", "AgentRestartFailed", outcome.message)
            await self._note(machine, "it could not be reached over SSH, or did not start")
        return RequeueAfter(_SOON)

    async def _kick(self, machine: Machine, host: Host, trouble: Trouble, message: str) -> RequeueAfter:
        """Behind the gate, for it would end every VM; the Mac itself refuses while one runs, whoever knows of it or not."""
        gated = await self._gate.clear(machine, "new login", lost=True)
        if isinstance(gated, RequeueAfter):
            return gated
        machine = await self._begin(gated[0], trouble, KICK_SESSION, message)
        context = self._context
        machine = await context.save(
            machine, ready(machine.status, False, "HostInTrouble", message, context.clock.now())
        )
        credentials = await self._prepare.login(machine, host)
        outcome = await context.on_host(context.bootstrapper.kick_session, machine, host, credentials, _silent)
        if isinstance(outcome, BootstrapFailed):
            context.say(machine, "Warning", "NewLoginFailed", outcome.message)
            await self._note(machine, "it did not help, or was refused")
        return RequeueAfter(_SOON)

    async def _disrupt(
        self, machine: Machine, host: Host, trouble: Trouble, tier: int, message: str, asked: Asked | None
    ) -> RequeueAfter:
        """A reboot, a reinstall or a give-back: never under a running job, unless the Mac is proven dead.

        What a health check asked for is read again behind the gate and the diagnosis, which take their time: one that was
        taken back meanwhile ends the tier before it begins.
        """
        context = self._context
        gated = await self._gate.clear(machine, _DOING[tier], lost=True)
        if isinstance(gated, RequeueAfter) and context.clock.now() - trouble.since < DEAD_AFTER:
            return gated
        seen = await self._prepare.health(host)
        dead = isinstance(gated, RequeueAfter)
        if isinstance(gated, RequeueAfter):
            if not proven_dead(trouble, seen, context.clock.now()):
                return RequeueAfter(_SOON)
            machine = await context.again(machine)
        else:
            machine, _ = gated
        if asked is not None and await self._checks.asks(machine) is None:
            return RequeueAfter(_AT_ONCE)
        told = f"{message}; {_saw(seen)}"
        tier = with_power(tier, seen)
        now = context.clock.now().replace(microsecond=0)
        record = Reinstall(since=now, message=message, dead=dead) if tier == REINSTALL else None
        machine = await self._begin(machine, trouble, tier, told, record)
        machine = await context.save(machine, ready(machine.status, False, "HostInTrouble", told, now))
        if tier == SOFT_REBOOT:
            return await self._soft_reboot(machine, host, trouble, message)
        if tier == REBOOT:
            return await self._reboot(machine, host)
        if tier == REINSTALL:
            return RequeueAfter(_AT_ONCE)
        return await self._give_back(machine, host, message, asked)

    async def _give_back(self, machine: Machine, host: Host, message: str, asked: Asked | None) -> RequeueAfter:
        """Where a health check asked and Cluster API would replace the Machine, that is its part: the deletion that follows
        gives the host back, through the gate, as the end of a failed life. Otherwise the machine claims another host.
        """
        if asked is not None and await self._checks.hand_over(machine, message):
            self._context.say(machine, "Warning", "OwnerRemediates", f"{message}: its Machine is to be replaced")
            return RequeueAfter(_SOON)
        return await self._prepare.give_back_in_trouble(machine, host, message)

    async def _soft_reboot(self, machine: Machine, host: Host, trouble: Trouble, message: str) -> RequeueAfter:
        """Died before, or the Mac did not answer: nothing happened, and the cloud reboots it after the pause.

        A Mac that refuses us may have shut our address out, which no wait ends: the cloud reboots it at once, behind the same
        gate, for its Node is fenced since.
        """
        context = self._context
        credentials = await self._prepare.login(machine, host)
        outcome = await context.on_host(context.bootstrapper.soft_reboot, machine, host, credentials, _silent)
        if isinstance(outcome, BootstrapFailed):
            context.say(machine, "Warning", "SoftRebootFailed", outcome.message)
            if outcome.reason != FailureKind.REFUSED:
                await self._note(machine, "it did not answer SSH")
                return RequeueAfter(_SOON)
            await self._note(machine, "SSH refuses us")
            told = (
                f"{message}; SSH refuses us, as after repeated failed logins, and only a reboot by the cloud clears that: "
                "it is rebooted by the cloud"
            )
            machine = await self._begin(await context.again(machine), trouble, REBOOT, told)
            now = context.clock.now()
            machine = await context.save(machine, ready(machine.status, False, "HostInTrouble", told, now))
            return await self._reboot(machine, host)
        context.bootstrapper.forgive(host)
        await context.count(host, reboots=1)
        return RequeueAfter(_SOON)

    async def _reboot(self, machine: Machine, host: Host) -> RequeueAfter:
        context = self._context
        try:
            await context.fenced_cloud.reboot(host.spec.zone, host.spec.server_id)
        except (ScalewayError, LeaseTooShortError) as error:
            context.say(machine, "Warning", "RebootForRecoveryFailed", str(error))
            await self._note(machine, "the cloud refused")
            return RequeueAfter(_SOON)
        context.bootstrapper.forgive(host)
        await context.count(host, reboots=1)
        return RequeueAfter(_SOON)

    async def _begin(
        self, machine: Machine, trouble: Trouble, tier: int, message: str, record: Reinstall | None = None
    ) -> Machine:
        """Write the tier, and with it the intent of a reinstall, in the version that was judged."""
        context, now = self._context, self._context.clock.now().replace(microsecond=0)
        before = machine.status.remediation or Remediation(since=trouble.since)
        # The last tier is repeated for as long as the host is there: told once, with its last time, or the status would grow.
        earlier = tuple(each for each in before.tried if each.tier != tier)
        begun = replace(before, tried=(*earlier, RemediationAttempt(tier=tier, at=now)))
        if tier != KICK_SESSION or rank(tier) > rank(before.tier):
            # What is repeated between the others moves none of them.
            begun = replace(begun, tier=tier, at=now)
        context.say(machine, "Warning", "HostInTrouble", message)
        status: MachineStatus = replace(machine.status, remediation=begun)
        if record is not None:
            status = replace(status, reinstall=record)
        return await context.save(machine, status, guarded=True)

    async def _note(self, machine: Machine, note: str) -> None:
        """Why the last tier did not do what it should; told for people."""
        machine = await self._context.again(machine)
        known = machine.status.remediation
        if known is None or not known.tried:
            return
        tried = (*known.tried[:-1], replace(known.tried[-1], note=note))
        await self._context.save(machine, replace(machine.status, remediation=replace(known, tried=tried)))


def _saw(seen: HealthDetails | None) -> str:
    if seen is None:
        return "the provider's diagnosis could not be had"
    up = {"server": seen.is_server_alive, "agent": seen.is_agent_alive, "ssh": seen.is_ssh_port_up}
    return "the provider saw " + ", ".join(f"{name} {'up' if ok else 'down'}" for name, ok in up.items())


async def _silent(step: str) -> None:
    """A new start of an agent is one step, and is told by its event."""
