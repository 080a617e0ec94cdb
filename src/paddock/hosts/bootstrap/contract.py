"""What the machine controller asks of a bootstrap, and what it is told: by Machine and Host, without SSH or steps."""

from dataclasses import dataclass
from typing import Protocol

from paddock.base.secrets import Secret
from paddock.clients.gateway.mac_key import KeyAnswer
from paddock.clients.scaleway import Credentials
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

__all__ = ["BootstrapFailed", "Bootstrapped", "Bootstrapper", "KeyOffer", "ReportStep", "Run"]


@dataclass(frozen=True, slots=True)
class Bootstrapped:
    """The Mac is a fleet node now."""

    host_key: str
    config_hash: str


@dataclass(frozen=True, slots=True)
class BootstrapFailed:
    """It is not: which step failed, and why, without any secret.

    `blames_host` is False where neither a reboot nor a wipe of this host could help: then no tier counts it.
    """

    step: str
    message: str
    host_key: str = ""
    reason: str = "BootstrapFailed"
    blames_host: bool = True


@dataclass(frozen=True, slots=True)
class KeyOffer:
    """A key for the gateway, on its way to a Mac, and its number."""

    number: int
    key: Secret


class ReportStep(Protocol):
    """Told before each step of a bootstrap."""

    async def __call__(self, step: str) -> None: ...


class Run(Protocol):
    """One run on a Mac, long or short."""

    async def __call__(
        self,
        machine: ScalewayAppleSiliconMachine,
        host: ScalewayAppleSiliconHost,
        credentials: Credentials,
        progress: ReportStep,
    ) -> Bootstrapped | BootstrapFailed: ...


class Bootstrapper(Protocol):
    """Turns a claimed Mac into a fleet node, and keeps it one. Idempotent; never raises for what a Mac does wrong."""

    async def prepare_claim(self, machine: ScalewayAppleSiliconMachine) -> str | None:
        """What must be in place before a host is claimed; why it is not, or None."""
        ...

    def desired_hash(self, machine: ScalewayAppleSiliconMachine) -> str:
        """The hash of the configuration that the machine's host should carry."""
        ...

    async def identity_due(self, machine: ScalewayAppleSiliconMachine) -> bool:
        """Whether the node's own token must be renewed on its host: an update does that."""
        ...

    async def host_key(self, host: ScalewayAppleSiliconHost) -> str | None:
        """The SSH key that the host shows, without logging in; None if nothing answers."""
        ...

    @property
    def bootstrap(self) -> Run:
        """Everything, on a host on which nothing runs yet."""
        ...

    @property
    def update(self) -> Run:
        """What is safe on a live host."""
        ...

    @property
    def restart_agent(self) -> Run:
        """Start the node agent anew, and touch nothing else."""
        ...

    @property
    def kick_session(self) -> Run:
        """Log the user in anew where there is no console session; where a VM runs it fails, and nothing is done."""
        ...

    @property
    def soft_reboot(self) -> Run:
        """Ask the Mac itself to reboot; it ends what runs there."""
        ...

    async def give_key(
        self,
        machine: ScalewayAppleSiliconMachine,
        host: ScalewayAppleSiliconHost,
        credentials: Credentials,
        progress: ReportStep,
        *,
        offer: KeyOffer | None,
    ) -> KeyAnswer | BootstrapFailed:
        """Give the Mac a key for the gateway, or without an `offer` ask which it holds: safe on a live host. Only a host whose SSH
        key is pinned is given one. Where it failed, the Mac may have taken it all the same.
        """
        ...

    def forgive(self, host: ScalewayAppleSiliconHost) -> None:
        """The host was rebooted or reinstalled: what it did before says nothing about it any more."""
        ...

    async def forget(self, machine: ScalewayAppleSiliconMachine) -> None:
        """Remove what the machine was given, in the cluster; repeatable."""
        ...
