"""Fake Macs: a bootstrap without SSH that is as strict as the real one about passwords, host keys and dark hosts."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from paddock.base.clock import Clock
from paddock.clients.gateway.mac_key import KeyAnswer, digits_of
from paddock.clients.scaleway import Credentials
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap.contract import BootstrapFailed, Bootstrapped, KeyOffer, ReportStep
from paddock.hosts.bootstrap.errors import FailureKind
from paddock.node.keys import Keys
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.cloud.state import Host as CloudHost

__all__ = ["FakeBootstrap", "FakeMacs", "Touch"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost


@dataclass(frozen=True)
class Touch:
    """An operator began to work on a host. `install` says on which disk: it grows with every wipe."""

    at: float
    server_id: str
    machine_uid: str
    install: int


@dataclass
class FakeMacs:
    """Which hosts fail to bootstrap, and who has touched which host, so that tests can look.

    A host in `broken` fails; one that is also in `healed_by_reboot` is well after its next reboot. `wrong_passwords` and
    `changed_keys` name the hosts on which a password or a pinned host key of an older install was tried: never right.
    """

    broken: set[str] = field(default_factory=set)
    refusing: dict[str, int] = field(default_factory=dict)
    """Hosts whose install of that number refuses the fleet's key, because it was made before the key was with the cloud."""
    healed_by_reboot: set[str] = field(default_factory=set)
    touched: list[Touch] = field(default_factory=list)
    wrong_passwords: list[str] = field(default_factory=list)
    changed_keys: list[str] = field(default_factory=list)
    bootstraps: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    config: str = "config-1"
    """The hash of the fleet's configuration: another one makes every host outdated."""
    seconds: float = 90.0
    silent: set[str] = field(default_factory=set)
    """Hosts that do not answer SSH at all: each attempt takes as long as the real one is patient."""
    patience: float = 300.0
    shut_out: set[str] = field(default_factory=set)
    """Hosts that shut our address out after failed logins, until the cloud reboots them."""
    soft_reboots: list[str] = field(default_factory=list)
    """Hosts that were asked over SSH to reboot, and did."""
    kicks: list[str] = field(default_factory=list)
    """Hosts whose user was logged in anew."""
    keys: dict[tuple[str, int], Keys] = field(default_factory=dict)
    """The keys for the gateway that lie on the disk of a host's install of that number."""
    keys_given: list[str] = field(default_factory=list)
    """Every key that reached a Mac, taken or not."""
    on_key: list[Callable[[str, KeyOffer | None], Awaitable[None]]] = field(default_factory=list)
    """Called before a key arrives at that host; what it raises is a connection that broke before."""
    lost_key_answers: int = 0
    """The answers of so many Macs that take a key are lost."""
    forgiven: list[str] = field(default_factory=list)
    """Hosts whose failed dials were forgotten, because they were rebooted or reinstalled."""

    def live_in(self, cloud: SimulatedCloud) -> None:
        """Let reboots in this cloud heal what they can."""
        cloud.on_reboot.append(self._rebooted)

    def _rebooted(self, host: CloudHost) -> None:
        self.shut_out.discard(host.id)
        if host.id in self.healed_by_reboot:
            self.broken.discard(host.id)


class FakeBootstrap:
    """A bootstrap that takes its time and succeeds, unless the host is broken, or (with a `cloud`) dark or another's."""

    def __init__(self, clock: Clock, macs: FakeMacs, cloud: SimulatedCloud | None = None) -> None:
        self._clock = clock
        self._macs = macs
        self._cloud = cloud

    async def prepare_claim(self, machine: Machine) -> str | None:  # noqa: ARG002 - a fake Mac has no keys
        return None

    async def identity_due(self, machine: Machine) -> bool:  # noqa: ARG002 - a fake Mac has no tokens
        return False

    async def host_key(self, host: Host) -> str | None:
        install = self._install(host.spec.server_id)
        return None if install is None else _host_key(host.spec.server_id, install)

    def desired_hash(self, machine: Machine) -> str:  # noqa: ARG002 - one configuration for all
        return self._macs.config

    async def update(
        self,
        machine: Machine,
        host: Host,
        credentials: Credentials,  # noqa: ARG002 - not needed, which is the point
        progress: ReportStep,
    ) -> Bootstrapped | BootstrapFailed:
        """As the real one: over the fleet's key, with sudo that asks for nothing, so that it needs no password."""
        self._macs.updates.append(host.spec.server_id)
        return await self._work(machine, host, progress)

    restart_agent = update

    async def kick_session(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        outcome = await self._work(machine, host, progress, credentials)
        if isinstance(outcome, Bootstrapped):
            self._macs.kicks.append(host.spec.server_id)
        return outcome

    async def soft_reboot(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        """As any reboot, for a Mac that answers; the cloud hears nothing of it."""
        outcome = await self._work(machine, host, progress, credentials)
        if isinstance(outcome, Bootstrapped) and self._cloud is not None:
            self._macs.soft_reboots.append(host.spec.server_id)
            self._cloud.restart(host.spec.server_id)
        return outcome

    async def give_key(
        self,
        machine: Machine,
        host: Host,
        credentials: Credentials,
        progress: ReportStep,
        *,
        offer: KeyOffer | None,
    ) -> KeyAnswer | BootstrapFailed:
        del machine, credentials  # the fleet's key opens a host that is bootstrapped
        macs, server_id = self._macs, host.spec.server_id
        install = self._install(server_id)
        await progress("reach ssh")
        if server_id in macs.silent:
            await self._clock.sleep(macs.patience)
            return BootstrapFailed("reach ssh", "nothing answers", "")
        if install is None or server_id in macs.shut_out or server_id in macs.broken:
            return BootstrapFailed("reach ssh", "the connection was refused", "", FailureKind.REFUSED)
        if host.status.host_key != _host_key(server_id, install):
            macs.changed_keys.append(server_id)
            return BootstrapFailed("reach ssh", "the host key is not the one that was pinned", "")
        await self._clock.sleep(1.0)
        for arriving in macs.on_key:
            await arriving(server_id, offer)
        if self._install(server_id) != install:
            return BootstrapFailed("gateway-key", "the connection broke", "")
        held = macs.keys.get((server_id, install), Keys())
        taken = None
        if offer is not None:
            macs.keys_given.append(offer.key.reveal())
            taken = held.offered(offer.key.reveal(), offer.number)
        macs.keys[server_id, install] = held = taken or held
        if taken is not None and macs.lost_key_answers:
            macs.lost_key_answers -= 1
            return BootstrapFailed("gateway-key", "the connection broke", "")
        await self._clock.sleep(1.0)
        return KeyAnswer(taken is not None, held.number, digits_of(held.proven), f"machine-of-{server_id}")

    def _install(self, server_id: str) -> int | None:
        """Which install is on the disk; None for a host that is dark."""
        if self._cloud is None:
            return 1
        mac = self._cloud.state.hosts.get(server_id)
        return mac.install if mac is not None and mac.powered else None

    def forgive(self, host: Host) -> None:
        self._macs.forgiven.append(host.spec.server_id)

    async def forget(self, machine: Machine) -> None:
        """Nothing was given."""

    async def bootstrap(
        self, machine: Machine, host: Host, credentials: Credentials, progress: ReportStep
    ) -> Bootstrapped | BootstrapFailed:
        assert credentials.password is not None
        self._macs.bootstraps.append(host.spec.server_id)
        return await self._work(machine, host, progress, credentials)

    async def _work(
        self, machine: Machine, host: Host, progress: ReportStep, login: Credentials | None = None
    ) -> Bootstrapped | BootstrapFailed:
        await progress("reach ssh")
        server_id = host.spec.server_id
        if server_id in self._macs.silent:
            await self._clock.sleep(self._macs.patience)
            return BootstrapFailed("reach ssh", "nothing answers", "")
        if server_id in self._macs.shut_out:
            return BootstrapFailed("reach ssh", "the connection was refused", "", FailureKind.REFUSED)
        install = 1
        if self._cloud is not None:
            mac = self._cloud.state.hosts.get(server_id)
            if mac is None or not mac.powered:
                return BootstrapFailed("reach ssh", "nothing answers", "")
            install = mac.install
            key = _host_key(server_id, install)
            if host.status.host_key not in ("", key):
                self._macs.changed_keys.append(server_id)
                return BootstrapFailed("reach ssh", "the host key is not the one that was pinned", "")
            if login is not None and login.password is not None and login.password.reveal() != mac.password:
                self._macs.wrong_passwords.append(server_id)
                return BootstrapFailed("sudo", "the password was refused", key)
        if self._macs.refusing.get(server_id) == install:
            return BootstrapFailed(
                "reach ssh", "the host refuses our key", _host_key(server_id, install), "SSHAuthRefused"
            )
        self._macs.touched.append(Touch(self._clock.monotonic(), server_id, machine.metadata.uid, install))
        await self._clock.sleep(self._macs.seconds)
        if server_id in self._macs.broken:
            return BootstrapFailed("reach ssh", "the connection was refused", "")
        return Bootstrapped(_host_key(server_id, install), self._macs.config)


def _host_key(server_id: str, install: int) -> str:
    return f"SHA256:{server_id[:8]}/{install}"
