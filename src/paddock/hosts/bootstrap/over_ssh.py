"""The machine controller's way to a Mac: fleet key, node identity, credentials and configuration put together for one run."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import replace

from paddock.base.clock import Clock
from paddock.clients.scaleway import Cloud, Credentials, ScalewayError
from paddock.clients.ssh import BudgetedSsh, DialBudget, Ssh
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.config_hash import config_hash
from paddock.hosts.bootstrap.errors import BootstrapError
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import NodeIdentities
from paddock.hosts.bootstrap.outcome import Failed, Outcome, Ready
from paddock.hosts.bootstrap.outcome import Progress as StepProgress
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.run import Bootstrap
from paddock.hosts.bootstrap.sequencing import Sequencing
from paddock.hosts.controllers.tools import BootstrapFailed, Bootstrapped, Progress
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.errors import KubeError

__all__ = ["SshBootstrapper", "fleet_of", "ssh_bootstrapper"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
FLEET_LABEL = "tuist.dev/fleet"


def ssh_bootstrapper(
    client: Client,
    cloud: Cloud,
    ssh: Ssh,
    config: FleetConfig,
    settings: HostSettings,
    *,
    clock: Clock,
    chance: random.Random,
    identities: NodeIdentities | None = None,
) -> "SshBootstrapper":
    """The bootstrapper of a process: one budget of dials and one queue of runs for all its hosts."""
    return SshBootstrapper(
        Bootstrap(BudgetedSsh(ssh, DialBudget(clock, chance)), clock, chance),
        FleetKeys(client, cloud, namespace=settings.namespace),
        Sequencing(clock, chance, parallel=settings.workers, spread=settings.bootstrap_spread),
        config_of=lambda _: config,
        identities=identities,
    )


class SshBootstrapper:
    """Keeps the `Bootstrapper` contract over SSH. What is missing before a Mac is touched is a failed step, not an error."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        keys: FleetKeys,
        sequencing: Sequencing,
        *,
        config_of: Callable[[Machine], FleetConfig],
        identities: NodeIdentities | None = None,
    ) -> None:
        self._bootstrap = bootstrap
        self._keys = keys
        self._sequencing = sequencing
        self._config_of = config_of
        self._identities = identities

    async def prepare_claim(self, machine: Machine) -> str | None:
        """Have the fleet's key registered before a host is claimed: keys reach a Mac at order and reinstall only."""
        try:
            await self._keys.ensure(fleet_of(machine))
        except (KubeError, ScalewayError) as error:
            return str(error)
        return None

    def desired_hash(self, machine: Machine) -> str:
        return config_hash(self._config(machine))

    async def bootstrap(
        self, machine: Machine, host: Host, credentials: Credentials, progress: Progress
    ) -> Bootstrapped | BootstrapFailed:
        return await self._run(self._bootstrap.run, machine, host, credentials, progress)

    async def update(
        self, machine: Machine, host: Host, credentials: Credentials, progress: Progress
    ) -> Bootstrapped | BootstrapFailed:
        return await self._run(self._bootstrap.update, machine, host, credentials, progress)

    async def restart_agent(
        self, machine: Machine, host: Host, credentials: Credentials, progress: Progress
    ) -> Bootstrapped | BootstrapFailed:
        return await self._run(self._bootstrap.restart_agent, machine, host, credentials, progress)

    async def forget(self, machine: Machine) -> None:
        """Remove what the machine was given: its identity in the cluster."""
        if self._identities is not None:
            await self._identities.remove(machine.metadata.name)

    def _config(self, machine: Machine) -> FleetConfig:
        """The fleet's configuration with what this machine asks for itself; that is part of the hash."""
        config, spec = self._config_of(machine), machine.spec
        labels = dict(config.node_labels) | {FLEET_LABEL: fleet_of(machine)}
        return replace(
            config,
            host_cpu=spec.host_cpu or config.host_cpu,
            host_memory_mb=spec.host_memory_mb or config.host_memory_mb,
            node_labels=tuple(sorted(labels.items())),
        )

    async def _run(
        self,
        run: Callable[..., Awaitable[Outcome]],
        machine: Machine,
        host: Host,
        credentials: Credentials,
        progress: Progress,
    ) -> Bootstrapped | BootstrapFailed:
        address = next((a.address for a in machine.status.addresses if a.type == "ExternalIP"), host.status.ip)
        if not address:
            return BootstrapFailed("address", "the cloud shows no address for the host yet", blames_host=False)
        try:
            per_host = await self._per_host(machine, host, credentials, address)
        except (KubeError, ScalewayError, BootstrapError) as error:
            return BootstrapFailed("prerequisites", str(error), blames_host=False)

        async def tell(step: StepProgress) -> None:
            if step.state == "started":
                await progress(f"{step.step} ({step.number} of {step.of})")

        async with self._sequencing.turn(host.metadata.name):
            outcome = await run(per_host, self._config(machine), tell)
        return _told(outcome)

    async def _per_host(self, machine: Machine, host: Host, credentials: Credentials, address: str) -> PerHost:
        pair = await self._keys.ensure(fleet_of(machine))
        identity = await self._identities.ensure(machine.metadata.name) if self._identities is not None else None
        return PerHost(
            address=address,
            key=pair.private,
            node_name=machine.metadata.name,
            username=credentials.ssh_username,
            password=credentials.password,
            provider_id=machine.spec.provider_id,
            kubeconfig=identity.kubeconfig if identity is not None else None,
            host_key=host.status.host_key or None,
        )


def fleet_of(machine: Machine) -> str:
    """The fleet whose key opens the host; a machine without one is a fleet of its own."""
    return machine.spec.fleet_name or f"{machine.metadata.namespace}-{machine.metadata.name}"


def _told(outcome: Outcome) -> Bootstrapped | BootstrapFailed:
    match outcome:
        case Ready():
            return Bootstrapped(outcome.host_key, outcome.config_hash)
        case Failed():
            return BootstrapFailed(
                outcome.step,
                outcome.sentence,
                outcome.host_key or "",
                reason=outcome.kind.value,
                blames_host=outcome.kind.blames_host,
            )
