"""A Kubernetes API in this process: the embedded control plane over a store in memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from paddock.base.clock import SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.simulator.transport import InProcessTransport

__all__ = ["Cluster", "running_cluster"]

ADMIN = Secret("administrator")


class Cluster:
    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane

    def client(self, token: Secret = ADMIN) -> Client:
        config = Config("http://paddock", credentials=FixedIdentity(Identity(token=token)))
        return Client(config, InProcessTransport(self.plane.app))


@asynccontextmanager
async def running_cluster() -> AsyncIterator[Cluster]:
    plane = ControlPlane(MemoryStore(), SystemClock(), seeded("cluster"), admin_token=ADMIN, signing_key=generate_key())
    started, stop = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        async with plane.running():
            started.set()
            await stop.wait()

    # A fixture is entered and left by different tasks, which a task group does not survive: so one task holds it.
    running = asyncio.ensure_future(run())
    await started.wait()
    try:
        yield Cluster(plane)
    finally:
        stop.set()
        await running
