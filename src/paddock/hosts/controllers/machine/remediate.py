"""Performing the tiers for a host that runs and is in trouble; the decision is `paddock.hosts.remediation`."""

from msgspec.structs import replace

from paddock.clients.scaleway import HealthDetails, ScalewayError
from paddock.hosts.api import Remediation, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.contract import BootstrapFailed
from paddock.hosts.breaker import same_fleet
from paddock.hosts.controllers.context import ReconcileContext, ready
from paddock.hosts.controllers.disruption import DisruptionGate
from paddock.hosts.controllers.machine.bootstrap import BootstrapHost
from paddock.hosts.fenced_cloud import LeaseTooShortError
from paddock.hosts.remediation import (
    DEAD_AFTER,
    GiveUp,
    RebootHost,
    RestartAgent,
    Trouble,
    WaitForHost,
    next_step,
    proven_dead,
    trouble_of,
)
from paddock.kube.builtin import Node
from paddock.kube.controller import RequeueAfter

__all__ = ["RemediateHost"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_SOON = 60.0


class RemediateHost:
    """One machine a pass, one tier a pass. The tier is written before its effect: died in between, it counts as done, and
    the next one follows after its pause; a tier that is skipped costs time, one that is repeated could cost a job.
    """

    def __init__(self, context: ReconcileContext, prepare: BootstrapHost) -> None:
        self._context = context
        self._prepare = prepare
        self._gate = DisruptionGate(context)

    async def run(self, machine: Machine, host: Host, node: Node | None) -> RequeueAfter | Machine:
        """The machine, where it is well; otherwise when to look again."""
        context, now = self._context, self._context.clock.now()
        known = machine.status.remediation
        trouble = trouble_of(node, host, known, now)
        if trouble is None:
            if known is not None:
                machine = await context.save(machine, replace(machine.status, remediation=None))
                # A tier may have cordoned it, and somebody has helped it since.
                await self._gate.reopen(machine)
                context.say(machine, "Normal", "HostRecovered", f"host {host.metadata.name} is well again")
            return machine
        if known is None:
            begun = Remediation(since=trouble.since)
            machine = await context.save(machine, replace(machine.status, remediation=begun))
        step = next_step(trouble, machine.status, same_fleet(machine, context.machines.list()), now)
        if not isinstance(step, RebootHost | GiveUp):  # these are told when they may be done; until then the gate tells
            machine = await context.save(machine, ready(machine.status, False, "HostInTrouble", step.message, now))
        match step:
            case WaitForHost(_, seconds):
                return RequeueAfter(seconds)
            case RestartAgent(message):
                return await self._restart(await self._begin(machine, 1, message), host)
            case RebootHost(message):
                return await self._disrupt(machine, host, trouble, 2, message)
            case GiveUp(message):
                return await self._disrupt(machine, host, trouble, 3, message)

    async def _restart(self, machine: Machine, host: Host) -> RequeueAfter:
        credentials = await self._prepare.login(machine, host)
        outcome = await self._context.on_host(
            self._context.bootstrapper.restart_agent, machine, host, credentials, _silent
        )
        if isinstance(outcome, BootstrapFailed):
            self._context.say(machine, "Warning", "AgentRestartFailed", outcome.message)
        return RequeueAfter(_SOON)

    async def _disrupt(self, machine: Machine, host: Host, trouble: Trouble, tier: int, message: str) -> RequeueAfter:
        """A reboot or a give-back: never under a running job, unless the Mac is proven dead."""
        context = self._context
        gated = await self._gate.clear(machine, "reboot" if tier == 2 else "release")
        if isinstance(gated, RequeueAfter) and context.clock.now() - trouble.since < DEAD_AFTER:
            return gated
        seen = await self._prepare.health(host)
        if isinstance(gated, RequeueAfter):
            if not proven_dead(trouble, seen, context.clock.now()):
                return RequeueAfter(_SOON)
            machine = await context.again(machine)
        else:
            machine, _ = gated
        told = f"{message}; {_saw(seen)}"
        machine = await self._begin(machine, tier, told)
        machine = await context.save(machine, ready(machine.status, False, "HostInTrouble", told, context.clock.now()))
        if tier == 2:
            try:
                await context.fenced_cloud.reboot(host.spec.zone, host.spec.server_id)
            except (ScalewayError, LeaseTooShortError) as error:
                context.say(machine, "Warning", "RebootForRecoveryFailed", str(error))
                return RequeueAfter(_SOON)
            context.bootstrapper.forgive(host)
            await context.count(host, reboots=1)
            return RequeueAfter(_SOON)
        prefix = machine.spec.adopt_pool_prefix or context.settings.default_adopt_pool_prefix
        if not prefix:
            context.say(machine, "Warning", "GiveBackImpossible", "no pool is set, so the host stays as it is")
            return RequeueAfter(_SOON)
        return await self._prepare.give_back(machine, host, prefix, message, reason="HostInTrouble")

    async def _begin(self, machine: Machine, tier: int, message: str) -> Machine:
        context, now = self._context, self._context.clock.now().replace(microsecond=0)
        before = machine.status.remediation or Remediation()
        context.say(machine, "Warning", "HostInTrouble", message)
        return await context.save(machine, replace(machine.status, remediation=replace(before, tier=tier, at=now)))


def _saw(seen: HealthDetails | None) -> str:
    if seen is None:
        return "the provider's diagnosis could not be had"
    up = {"server": seen.is_server_alive, "agent": seen.is_agent_alive, "ssh": seen.is_ssh_port_up}
    return "the provider saw " + ", ".join(f"{name} {'up' if ok else 'down'}" for name, ok in up.items())


async def _silent(step: str) -> None:
    """A new start of an agent is one step, and is told by its event."""
