"""A real API over HTTPS on a free port of loopback, in its own thread, so that commands can be run against it."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from paddock.base.clock import SystemClock
from paddock.base.http_server import Tls, bind, listening
from paddock.base.rng import unseeded
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.certificates import Certificates
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.kubeconfig import write_kubeconfig
from paddock.embedded.store.memory import MemoryStore
from paddock.hosts import api
from paddock.kube import config
from paddock.kube.client import Client
from paddock.kube.crd import crd_of
from paddock.kube.objects import KubeObject
from paddock.runners import api as runners_api

T = TypeVar("T")
_TOKEN = Secret("cli-test-admin")


class Cluster:
    """Where the kubeconfig is, and how a test reaches the same API."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    def ask(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Do something with a client of our own."""

        async def run() -> T:
            async with Client(config.from_kubeconfig(self.kubeconfig)) as client:
                return await work(client)

        return asyncio.run(run())

    def create(self, obj: KubeObject, status: dict[str, object] | None = None) -> KubeObject:
        async def run(client: Client) -> KubeObject:
            made = await client.create(obj)
            if status is None:
                return made
            meta = made.metadata
            return await client.merge_patch(
                type(obj), meta.name, {"status": status}, namespace=meta.namespace, subresource="status"
            )

        return self.ask(run)


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    clock = SystemClock()
    certificates = Certificates.ensure(folder / "pki", clock.now())
    sock = bind(0, "a free port")
    url = f"https://127.0.0.1:{sock.getsockname()[1]}"
    write_kubeconfig(folder / "kubeconfig", url=url, authority=certificates.authority, token=_TOKEN)
    ready, ended = threading.Event(), threading.Event()
    loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stop))
        plane = ControlPlane(
            MemoryStore(),
            clock,
            unseeded(),
            admin_token=_TOKEN,
            signing_key=generate_key(),
            definitions=[crd_of(kind) for kind in (*api.KINDS, *runners_api.KINDS)],
        )
        async with listening(plane.app, sock, Tls(certificates.certificate, certificates.key)), plane.running():
            ready.set()
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            ready.set()
            ended.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(20)
    assert not ended.is_set(), "the API did not start"
    try:
        yield Cluster(folder / "kubeconfig")
    finally:
        loop, stop = loops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(20)
