"""The bootstrap as the machine controller asks for it: by Machine and Host, with everything else found here.

It gathers what a run needs (the fleet's key, the node's identity, this machine's share of the configuration), waits for
the host's turn, and says how it ended in the controller's words.
"""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from paddock.base.clock import Clock
from paddock.base.names import FLEET_LABEL
from paddock.base.secrets import Secret
from paddock.clients.gateway.mac_key import KeyAnswer
from paddock.clients.scaleway import Cloud, Credentials, ScalewayError
from paddock.clients.ssh import BudgetedSsh, DialBudget, Ssh, SshError
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.config_hash import config_hash
from paddock.hosts.bootstrap.contract import BootstrapFailed, Bootstrapped, KeyOffer, ReportStep
from paddock.hosts.bootstrap.errors import PlanError
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.bootstrap.identity import NodeIdentity
from paddock.hosts.bootstrap.node_access import NodeAccess
from paddock.hosts.bootstrap.outcome import Failed, Outcome, ProgressCallback, Ready, StepProgress
from paddock.hosts.bootstrap.plan import FleetConfig, PerHost
from paddock.hosts.bootstrap.run import REACH, Bootstrap
from paddock.hosts.bootstrap.sequencing import Sequencing
from paddock.kube.builtin import Node
from paddock.kube.client import Client
from paddock.kube.errors import KubeError

__all__ = ["BootstrapContext", "FleetBootstrapper", "fleet_of", "key_name"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
_SSH_PORT: Final = 22
_Run = Callable[[PerHost, FleetConfig, ProgressCallback], Awaitable[Outcome]]


def key_name(machine: Machine) -> str:
    """Machines of one fleet share a key; a machine without a fleet has its own."""
    return machine.spec.fleet_name or f"{machine.metadata.namespace}-{machine.metadata.name}"


def fleet_of(machine: Machine, fleet: FleetConfig) -> FleetConfig:
    """The fleet's configuration with this machine's own offer of CPU and memory, and its fleet as a label. (pure)"""
    labels = dict(fleet.node_labels)
    if machine.spec.fleet_name:
        labels[FLEET_LABEL] = machine.spec.fleet_name
    return replace(
        fleet,
        host_cpu=machine.spec.host_cpu or fleet.host_cpu,
        host_memory_mb=machine.spec.host_memory_mb or fleet.host_memory_mb,
        node_labels=tuple(sorted(labels.items())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapContext:
    """What a bootstrap reaches: the cluster, the cloud, and hosts over SSH. Without `access` nodes get no identity."""

    client: Client
    cloud: Cloud
    ssh: Ssh
    clock: Clock
    rng: random.Random
    access: NodeAccess | None = None


class FleetBootstrapper:
    """Keeps the controller's contract (`contract.Bootstrapper`) with real steps over SSH.

    Its dials keep to a budget, `dials`.
    """

    def __init__(
        self,
        context: BootstrapContext,
        fleet: FleetConfig,
        *,
        port: int = _SSH_PORT,
        sequencing: Sequencing | None = None,
        bootstrap: Bootstrap | None = None,
    ) -> None:
        clock, rng = context.clock, context.rng
        self._client = context.client
        self._cloud = context.cloud
        self._fleet = fleet
        self._port = port
        self._access = context.access
        self._sequencing = sequencing or Sequencing(clock, rng)
        self.dials = DialBudget(clock, rng)
        self._ssh = BudgetedSsh(context.ssh, self.dials)
        self._bootstrap = bootstrap or Bootstrap(self._ssh, clock, rng)
        self._keys: dict[str, FleetKeys] = {}

    async def prepare_claim(self, machine: Machine) -> str | None:
        """Registers the fleet's key: a host that is claimed and wiped before that would never let us in."""
        try:
            await self._fleet_keys(machine).ensure(key_name(machine))
        except (KubeError, ScalewayError, SshError, PlanError) as error:
            return str(error)
        return None

    def desired_hash(self, machine: Machine) -> str:
        return config_hash(fleet_of(machine, self._fleet))

    async def bootstrap(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        return await self._perform(self._bootstrap.run, machine, host, credentials, progress, self._first)

    async def update(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        return await self._perform(self._bootstrap.update, machine, host, credentials, progress, self._next)

    async def restart_agent(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        return await self._perform(self._bootstrap.restart_agent, machine, host, credentials, progress)

    async def kick_session(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        return await self._perform(self._bootstrap.kick_session, machine, host, credentials, progress)

    async def soft_reboot(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        return await self._perform(self._bootstrap.soft_reboot, machine, host, credentials, progress)

    async def give_key(
        self,
        machine: Machine,
        host: Host,
        credentials: Credentials,
        progress: ReportStep,
        *,
        offer: KeyOffer | None,
    ) -> KeyAnswer | BootstrapFailed:
        if not host.status.host_key:
            return BootstrapFailed(
                REACH, "its SSH host key is not pinned, so that whoever answers may be another", blames_host=False
            )
        answers: list[KeyAnswer] = []

        async def give(per_host: PerHost, fleet: FleetConfig, told: ProgressCallback) -> Outcome:
            answer = await self._bootstrap.give_key(per_host, fleet, offer, told)
            if isinstance(answer, Failed):
                return answer
            answers.append(answer)
            return Ready(host_key=host.status.host_key, config_hash="")

        outcome = await self._perform(give, machine, host, credentials, progress)
        return outcome if isinstance(outcome, BootstrapFailed) else answers[0]

    async def identity_due(self, machine: Machine) -> bool:
        """Whether the node's identity must be renewed on its host from here before it ends."""
        meta = machine.metadata
        return self._access is not None and await self._access.due(meta.name, meta.namespace)

    async def host_key(self, host: Host) -> str | None:
        try:
            return await self._ssh.host_key(host.status.ip, self._port)
        except SshError:
            return None  # it is still starting, or dark: whoever needs it will say so

    async def forget(self, machine: Machine) -> None:
        """Removes the node's identity. The fleet's key stays: other machines use it."""
        if self._access is not None:
            await self._access.remove(machine.metadata.name, machine.metadata.namespace)

    def forgive(self, host: Host) -> None:
        """The host was rebooted or reinstalled: its failed dials say nothing about it any more."""
        self.dials.forgive(host.status.ip, self._port)

    # --- how -----------------------------------------------------------------------------------------------------

    async def _first(self, machine: Machine) -> NodeIdentity | None:
        meta = machine.metadata
        return None if self._access is None else await self._access.first(meta.name, meta.namespace)

    async def _next(self, machine: Machine) -> NodeIdentity | None:
        meta = machine.metadata
        return None if self._access is None else await self._access.next(meta.name, meta.namespace)

    async def _perform(
        self,
        run: _Run,
        machine: Machine,
        host: Host,
        credentials: Credentials,
        progress: ReportStep,
        identify: Callable[[Machine], Awaitable[NodeIdentity | None]] | None = None,
    ) -> Bootstrapped | BootstrapFailed:
        async def told(said: StepProgress) -> None:
            if said.state == "started":
                await progress(said.step)

        async with self._sequencing.turn(host.metadata.name):
            try:
                fleet = fleet_of(machine, self._fleet)
                pair = await self._fleet_keys(machine).ensure(key_name(machine))
                identity = None if identify is None else await identify(machine)
                per_host = await self._per_host(machine, host, credentials, pair.private, identity)
            except (KubeError, ScalewayError, SshError, PlanError) as error:
                # Not one word was said to the host, so nothing of this is its fault.
                return BootstrapFailed(
                    "prerequisites", str(error), host.status.host_key, "PrerequisitesUnavailable", blames_host=False
                )
            outcome = await run(per_host, fleet, told)
        if isinstance(outcome, Failed):
            return BootstrapFailed(
                outcome.step,
                outcome.detail,
                outcome.host_key or "",
                outcome.kind.value,
                blames_host=outcome.kind.blames_host,
            )
        if identity is not None and self._access is not None:
            with suppress(KubeError):  # what is not noted is given again
                await self._access.delivered(machine.metadata.name, machine.metadata.namespace, identity)
        return Bootstrapped(outcome.host_key, outcome.config_hash)

    async def _per_host(
        self,
        machine: Machine,
        host: Host,
        credentials: Credentials,
        key: Secret,
        identity: NodeIdentity | None,
    ) -> PerHost:
        return PerHost(
            address=host.status.ip,
            port=self._port,
            username=credentials.ssh_username,
            password=credentials.password,
            key=key,
            node_name=machine.metadata.name,
            provider_id=machine.spec.provider_id,
            kubeconfig=None if identity is None else identity.kubeconfig,
            host_key=host.status.host_key or None,
            fallback_address=await self._fallback(machine, host),
        )

    async def _fallback(self, machine: Machine, host: Host) -> str:
        """Where the Mac's own Node says that it is, beside the cloud's address: a private network may work when the other is filtered.

        Only for a host whose key is pinned: whoever else answers there is refused. Only updates use it.
        """
        if not host.status.host_key:
            return ""
        try:
            node = await self._client.get(Node, machine.metadata.name)
        except KubeError:
            return ""
        said = [each.address for each in node.status.addresses if each.type == "InternalIP"]
        return next((address for address in said if address not in ("", host.status.ip)), "")

    def _fleet_keys(self, machine: Machine) -> FleetKeys:
        namespace = machine.metadata.namespace
        if namespace not in self._keys:
            self._keys[namespace] = FleetKeys(self._client, self._cloud, namespace=namespace)
        return self._keys[namespace]
