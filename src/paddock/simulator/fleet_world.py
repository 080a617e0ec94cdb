"""A whole fleet in virtual time: the API, the cloud, and operators that can be killed, for tests and scenarios.

Everything is real but the clock, the network and the Macs: the controllers, the client, the informers, the embedded API
and the simulated cloud run as they do in `paddock up`, in one loop, from one seed.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import httpx2
import msgspec

from paddock.base.clock import Clock
from paddock.base.metrics import CollectorRegistry
from paddock.base.secrets import Secret
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.api.client_authority import ClientAuthority
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import cluster_api_definitions
from paddock.embedded.store.interface import Key
from paddock.embedded.store.memory import MemoryStore
from paddock.hosts import api as hosts_api
from paddock.hosts.api import MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.disruption import WorkLedger
from paddock.hosts.operator import HostOperator
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.leader import LeaderElectionConfig, LeaderElector
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject, ObjectMeta
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.cloud.state import Host as CloudHost
from paddock.simulator.fake_macs import FakeBootstrap, FakeMacs, Touch
from paddock.simulator.process import Process, World

__all__ = ["POOL", "FakeBootstrap", "FakeMacs", "FleetWorld", "Touch", "Wipe"]

T = TypeVar("T", bound=KubeObject)
Machine = ScalewayAppleSiliconMachine
Host = ScalewayAppleSiliconHost
ADMIN = Secret("fleet-world-admin")
POOL = "tuist-pool-"
_MACHINES = ScalewayAppleSiliconMachine.RESOURCE


@dataclass(frozen=True)
class Wipe:
    """A disk that was lost. `victim` is the live machine that had proven the host to be its own and did not ask for it."""

    at: float
    server_id: str
    how: Literal["reinstall", "delete"]
    victim: str = ""


class GlassStore(MemoryStore):
    """A store that can be looked into without a request, so that tests can watch every moment."""

    def present(self, kind: type[T]) -> list[T]:
        """Every object of a kind as it is now."""
        group = kind.RESOURCE.group
        resource = f"{kind.RESOURCE.plural}.{group}" if group else kind.RESOURCE.plural
        page = self._state.page(resource, None, 0, None, None)
        return [msgspec.json.decode(record.value, type=kind) for record in page.records]


class LaggingTransport(httpx2.AsyncBaseTransport):
    """Watches of this client are late: what comes is held for `seconds`, so caches show the past."""

    def __init__(self, inner: httpx2.AsyncBaseTransport, clock: Clock, seconds: float) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = seconds

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if "watch" not in request.url.params:
            return response
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        stream = _LateBody(response.stream, self._clock, self._seconds)
        return httpx2.Response(response.status_code, headers=response.headers, stream=stream)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LateBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, clock: Clock, seconds: float) -> None:
        self._inner = inner
        self._clock = clock
        self._seconds = seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        asked = self._clock.monotonic()
        async for chunk in self._inner:
            # What came while the last chunk waited has waited, too: the lag does not add up.
            if self._clock.monotonic() > asked:
                await self._clock.sleep(self._seconds)
            yield chunk
            asked = self._clock.monotonic()

    async def aclose(self) -> None:
        await self._inner.aclose()


class FleetWorld:
    """One cluster and one cloud. `operators` processes compete for the lease when there is more than one.

    With `elect=False` they do not, and each believes that it leads. `lag` is how many seconds their caches are behind.
    A second cluster in the same project is a second FleetWorld with the first one's `cloud` and a `name` of its own.
    `cluster_api` serves Cluster API's kinds, too.
    """

    def __init__(
        self,
        world: World,
        *,
        hosts: int = 3,
        settings: HostSettings | None = None,
        operators: int = 1,
        elect: bool | None = None,
        lag: float = 0.0,
        cloud: SimulatedCloud | None = None,
        name: str = "",
        cluster_api: bool = False,
    ) -> None:
        self.world = world
        self.clock = world.clock
        self.settings = settings or HostSettings(default_adopt_pool_prefix=POOL, inventory_interval=10.0)
        self.macs = FakeMacs()
        self.cloud = cloud or SimulatedCloud(self.clock, world.rng("cloud"))
        self.pool = self.cloud.seed_pool(hosts, server_type="M2-L", prefix=POOL)
        self.wipes: list[Wipe] = []
        self.macs.live_in(self.cloud)
        self.cloud.on_power.append(self._went_dark)
        self.cloud.on_delete.append(lambda host: self._wiped(host, "delete"))
        self.store = GlassStore()
        self._api_name, self._lag = f"{name}api", lag
        self.plane = ControlPlane(
            self.store,
            self.clock,
            world.rng(self._api_name),
            admin_token=ADMIN,
            signing_key=generate_key(),
            authority=ClientAuthority.made(self.clock.now()),
            machines=f"{_MACHINES.plural}.{_MACHINES.group}",
            definitions=[
                *(crd_of(kind) for kind in hosts_api.KINDS),
                *(cluster_api_definitions() if cluster_api else ()),
            ],
        )
        self.ready = asyncio.Event()
        self.registry = CollectorRegistry()
        self.running: dict[str, HostOperator] = {}
        self.work: WorkLedger | None = None
        """Dispatch's word on who works, for operators that start from now on; they have none unless it is set."""
        world.process(self._api_name, self._api)
        self.api = self.client(faults=False)
        elected = operators > 1 if elect is None else elect
        self.operators: list[Process] = [
            world.process(each, self._operator(each, elected), restart_after=2.0)
            for each in (f"{name}operator-{number}" for number in range(operators))
        ]

    async def _api(self) -> None:
        async with self.plane.running():
            self.ready.set()
            await asyncio.Event().wait()

    def client(self, *, faults: bool = True, timeout: float = 10.0, lag: float = 0.0) -> Client:
        transport = self.world.transport(
            self.plane.app,
            host=self.world.processes[self._api_name],
            latency=(0.001, 0.02),
            faults=faults,
            purpose="kube",
        )
        if lag:
            transport = LaggingTransport(transport, self.clock, lag)
        config = Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN)))
        return Client(config, transport, timeout=timeout)

    def _operator(self, name: str, elect: bool) -> Callable[[], Coroutine[Any, Any, None]]:
        async def main() -> None:
            await self.ready.wait()
            rng = self.world.rng(name)
            metrics = KubeMetrics(CollectorRegistry())
            settings = replace(self.cloud.settings(), request_timeout=self.settings.request_timeout)
            transport = self.world.transport(self.cloud.app, latency=(0.05, 0.4), purpose="cloud")
            client = self.client(timeout=self.settings.request_timeout, lag=self._lag)
            cloud = ScalewayClient(settings, self.clock, rng, transport=transport)
            elector = (
                LeaderElector(
                    client,
                    LeaderElectionConfig(
                        name="paddock",
                        namespace="default",
                        identity=f"{name}-{self.world.processes[name].starts}",
                        lease_duration=self.settings.lease_duration,
                        renew_deadline=self.settings.renew_deadline,
                    ),
                    clock=self.clock,
                    rng=rng,
                    metrics=metrics,
                )
                if elect
                else None
            )
            manager = Manager(clock=self.clock, rng=rng, metrics=metrics, elector=elector)
            bootstrap = FakeBootstrap(self.clock, self.macs, self.cloud)
            self.running[name] = HostOperator(
                manager,
                client,
                cloud,
                bootstrap,
                self.settings,
                work=self.work,
                new_key=lambda: Secret(f"{rng.getrandbits(256):064x}"),
            )
            await manager.run()

        return main

    # What the Macs saw

    def _went_dark(self, host: CloudHost, on: bool) -> None:
        if not on and host.activity == "reinstalling":
            self._wiped(host, "reinstall")

    def _wiped(self, host: CloudHost, how: Literal["reinstall", "delete"]) -> None:
        """Write down a wipe, and whose disk it was at this very moment."""
        ledger = {each.spec.server_id: each for each in self.store.present(Host)}
        for machine in self.store.present(Machine):
            owns = machine.status.server_id == host.id and machine.status.claim_verified
            alive = machine.metadata.deletion_timestamp is None
            if owns and alive and not _asked_for(machine, ledger.get(host.id)):
                self.wipes.append(Wipe(self.clock.monotonic(), host.id, how, machine.metadata.name))
                return
        self.wipes.append(Wipe(self.clock.monotonic(), host.id, how))

    # What a person would do

    async def machine(self, name: str, **spec: str) -> Machine:
        await self.ready.wait()
        made = Machine(metadata=ObjectMeta(name=name, namespace="default"), spec=MachineSpec(**spec))  # pyright: ignore[reportArgumentType]
        return await self.api.create(made)

    async def create(self, obj: KubeObject) -> KubeObject:
        await self.ready.wait()
        return await self.api.create(obj)

    async def force_delete(self, name: str) -> None:
        """Remove a machine past its finalizer, at one stroke: no operator hears of it before it is gone."""
        key = Key(f"{Machine.RESOURCE.plural}.{Machine.RESOURCE.group}", "default", name)
        found = await self.store.get(key)
        assert found is not None, f"there is no machine {name}"
        await self.store.delete(key, found.revision)

    async def machines(self) -> Sequence[Machine]:
        return self.store.present(Machine)

    async def hosts(self) -> dict[str, Host]:
        return {host.spec.server_id: host for host in self.store.present(Host)}

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


def _asked_for(machine: Machine, host: Host | None) -> bool:
    """Whether the machine itself gave the host back, or has it reinstalled in place."""
    if machine.status.reinstall is not None:
        return True
    if host is None or host.spec.release is None or host.spec.claim is None:
        return False
    mine = host.spec.claim.machine_uid == machine.metadata.uid
    return mine and host.spec.release.reason in {"MachineDeleted", "BootstrapExhausted"}
