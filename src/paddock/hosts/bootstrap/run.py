"""Doing it: reach the host, run the steps in order, and say how it ended.

What can be expected to go wrong is an `Outcome`; only mistakes of the program raise. A run may be cancelled or die
anywhere: every step checks before it changes, so the next run goes on from what is there.
"""

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.gateway.mac_key import KeyAnswer
from paddock.clients.ssh import (
    AuthRefused,
    ConnectionLost,
    Hanging,
    HostKeyChanged,
    HostKeyUnpinned,
    KeyUnusable,
    Refused,
    Shell,
    Ssh,
    SshError,
    Target,
    TimedOut,
    Unreachable,
)
from paddock.hosts.bootstrap.config_hash import config_hash
from paddock.hosts.bootstrap.contract import KeyOffer
from paddock.hosts.bootstrap.errors import FailureKind, StepFailedError
from paddock.hosts.bootstrap.outcome import Failed, Outcome, ProgressCallback, Ready, StepProgress, silent
from paddock.hosts.bootstrap.payload_source import PayloadFiles
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.steps import all_steps, live_steps
from paddock.hosts.bootstrap.steps.gateway_key import take_key
from paddock.hosts.bootstrap.steps.payloads import restart_job
from paddock.hosts.bootstrap.steps.step import Skipped, Step, StepResult, StepShell

__all__ = ["REACH", "Bootstrap", "failure_kind"]

REACH = "reach-ssh"
"""The name of the step before all steps."""

_log = get_logger("bootstrap")
_KINDS: tuple[tuple[type[SshError], FailureKind], ...] = (
    (AuthRefused, FailureKind.AUTH_REFUSED),
    (HostKeyChanged, FailureKind.HOST_KEY_CHANGED),
    (Refused, FailureKind.REFUSED),
    (TimedOut, FailureKind.TIMED_OUT),
    (Hanging, FailureKind.HANGS),
    (ConnectionLost, FailureKind.CONNECTION_LOST),
    (KeyUnusable, FailureKind.CONFIGURATION),
    (HostKeyUnpinned, FailureKind.CONFIGURATION),
)
Apply = Callable[[StepShell], Awaitable[StepResult | Skipped]]


def failure_kind(error: SshError) -> FailureKind:
    """Which kind of failure an error of SSH is; each has its own remedy."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), FailureKind.STEP_FAILED)


class Bootstrap:
    """Runs on many hosts at once; it holds no state of any of them. Whether two runs on one host may overlap is the
    caller's business (`Sequencing.turn`).

    `reach_for` is how long a first bootstrap waits for a host that is still starting. `ssh` should keep to a dial
    budget (`BudgetedSsh`): the waiting here only decides when to give up.
    """

    def __init__(
        self,
        ssh: Ssh,
        clock: Clock,
        rng: random.Random,
        *,
        reach_for: float = 300.0,
        dial_timeout: float = 15.0,
        between_dials: float = 10.0,
    ) -> None:
        self._ssh = ssh
        self._clock = clock
        self._rng = rng
        self._reach_for = reach_for
        self._dial_timeout = dial_timeout
        self._between_dials = between_dials
        self._payloads = PayloadFiles()

    async def run(self, host: PerHost, fleet: FleetConfig, progress: ProgressCallback = silent) -> Outcome:
        """Everything, on a host on which nothing runs yet. Never call it for a host that may run virtual machines."""
        steps = [(step.name, step.timeout, _applying(step, host, fleet)) for step in all_steps(fleet)]
        return await self._perform(host, fleet, steps, progress, reach_for=self._reach_for)

    async def update(self, host: PerHost, fleet: FleetConfig, progress: ProgressCallback = silent) -> Outcome:
        """Bring a live host up to the fleet's configuration: only steps that are safe under running machines."""
        steps = [(step.name, step.timeout, _applying(step, host, fleet)) for step in live_steps(fleet)]
        return await self._perform(host, fleet, steps, progress, reach_for=0.0)

    async def restart_agent(self, host: PerHost, fleet: FleetConfig, progress: ProgressCallback = silent) -> Outcome:
        """For a Node that went missing: start the node agent anew, and touch nothing else."""
        agent = fleet.agent
        if agent is None:
            return Failed(
                step="restart-agent",
                kind=FailureKind.CONFIGURATION,
                message="the fleet's configuration names no node agent: mark one payload as the agent",
                host_key=host.host_key,
            )

        async def restart(shell: StepShell) -> StepResult:
            return await restart_job(shell, agent, host, fleet)

        return await self._perform(host, fleet, [("restart-agent", 120.0, restart)], progress, reach_for=0.0)

    async def soft_reboot(self, host: PerHost, fleet: FleetConfig, progress: ProgressCallback = silent) -> Outcome:
        """Ask the Mac to reboot, in order, some seconds after we have hung up. It ends what runs there: the caller has seen
        that nobody works there. An answer that is lost says nothing: it may reboot all the same.
        """

        async def reboot(shell: StepShell) -> StepResult:
            return await shell.run("soft_reboot")

        return await self._perform(host, fleet, [("soft-reboot", 60.0, reboot)], progress, reach_for=0.0)

    async def kick_session(self, host: PerHost, fleet: FleetConfig, progress: ProgressCallback = silent) -> Outcome:
        """Log the user in anew where there is no console session. It would end every VM: the caller has seen that nobody works
        there, and where the Mac itself runs one it refuses.
        """

        async def kick(shell: StepShell) -> StepResult:
            return await shell.run("kick_session", host.username)

        return await self._perform(host, fleet, [("kick-session", 90.0, kick)], progress, reach_for=0.0)

    async def give_key(
        self, host: PerHost, fleet: FleetConfig, offer: KeyOffer | None, progress: ProgressCallback = silent
    ) -> KeyAnswer | Failed:
        """Give the Mac a key for the gateway, or ask which it holds; safe under its machines, beside its agent.

        An answer that is lost says nothing: the Mac may have taken the key.
        """
        answers: list[KeyAnswer] = []

        async def give(shell: StepShell) -> StepResult:
            answers.append(await take_key(shell, host, fleet, offer))
            return StepResult()

        outcome = await self._perform(host, fleet, [("gateway-key", 60.0, give)], progress, reach_for=0.0)
        return outcome if isinstance(outcome, Failed) else answers[0]

    async def only(
        self, host: PerHost, fleet: FleetConfig, steps: Sequence[Step], progress: ProgressCallback = silent
    ) -> Outcome:
        """Just these steps. For `paddock prepare-host`; the hash in the outcome says nothing about the others."""
        chosen = [(step.name, step.timeout, _applying(step, host, fleet)) for step in steps]
        return await self._perform(host, fleet, chosen, progress, reach_for=0.0)

    # --- how -----------------------------------------------------------------------------------------------------

    async def _perform(
        self,
        host: PerHost,
        fleet: FleetConfig,
        steps: Sequence[tuple[str, float, Apply]],
        progress: ProgressCallback,
        *,
        reach_for: float,
    ) -> Outcome:
        of = len(steps) + 1
        host_key = host.host_key
        step, number, began = REACH, 1, self._clock.monotonic()
        changed: list[str] = []
        skipped: list[tuple[str, str]] = []
        notes: list[str] = []
        await progress(StepProgress(REACH, 1, of, "started"))
        try:
            async with self._reached(host, reach_for) as shell:
                host_key = shell.host_key
                await progress(StepProgress(REACH, 1, of, "unchanged", "", self._clock.monotonic() - began))
                for number, (step, timeout, apply) in enumerate(steps, 2):
                    await progress(StepProgress(step, number, of, "started"))
                    began = self._clock.monotonic()
                    result = await apply(StepShell(shell, self._clock, host, self._payloads, timeout))
                    took = self._clock.monotonic() - began
                    if result.changes:
                        changed.append(step)
                    if isinstance(result, Skipped):
                        skipped.append((step, result.reason))
                        await progress(StepProgress(step, number, of, "skipped", result.reason, took))
                        continue
                    notes += [f"{step}: {text}" for text in result.notes]
                    said = ", ".join(result.changes)
                    await progress(StepProgress(step, number, of, "changed" if said else "unchanged", said, took))
        except StepFailedError as error:
            failed = Failed(
                step=step,
                kind=error.kind,
                message=error.message,
                exit_status=error.exit_status,
                stderr=error.stderr,
                host_key=host_key,
                changed_steps=tuple(changed),
            )
        except SshError as error:
            failed = Failed(
                step=step,
                kind=failure_kind(error),
                message=f"{error}. {error.advice}",
                host_key=host_key,
                changed_steps=tuple(changed),
            )
        else:
            return Ready(
                host_key=host_key or "",
                config_hash=config_hash(fleet),
                changed_steps=tuple(changed),
                skipped=tuple(skipped),
                notes=tuple(notes),
            )
        await progress(StepProgress(step, number, of, "failed", failed.sentence, self._clock.monotonic() - began))
        _log.warning("the host is not ready", address=host.address, node=host.node_name, step=step, why=failed.sentence)
        return failed

    @asynccontextmanager
    async def _reached(self, host: PerHost, reach_for: float) -> AsyncIterator[Shell]:
        """A shell on the host. Waits only for what waiting can help: a host that is still starting.

        A refused key and a changed host key are answers, and asking again gives the same one.
        """
        deadline = self._clock.monotonic() + reach_for
        addresses = [host.address]
        if host.fallback_address and not reach_for:
            addresses.append(host.fallback_address)
        while True:
            failure: Unreachable | ConnectionLost | None = None
            for address in addresses:
                target = Target(address, host.port, host.username, host.key, host.host_key)
                async with AsyncExitStack() as session:
                    try:
                        shell = await session.enter_async_context(self._ssh.connect(target, timeout=self._dial_timeout))
                    except (Unreachable, ConnectionLost) as error:
                        failure = failure or error
                        continue
                    # Outside the `try`: what breaks while the caller works is the caller's, and is not dialled again.
                    yield shell
                    return
            assert failure is not None
            wait = self._between_dials * self._rng.uniform(1.0, 1.5)
            if self._clock.monotonic() + wait > deadline:
                raise failure
            await self._clock.sleep(wait)


def _applying(step: Step, host: PerHost, fleet: FleetConfig) -> Apply:
    async def apply(shell: StepShell) -> StepResult | Skipped:
        return await step.apply(shell, host, fleet)

    return apply
