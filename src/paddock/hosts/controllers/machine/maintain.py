"""Keeping a ready machine ready: its Node is there and well, and its host carries the fleet's configuration.

A host that may run jobs is only ever treated with what is safe on a live host: the agent is restarted, or the subset of
steps that updates allow; never a full bootstrap. So it passes no gate (`paddock.hosts.disruption`): VMs outlive the agent,
which finds them again by its journal, and a drain for every new token would cost more than it protects.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace

from paddock.hosts.api import (
    MachineStatus,
    Remediation,
    RemediationAttempt,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.hosts.bootstrap.contract import BootstrapFailed
from paddock.hosts.bootstrap.drift import (
    GaveUp,
    Update,
    UpToDate,
    WaitUntil,
    after_failed_update,
    after_update,
    decide,
    given_up,
)
from paddock.hosts.controllers.context import ReconcileContext, condition, ready
from paddock.hosts.controllers.health_check import HealthChecks
from paddock.hosts.controllers.machine.bootstrap import BootstrapHost, ShownSteps
from paddock.hosts.controllers.machine.remediate import RemediateHost
from paddock.hosts.remediation import AFTER, RESTART, SOFT_REBOOT
from paddock.hosts.validation import ignored_change
from paddock.hosts.verify import INTRODUCED, RESTORED, unheard
from paddock.kube.builtin import Node
from paddock.kube.conditions import get_condition
from paddock.kube.controller import RequeueAfter

__all__ = ["MaintainHost"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_WHEN_READY = 300.0
_NODE_GRACE = timedelta(minutes=2)
_WHEN_NODE_IS_MISSING = 60.0
_WHEN_INTRODUCED = 10.0


@dataclass(frozen=True, slots=True)
class _MissingNode:
    """There is no Node; `expected` says that it may still come by itself."""

    message: str
    expected: bool


class MaintainHost:
    """The last stage of a pass. It always ends in a sentence about the machine and a time to look again."""

    def __init__(self, context: ReconcileContext, prepare: BootstrapHost) -> None:
        self._context = context
        self._prepare = prepare
        self._remediate = RemediateHost(context, prepare)
        self._checks = HealthChecks(context)

    async def run(self, machine: Machine, host: Host) -> RequeueAfter:
        node = None
        if self._context.settings.expect_nodes:
            node = await self._context.fresh.get(Node, machine.metadata.name)
            if (silent := unheard(machine, node)) and _restored(machine):
                if await self.introduce(machine, host):
                    return RequeueAfter(_WHEN_INTRODUCED)
                return await self._unreachable(machine, host)
            if silent and node is not None and not self._long_silent(machine):
                return RequeueAfter(
                    _WHEN_INTRODUCED
                )  # a Node that came with a backup: its agent has been told, and comes
            if silent:
                node = None  # it did not come: what the backup says of the Mac counts for nothing
            if node is None and (missing := self._missing(machine)) is not None:
                return await self._restart_agent(machine, host, missing)
        # A Node that has been missing for so long that new starts of its agent do not help is a trouble as any other.
        missing_node = self._context.settings.expect_nodes and node is None
        looked_after = await self._remediate.run(machine, host, node, missing=missing_node)
        if isinstance(looked_after, RequeueAfter):
            return looked_after
        machine = looked_after
        rest = await self._follow_configuration(machine, host)
        # What a health check asks for has tiers with times of their own, while the machine itself is well.
        asked = machine.status.remediation is not None or await self._checks.asks(machine) is not None
        return RequeueAfter(min(rest.seconds, _WHEN_NODE_IS_MISSING)) if asked else rest

    # The Node

    def _missing(self, machine: Machine) -> _MissingNode | None:
        """Whether a Node that is not there is still to come, or is gone; None where it is gone for long."""
        now, known = self._context.clock.now(), machine.status.remediation
        bootstrapped = get_condition(machine.status.conditions, "Bootstrapped")
        since = bootstrapped.last_transition_time if bootstrapped is not None else None
        if since is not None and now - since < _NODE_GRACE:
            return _MissingNode(f"the Node {machine.metadata.name} has not registered yet", expected=True)
        if known is not None and known.since is not None and now - known.since >= AFTER[SOFT_REBOOT]:
            return None
        return _MissingNode(f"the Node {machine.metadata.name} is missing", expected=False)

    def _long_silent(self, machine: Machine) -> bool:
        """Whether the agent of a moved or restored machine has had the time in which any other comes back by itself."""
        said = get_condition(machine.status.conditions, "Bootstrapped")
        since = said.last_transition_time if said is not None else None
        return since is not None and self._context.clock.now() - since >= AFTER[SOFT_REBOOT]

    async def introduce(self, machine: Machine, host: Host, *, deleting: bool = False) -> bool:
        """The Mac of a moved or restored machine is a node of another cluster, or of none: an update gives its agent this
        one's address and an identity. Died behind it, the next pass does it again. Pods do not move with machines: the
        agent lets their jobs finish. Whether that worked; that the agent is heard of is another matter.
        """
        context, now = self._context, self._context.clock.now()
        if not deleting and machine.status.remediation is None:
            message = f"the Node {machine.metadata.name} is missing: its agent is told of this cluster"
            machine = await context.save(machine, ready(machine.status, False, "NodeMissing", message, now))
        credentials = await self._prepare.login(machine, host)
        steps = ShownSteps(context, machine, "Updating")
        outcome = await context.on_host(
            context.bootstrapper.update, machine, host, credentials, steps, although_deleted=deleting
        )
        machine = await context.again(machine)
        if isinstance(outcome, BootstrapFailed):
            context.say(machine, "Warning", "AgentRollFailed", outcome.message)
            return False
        await context.note_bootstrapped(machine, host, outcome.config_hash)
        told = f"host {host.metadata.name} is bootstrapped, and its agent was told of this cluster"
        status = replace(machine.status, host_config_hash=outcome.config_hash)
        await context.save(machine, condition(status, "Bootstrapped", True, INTRODUCED, told, context.clock.now()))
        return True

    async def _unreachable(self, machine: Machine, host: Host) -> RequeueAfter:
        """The Mac of a moved or restored machine that cannot be told of this cluster is in trouble as any other, and tried
        again in every pass. What disrupts it passes the gate, which waits for its report unless the Mac is proven dead.
        """
        machine = await self._context.again(machine)
        if machine.status.remediation is None:
            await self._in_trouble(machine)
            return RequeueAfter(_WHEN_NODE_IS_MISSING)
        looked_after = await self._remediate.run(machine, host, None, missing=True)
        return looked_after if isinstance(looked_after, RequeueAfter) else RequeueAfter(_WHEN_NODE_IS_MISSING)

    async def _in_trouble(self, machine: Machine) -> Machine:
        """The first tier, which repeats itself, begins: it is safe under VMs."""
        begun = self._context.clock.now().replace(microsecond=0)
        tried = RemediationAttempt(tier=RESTART, at=begun)
        trouble = Remediation(since=begun, tier=RESTART, at=begun, tried=(tried,))
        return await self._context.save(machine, replace(machine.status, remediation=trouble))

    async def _restart_agent(self, machine: Machine, host: Host, missing: _MissingNode) -> RequeueAfter:
        context, now = self._context, self._context.clock.now()
        message = f"{missing.message}; " + (
            "waited for" if missing.expected else "its agent is restarted, nothing else on the host is touched"
        )
        status = replace(machine.status, phase="Bootstrapping" if missing.expected else "Ready")
        machine = await context.save(machine, ready(status, False, "NodeMissing", message, now))
        if missing.expected:
            return RequeueAfter(10.0)
        context.say(machine, "Warning", "NodeMissing", message)
        if machine.status.remediation is None:
            machine = await self._in_trouble(machine)
        credentials = await self._prepare.login(machine, host)
        outcome = await context.on_host(context.bootstrapper.restart_agent, machine, host, credentials, _silent)
        if isinstance(outcome, BootstrapFailed):
            context.say(machine, "Warning", "AgentRestartFailed", outcome.message)
        return RequeueAfter(_WHEN_NODE_IS_MISSING)

    # The configuration

    async def _follow_configuration(self, machine: Machine, host: Host) -> RequeueAfter:
        context, now, status = self._context, self._context.clock.now(), machine.status
        desired = context.bootstrapper.desired_hash(machine)
        verdict = decide(
            applied=status.host_config_hash,
            desired=desired,
            failures=status.update_attempts,
            failed=status.failed_host_config_hash,
            last_failure=status.last_update_failure_time,
            now=now,
        )
        match verdict:
            case UpToDate() if await context.bootstrapper.identity_due(machine):
                return await self._update(machine, host, desired, "the token of its node is renewed", 0)
            case UpToDate():
                cleared = replace(status, phase="Ready", failure_reason="", failure_message="", update_attempts=0)
                return await self._well(machine, host, cleared, now)
            case WaitUntil(moment, reason):
                waiting = replace(status, phase="Ready")
                await self._well(machine, host, waiting, now, note=f"; the update failed: {reason}")
                return RequeueAfter(max((moment - now).total_seconds(), 1.0))
            case GaveUp(reason, rearms_at):
                note = f"; its configuration is old: {reason}"
                await self._well(machine, host, given_up(status, reason), now, note=note)
                wait = (rearms_at - now).total_seconds() if rearms_at is not None else _WHEN_READY
                return RequeueAfter(max(min(wait, _WHEN_READY), 1.0))
            case Update(reason, failures):
                return await self._update(machine, host, desired, reason, failures)

    async def _update(self, machine: Machine, host: Host, desired: str, reason: str, failures: int) -> RequeueAfter:
        context = self._context
        credentials = await self._prepare.login(machine, host)
        outcome = await context.on_host(
            context.bootstrapper.update, machine, host, credentials, ShownSteps(context, machine, "Updating")
        )
        machine, now = await context.again(machine), context.clock.now()
        if isinstance(outcome, BootstrapFailed):
            context.say(machine, "Warning", "AgentRollFailed", f"failure {failures + 1}: {outcome.message}")
            await context.save(machine, after_failed_update(machine.status, desired, failures, now))
            return RequeueAfter(60.0)
        await context.note_bootstrapped(machine, host, outcome.config_hash)
        context.say(machine, "Normal", "AgentRolled", f"the host carries the fleet's configuration: {reason}")
        return await self._well(machine, host, after_update(machine.status, outcome.config_hash), now)

    async def _well(
        self,
        machine: Machine,
        host: Host,
        status: MachineStatus,
        now: datetime,
        *,
        note: str = "",
    ) -> RequeueAfter:
        if ignored := ignored_change(machine, host):
            self._context.say(machine, "Warning", "SpecIgnored", ignored)
            note += f"; {ignored}"
        message = f"runs on host {host.metadata.name}{note}"
        status = condition(
            status, "Bootstrapped", True, "Bootstrapped", f"host {host.metadata.name} is bootstrapped", now
        )
        await self._context.save(machine, ready(replace(status, bootstrap_step=""), True, "Ready", message, now))
        return RequeueAfter(_WHEN_READY)


def _restored(machine: Machine) -> bool:
    said = get_condition(machine.status.conditions, "Bootstrapped")
    return said is not None and said.reason == RESTORED


async def _silent(step: str) -> None:
    """Restarting an agent is one step, and is told by its event."""
