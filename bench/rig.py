"""The host half in real time and in one process: API and cloud are in memory and answer at once.

What is measured here is our own work: no network, no disk and no Mac waits in it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from paddock.base.chance import seeded
from paddock.base.clock import SystemClock
from paddock.base.metrics import CollectorRegistry
from paddock.base.secrets import Secret
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.hosts.operator import HostOperator
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.fleet_world import POOL, GlassStore
from paddock.simulator.paper_macs import PaperBootstrap, PaperMacs
from paddock.simulator.transport import InProcessTransport

__all__ = ["Rig", "rig"]

_ADMIN = Secret("bench-admin")


@dataclass(frozen=True, slots=True)
class Rig:
    cloud: SimulatedCloud
    store: GlassStore
    client: Client
    manager: Manager
    operator: HostOperator


@asynccontextmanager
async def rig(hosts: int, *, inventory_interval: float, sweep_interval: float = 15.0) -> AsyncIterator[Rig]:
    """Everything built and the API running; the manager is the caller's to run."""
    clock, chance = SystemClock(), seeded(1)
    settings = HostSettings(
        default_adopt_pool_prefix=POOL,
        lease_duration=0.0,
        request_timeout=0.05,
        inventory_interval=inventory_interval,
        reclaim_interval=sweep_interval,
    )
    cloud = SimulatedCloud(clock, chance)
    cloud.seed_pool(hosts, prefix=POOL)
    store = GlassStore()
    plane = ControlPlane(
        store, clock, chance, admin_token=_ADMIN, signing_key=generate_key(), definitions=our_definitions()
    )
    config = Config("https://api", credentials=FixedIdentity(Identity(token=_ADMIN)))
    # The short timeout above only makes the waiting time of claims short; the budget would be all that is measured.
    reached = replace(cloud.settings(), request_timeout=30.0, requests_per_second=1e6)
    async with (
        plane.running(),
        Client(config, InProcessTransport(plane.app)) as client,
        ScalewayClient(reached, clock, chance, transport=cloud.transport()) as seen,
    ):
        metrics = KubeMetrics(CollectorRegistry())
        manager = Manager(clock=clock, chance=chance, metrics=metrics)
        bootstrap = PaperBootstrap(clock, PaperMacs(seconds=0.0), cloud)
        operator = HostOperator(manager, client, seen, bootstrap, settings, clock=clock, chance=chance, metrics=metrics)
        yield Rig(cloud, store, client, manager, operator)
