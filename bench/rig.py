"""The host subsystem in real time and in one process: API and cloud are in memory and answer at once.

What is measured here is our own work: no network, no disk and no Mac waits in it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from paddock.base.clock import SystemClock
from paddock.base.metrics import CollectorRegistry
from paddock.base.rng import new_uuid, seeded
from paddock.base.secrets import Secret
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.embedded.store import Key
from paddock.hosts.api import FINALIZER, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.operator import HostOperator
from paddock.hosts.settings import HostSettings
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.fake_macs import FakeBootstrap, FakeMacs
from paddock.simulator.fleet_world import POOL, GlassStore
from paddock.simulator.transport import InProcessTransport

__all__ = ["Rig", "fill", "rig"]

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
    clock, rng = SystemClock(), seeded(1)
    settings = HostSettings(
        default_adopt_pool_prefix=POOL,
        lease_duration=0.0,
        request_timeout=0.05,
        inventory_interval=inventory_interval,
        reclaim_interval=sweep_interval,
    )
    cloud = SimulatedCloud(clock, rng)
    cloud.seed_pool(hosts, prefix=POOL)
    store = GlassStore()
    plane = ControlPlane(
        store, clock, rng, admin_token=_ADMIN, signing_key=generate_key(), definitions=our_definitions()
    )
    config = Config("https://api", credentials=FixedIdentity(Identity(token=_ADMIN)))
    # The short timeout above only makes the waiting time of claims short; the budget would be all that is measured.
    reached = replace(cloud.settings(), request_timeout=30.0, requests_per_second=1e6)
    async with (
        plane.running(),
        Client(config, InProcessTransport(plane.app)) as client,
        ScalewayClient(reached, clock, rng, transport=cloud.transport()) as seen,
    ):
        metrics = KubeMetrics(CollectorRegistry())
        manager = Manager(clock=clock, rng=rng, metrics=metrics)
        bootstrap = FakeBootstrap(clock, FakeMacs(seconds=0.0), cloud)
        operator = HostOperator(manager, client, seen, bootstrap, settings)
        yield Rig(cloud, store, client, manager, operator)


async def fill(application: Rig) -> None:
    """Every host claimed by a machine of its own: written into the store as the API would have stored it."""
    rng = seeded(2)
    for number, server in enumerate(application.cloud.hosts()):
        name, uid = f"m-{number:05}", new_uuid(rng)
        server.name = name
        claim = {"machineNamespace": "default", "machineName": name, "machineUID": uid, "epoch": 1}
        host_status = {"state": "owned", "cloudName": name, "cloudStatus": "ready", "type": "M4-M", "delivered": True}
        await _store(
            application,
            ScalewayAppleSiliconHost,
            server.id,
            new_uuid(rng),
            {"zone": server.zone, "serverID": server.id, "claim": claim},
            host_status,
        )
        machine_status = {
            "serverID": server.id,
            "hostName": server.id,
            "ready": True,
            "phase": "Ready",
            "claimVerified": True,
        }
        await _store(application, ScalewayAppleSiliconMachine, name, uid, {"type": "M4-M"}, machine_status)


async def _store(
    application: Rig, kind: type[KubeObject], name: str, uid: str, spec: dict[str, object], status: dict[str, object]
) -> None:
    meta = {
        "name": name,
        "namespace": "default",
        "uid": uid,
        "generation": 1,
        "creationTimestamp": "2026-06-01T00:00:00Z",
        "finalizers": [FINALIZER] if kind is ScalewayAppleSiliconMachine else [],
    }
    resource = kind.RESOURCE
    body = {
        "apiVersion": f"{resource.group}/{resource.version}",
        "kind": resource.kind,
        "metadata": meta,
        "spec": spec,
        "status": status,
    }
    await application.store.create(Key(f"{resource.plural}.{resource.group}", "default", name), body)
