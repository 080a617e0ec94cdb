"""A whole fleet in virtual time: the API, the cloud, and operators that can be killed, for tests and scenarios.

Everything is real but the clock, the network and the Macs: the controllers, the client, the informers, the embedded API
and the simulated cloud run as they do in `paddock up`, in one loop, from one seed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from paddock.base.clock import Clock
from paddock.base.metrics import CollectorRegistry
from paddock.base.secrets import Secret
from paddock.clients.scaleway import Credentials, ScalewayClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore
from paddock.hosts import api as hosts_api
from paddock.hosts.api import MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.controllers.tools import Bootstrapped, BootstrapFailed, Progress
from paddock.hosts.operator import HostOperator
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.leader import LeaderElector
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject, ObjectMeta
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.process import Process, World

__all__ = ["FleetWorld", "PaperBootstrap", "PaperMacs"]

Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
ADMIN = Secret("fleet-world-admin")
POOL = "tuist-pool-"


@dataclass
class PaperMacs:
    """Macs on paper: which hosts fail to bootstrap, and who has touched which host, so that tests can look."""

    broken: set[str] = field(default_factory=set)
    healed_by_reboot: set[str] = field(default_factory=set)
    touched: list[tuple[float, str, str]] = field(default_factory=list)
    seconds: float = 90.0


class PaperBootstrap:
    """A bootstrap that takes its time and succeeds, unless the host is broken."""

    def __init__(self, clock: Clock, macs: PaperMacs) -> None:
        self._clock = clock
        self._macs = macs

    async def prepare_claim(self, machine: Machine) -> str | None:  # noqa: ARG002 - paper has no keys
        return None

    def desired_hash(self, machine: Machine) -> str:  # noqa: ARG002 - one configuration for all
        return "config-1"

    async def update(
        self, machine: Machine, host: Host, credentials: Credentials, progress: Progress
    ) -> Bootstrapped | BootstrapFailed:
        return await self.bootstrap(machine, host, credentials, progress)

    restart_agent = update

    async def forget(self, machine: Machine) -> None:
        """Nothing was given."""

    async def bootstrap(
        self, machine: Machine, host: Host, credentials: Credentials, progress: Progress
    ) -> Bootstrapped | BootstrapFailed:
        assert credentials.password is not None
        await progress("reach ssh")
        self._macs.touched.append((self._clock.monotonic(), host.spec.server_id, machine.metadata.uid))
        await self._clock.sleep(self._macs.seconds)
        if host.spec.server_id in self._macs.broken:
            return BootstrapFailed("reach ssh", "the connection was refused", "")
        return Bootstrapped(f"SHA256:{host.spec.server_id[:8]}", "config-1")


class FleetWorld:
    """One cluster and one cloud. `operators` processes compete for the lease when there is more than one."""

    def __init__(
        self, world: World, *, hosts: int = 3, settings: HostSettings | None = None, operators: int = 1
    ) -> None:
        self.world = world
        self.clock = world.clock
        self.settings = settings or HostSettings(default_adopt_pool_prefix=POOL, inventory_interval=10.0)
        self.macs = PaperMacs()
        self.cloud = SimulatedCloud(self.clock, world.chance("cloud"))
        self.pool = self.cloud.seed_pool(hosts, server_type="M2-L", prefix=POOL)
        self.store = MemoryStore()
        self.plane = ControlPlane(
            self.store,
            self.clock,
            world.chance("api"),
            admin_token=ADMIN,
            signing_key=generate_key(),
            definitions=[crd_of(kind) for kind in hosts_api.KINDS],
        )
        self.ready = asyncio.Event()
        self.registry = CollectorRegistry()
        self.running: dict[str, HostOperator] = {}
        world.process("api", self._api)
        self.api = self.client(faults=False)
        self.operators: list[Process] = [
            world.process(f"operator-{number}", self._operator(f"operator-{number}", operators > 1), restart_after=2.0)
            for number in range(operators)
        ]

    async def _api(self) -> None:
        async with self.plane.running():
            self.ready.set()
            await asyncio.Event().wait()

    def client(self, *, faults: bool = True, timeout: float = 10.0) -> Client:
        transport = self.world.transport(
            self.plane.app, host=self.world.processes["api"], latency=(0.001, 0.02), faults=faults, purpose="kube"
        )
        config = Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN)))
        return Client(config, transport, timeout=timeout)

    def _operator(self, name: str, elect: bool) -> Callable[[], Awaitable[None]]:
        async def main() -> None:
            await self.ready.wait()
            chance = self.world.chance(name)
            metrics = KubeMetrics(CollectorRegistry())
            settings = replace(self.cloud.settings(), request_timeout=self.settings.request_timeout)
            transport = self.world.transport(self.cloud.app, latency=(0.05, 0.4), purpose="cloud")
            client = self.client()
            cloud = ScalewayClient(settings, self.clock, chance, transport=transport)
            elector = (
                LeaderElector(
                    client,
                    name="paddock",
                    namespace="default",
                    identity=f"{name}-{self.world.processes[name].starts}",
                    clock=self.clock,
                    chance=chance,
                    lease_duration=self.settings.lease_duration,
                    renew_deadline=self.settings.renew_deadline,
                    metrics=metrics,
                )
                if elect
                else None
            )
            manager = Manager(clock=self.clock, chance=chance, metrics=metrics, elector=elector)
            bootstrap = PaperBootstrap(self.clock, self.macs)
            self.running[name] = HostOperator(
                manager, client, cloud, bootstrap, self.settings, clock=self.clock, chance=chance, metrics=metrics
            )
            await manager.run()

        return main

    # What a person would do

    async def machine(self, name: str, **spec: str) -> Machine:
        await self.ready.wait()
        made = Machine(metadata=ObjectMeta(name=name, namespace="default"), spec=MachineSpec(**spec))  # pyright: ignore[reportArgumentType]
        return await self.api.create(made)

    async def create(self, obj: KubeObject) -> KubeObject:
        await self.ready.wait()
        return await self.api.create(obj)

    async def machines(self) -> Sequence[Machine]:
        return (await self.api.list(Machine, "default")).items

    async def hosts(self) -> dict[str, Host]:
        return {host.spec.server_id: host for host in (await self.api.list(Host, "default")).items}

    async def eventually(
        self, what: str, holds: Callable[[], Awaitable[bool]], within: float = 3600.0, every: float = 1.0
    ) -> None:
        """Wait in virtual time until something holds; the failure says what did not, and how everything stood."""
        deadline = self.clock.monotonic() + within
        while not await holds():
            if self.clock.monotonic() > deadline:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{await self.describe()}")
            await self.clock.sleep(every)

    async def all_ready(self, count: int, within: float = 3600.0) -> None:
        async def holds() -> bool:
            return sum(machine.status.ready for machine in await self.machines()) == count

        await self.eventually(f"{count} machines ready", holds, within)

    async def describe(self) -> str:
        lines = [f"at {self.clock.monotonic():.0f} s"]
        for machine in await self.machines():
            said = next((c.message for c in machine.status.conditions if c.type == "Ready"), "")
            lines.append(
                f"  machine {machine.metadata.name}: {machine.status.phase} host={machine.status.host_name} {said}"
            )
        ledger = await self.hosts()
        for server in self.cloud.hosts():
            host = ledger.get(server.id)
            owner = host.spec.claim.machine_name if host and host.spec.claim else "-"
            release = host.spec.release.wipe if host and host.spec.release else "-"
            lines.append(
                f"  host {server.id[:8]} {server.name}: claim={owner} release={release} state={host.status.state if host else '?'}"
            )
        return "\n".join(lines)
