"""A Kubernetes API in this process: the embedded control plane over a store in memory."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from paddock.base.clock import Clock, SystemClock
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.embedded.api.client_authority import ClientAuthority
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

    def node(self, kubeconfig: Secret) -> Client:
        """A client that shows the certificate of a node's kubeconfig."""
        user = yaml.safe_load(kubeconfig.reveal())["users"][0]["user"]
        shown = x509.load_pem_x509_certificate(base64.b64decode(user["client-certificate-data"]))
        app = showing_certificate(self.plane.app, shown.public_bytes(serialization.Encoding.DER))
        return Client(Config("http://paddock"), InProcessTransport(app))


def showing_certificate(app: Any, certificate: bytes) -> Any:
    """The application as a client sees it that shows this certificate (DER), for calls without a socket."""

    async def served(scope: Any, receive: Any, send: Any) -> None:
        state = {**(scope.get("state") or {}), "client_certificate": certificate}
        await app({**scope, "state": state}, receive, send)

    return served


@asynccontextmanager
async def running_cluster(*, signs: bool = True, clock: Clock | None = None, **more: Any) -> AsyncIterator[Cluster]:
    """`signs` says whether it signs certificates of nodes: not every cluster does."""
    clock = clock or SystemClock()
    plane = ControlPlane(
        MemoryStore(),
        clock,
        seeded("cluster"),
        admin_token=ADMIN,
        signing_key=generate_key(),
        authority=ClientAuthority.made(clock.now()) if signs else None,
        **more,
    )
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
