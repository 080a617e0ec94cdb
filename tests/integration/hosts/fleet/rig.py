"""A fleet of one simulated Mac: the controllers, the API and the scripts are real."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.embedded.store.memory import MemoryStore
from paddock.hosts.api import MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.bootstrap import Bootstrap, FleetConfig, Sequencing
from paddock.hosts.bootstrap.fleet_bootstrapper import BootstrapContext, FleetBootstrapper
from paddock.hosts.bootstrap.fleet_key import FleetKeys
from paddock.hosts.operator import HostOperator
from paddock.hosts.recovery import Tiers
from paddock.hosts.settings import HostSettings
from paddock.kube.builtin import Event
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.manager import Manager
from paddock.kube.objects import ObjectMeta
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.mac import Fleet, Pace, SimulatedMac
from paddock.simulator.transport import InProcessTransport

ADMIN = Secret("broken-macs")
SETTINGS = HostSettings(
    default_adopt_pool_prefix="tuist-pool-",
    inventory_interval=0.3,
    reclaim_interval=60.0,
    lease_duration=0.0,
    request_timeout=0.3,
    bootstrap_spread=0.0,
    tiers=Tiers(reboot_after=2, max_attempts=4, sealed_timeout=timedelta(seconds=2), retry_seconds=0.3),
)


@dataclass
class Rig:
    cloud: SimulatedCloud
    macs: Fleet
    client: Client
    store: MemoryStore

    async def machine(self) -> Machine:
        return await self.client.get(Machine, "mac-1", "default")

    async def ready(self, within: float = 90.0) -> Machine:
        async with asyncio.timeout(within):
            while not (machine := await self.machine()).status.ready:
                await asyncio.sleep(0.2)
            return machine

    async def reasons(self) -> set[str]:
        return {event.reason for event in (await self.client.list(Event, "default")).items}


@asynccontextmanager
async def rig(
    prepare: Callable[[SimulatedMac], None] | None = None,
    *,
    settings: HostSettings = SETTINGS,
    fleet: FleetConfig | None = None,
) -> AsyncIterator[Rig]:
    clock, rng = SystemClock(), seeded("broken macs")
    async with AsyncExitStack() as stack:
        store = MemoryStore()
        plane = ControlPlane(
            store, clock, rng, admin_token=ADMIN, signing_key=generate_key(), definitions=our_definitions()
        )
        await stack.enter_async_context(plane.running())
        config = Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN)))
        client = await stack.enter_async_context(Client(config, InProcessTransport(plane.app)))
        cloud = SimulatedCloud(clock, rng, speed=2000.0)
        macs = Fleet(cloud, clock=clock, rng=rng, pace=Pace(speed=2000.0), prepare=prepare)
        stack.push_async_callback(macs.stop)
        of_cloud = replace(cloud.settings(), request_timeout=5.0, requests_per_second=200.0)
        scaleway = await stack.enter_async_context(ScalewayClient(of_cloud, clock, rng, transport=cloud.transport()))
        await FleetKeys(client, scaleway, namespace="default").ensure("runners")
        cloud.seed_pool(1, server_type="M2-L")
        bootstrapper = FleetBootstrapper(
            BootstrapContext(client=client, cloud=scaleway, ssh=macs.ssh(), clock=clock, rng=rng),
            fleet or FleetConfig(),
            sequencing=Sequencing(clock, rng, spread=0.0),
            bootstrap=Bootstrap(macs.ssh(), clock, rng, reach_for=0.5, dial_timeout=0.3, between_dials=0.2),
        )
        manager = Manager(clock=clock, rng=rng, grace=1.0)
        HostOperator(manager, client, scaleway, bootstrapper, settings)
        running = asyncio.create_task(manager.run())
        ticking = asyncio.create_task(cloud.run())
        await client.create(
            Machine(
                metadata=ObjectMeta(name="mac-1", namespace="default"),
                spec=MachineSpec(fleet_name="runners", type="M2-L"),
            )
        )
        try:
            yield Rig(cloud, macs, client, store)
        finally:
            manager.stop()
            ticking.cancel()
            await asyncio.gather(running, ticking, return_exceptions=True)
