"""A real API over HTTPS on a free port of loopback, in its own thread, so that commands can be run against it."""

import asyncio
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

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

    def __init__(self, kubeconfig: Path, client: Client, loop: asyncio.AbstractEventLoop) -> None:
        self.kubeconfig = kubeconfig
        self._client = client
        self._loop = loop

    def ask(self, work: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        """Do something with a client of our own: one for the cluster's whole life, because each costs a handshake."""
        return asyncio.run_coroutine_threadsafe(work(self._client), self._loop).result(60)

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
def running_cluster(folder: Path, pki: Path) -> Iterator[Cluster]:
    """With its own data in `folder`; the authority in `pki` is made once and serves every cluster of a run."""
    clock = SystemClock()
    Certificates.ensure(pki, clock.now())
    shutil.copytree(pki, folder / "pki")
    certificates = Certificates.ensure(folder / "pki", clock.now())
    sock = bind(0, "a free port")
    url = f"https://127.0.0.1:{sock.getsockname()[1]}"
    write_kubeconfig(folder / "kubeconfig", url=url, authority=certificates.authority, token=_TOKEN)
    ready, ended = threading.Event(), threading.Event()
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Event, Client]] = []

    async def serve() -> None:
        stop = asyncio.Event()
        plane = ControlPlane(
            MemoryStore(),
            clock,
            unseeded(),
            admin_token=_TOKEN,
            signing_key=generate_key(),
            definitions=[crd_of(kind) for kind in (*api.KINDS, *runners_api.KINDS)],
        )
        async with (
            listening(plane.app, sock, Tls(certificates.certificate, certificates.key)),
            plane.running(),
            Client(config.from_kubeconfig(folder / "kubeconfig")) as client,
        ):
            running.append((asyncio.get_running_loop(), stop, client))
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
    assert ready.wait(60)
    assert not ended.is_set(), "the API did not start"
    loop, stop, client = running[0]
    try:
        yield Cluster(folder / "kubeconfig", client, loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(60)
