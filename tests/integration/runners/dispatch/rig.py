"""A cluster in process, a real ledger, a pretended GitHub, and dispatch processes between them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from doubles.github import StubGitHub
from integration.runners.ledger.rig import POOL, Bench
from starlette.applications import Starlette

from paddock.base.clock import SystemClock
from paddock.base.failing_mac import JOBS_FAIL, JobsFail
from paddock.base.metrics import CollectorRegistry, exposition
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore
from paddock.kube.builtin import Node, NodeSpec, ObjectReference, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.runners.api import AUDIENCE, POOL_LABEL, RUNNER_LABEL, SOFTNET_LABEL, RunnerPool
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch import PATH, DispatchContext, DispatchService
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.ledger import Ledger, Listener
from paddock.simulator.transport import InProcessTransport

NAMESPACE = "runners"
IMAGE = "macos:15"
ADMIN = Secret("dispatch-tests-admin")
KEY = generate_key()
PODS = Resource("", "v1", "Pod", "pods")
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", status=False)
SETTINGS = DispatchSettings(namespace=NAMESPACE, hold=5.0, hold_unasked=1.0, serve_deadline=5.0, backstop=0.5)


@dataclass(frozen=True)
class RunnerPod:
    """A Pod as itself: its name, its uid and its token."""

    name: str
    uid: str
    token: str

    @property
    def identity(self) -> PodIdentity:
        return PodIdentity(NAMESPACE, self.name, self.uid, POOL)


class Cluster:
    def __init__(self) -> None:
        clock = SystemClock()
        self.store = MemoryStore()
        self.plane = ControlPlane(
            self.store,
            clock,
            random.Random(3),
            admin_token=ADMIN,
            signing_key=KEY,
            definitions=[crd_of(RunnerPool)],
        )
        self.transport = InProcessTransport(self.plane.app)
        self.client = self.connect(self.transport)

    def connect(self, transport: httpx2.AsyncBaseTransport) -> Client:
        config = Config(server="http://cluster", credentials=FixedIdentity(Identity(token=ADMIN)))
        return Client(config, transport)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Cluster"]:
        async with self.plane.running(), self.client:
            await self.client.create(
                {"metadata": {"name": NAMESPACE}}, Resource("", "v1", "Namespace", "namespaces", namespaced=False)
            )
            await self.pool()
            yield self

    async def pool(self, name: str = POOL, **spec: Any) -> None:
        await self.client.create(
            {
                "apiVersion": "tuist.dev/v1alpha1",
                "kind": "RunnerPool",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {
                    "image": IMAGE,
                    "fleetSelector": "m4",
                    "dispatchLabel": "paddock-macos",
                    "runnerLabels": ["self-hosted", "macOS"],
                    **spec,
                },
            },
            RunnerPool.RESOURCE,
        )

    async def pod(
        self,
        number: int | str,
        *,
        pool: str | None = POOL,
        account: str = "",
        namespace: str = NAMESPACE,
        image: str = IMAGE,
        labels: dict[str, str] | None = None,
        audience: str = AUDIENCE,
        node: str = "",
    ) -> RunnerPod:
        """A runner Pod with its ServiceAccount and token, as the operator and the node make them; on a Mac of its own unless
        `node` names one.
        """
        name = f"runner-{number}"
        account = account or name
        marks = {POOL_LABEL: pool} if pool else {}
        if account == name:
            await self.client.create({"metadata": {"name": name, "namespace": namespace, "labels": marks}}, ACCOUNTS)
        made = await self.client.create(
            {
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {RUNNER_LABEL: "true", **marks, **(labels or {})},
                },
                "spec": {
                    "serviceAccountName": account,
                    "automountServiceAccountToken": False,
                    "containers": [{"name": "runner", "image": image}],
                    "nodeName": node or f"mac-of-{name}",
                },
            },
            PODS,
        )
        uid = made["metadata"]["uid"]
        token, _ = await self.client.create_token(
            account,
            namespace,
            audiences=[audience] if audience else [],
            bound_to=ObjectReference(api_version="v1", kind="Pod", name=name, uid=uid),
        )
        return RunnerPod(name, uid, token.reveal())

    async def node(
        self, name: str, *, cordoned: bool = False, softnet: bool = False, mark: JobsFail | None = None
    ) -> None:
        """A Node, made or changed."""
        spec = {"unschedulable": cordoned or None}
        labels = {SOFTNET_LABEL: "true" if softnet else "false"}
        marks = {JOBS_FAIL: mark.annotation()} if mark is not None else {}
        meta = ObjectMeta(name=name, labels=labels, annotations=marks)
        try:
            await self.client.create(Node(metadata=meta, spec=NodeSpec(unschedulable=cordoned)))
        except AlreadyExistsError:
            changed = {"labels": labels, "annotations": marks or {JOBS_FAIL: None}}
            await self.client.merge_patch(Node, name, {"metadata": changed, "spec": spec})

    async def seen(self, pod: RunnerPod) -> Pod:
        return await self.client.get(Pod, pod.name, NAMESPACE)

    async def label(self, pod: RunnerPod, labels: dict[str, str | None]) -> None:
        await self.client.merge_patch(Pod, pod.name, {"metadata": {"labels": labels}}, NAMESPACE)


class Dispatcher:
    """One dispatch process, and an HTTP client of it."""

    def __init__(self, service: DispatchService, registry: CollectorRegistry) -> None:
        self.service = service
        self.registry = registry
        self.transport = InProcessTransport(Starlette(routes=list(service.routes)))
        self.http = httpx2.AsyncClient(transport=self.transport, base_url="http://dispatch", timeout=30.0)
        self.running: asyncio.Task[None] | None = None

    async def ask(self, pod: RunnerPod | str, wait: float | None = None) -> httpx2.Response:
        token = pod if isinstance(pod, str) else pod.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if wait is not None:
            headers["Prefer"] = f"wait={wait:g}"
        return await self.http.post(PATH, headers=headers, json={})

    def asking(self, pod: RunnerPod | str, wait: float | None = None) -> asyncio.Task[httpx2.Response]:
        return asyncio.create_task(self.ask(pod, wait))

    async def waits(self, count: int) -> None:
        await until(lambda: len(self.service.waiting) == count)

    def count(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def metrics(self) -> str:
        return exposition(self.registry).decode()

    async def kill(self) -> None:
        """End without any order, as SIGKILL does: every task of the process, wherever it is."""
        service = self.service
        tasks = [*service.dispatcher._lines.values(), *service.dispatcher._served]
        if self.running is not None:
            tasks.append(self.running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Rig:
    """Everything together. `dispatcher()` starts a dispatch process; a client or a ledger with faults may be given to it."""

    def __init__(self, bench: Bench, cluster: Cluster, stack: AsyncExitStack) -> None:
        self.bench = bench
        self.ledger = bench.ledger
        self.cluster = cluster
        self.github = StubGitHub(unknown_jobs="queued")
        self._stack = stack
        self._seeds = iter(range(100, 10_000))

    async def dispatcher(
        self,
        *,
        settings: DispatchSettings = SETTINGS,
        ledger: Ledger | None = None,
        client: Client | None = None,
        github: Any = None,
        listen: bool = True,
        clock: Any = None,
        **changed: Any,
    ) -> Dispatcher:
        settings = replace(settings, **changed) if changed else settings
        clock, rng = clock or SystemClock(), random.Random(next(self._seeds))
        client = client or self.cluster.client
        caches = RunnerCaches(client, NAMESPACE, clock=clock, rng=rng)
        listener = Listener(
            self.bench.dsn,
            schema=self.bench.schema if listen else "nobody",
            clock=clock,
            rng=rng,
            timeout=settings.backstop if listen else 600.0,
        )
        registry = CollectorRegistry()
        context = DispatchContext(
            ledger=ledger or self.ledger,
            github=github or self.github,
            client=client,
            caches=caches,
            listener=listener,
            clock=clock,
            rng=rng,
            registry=registry,
            name="test",
        )
        service = DispatchService(context, settings)
        dispatcher = Dispatcher(service, registry)
        following = asyncio.create_task(caches.run())
        dispatcher.running = asyncio.create_task(service.run())
        self._stack.push_async_callback(_end, dispatcher, following)
        await asyncio.gather(caches.pools.synced.wait(), caches.pods.synced.wait(), caches.accounts.synced.wait())
        await caches.nodes.synced.wait()
        await until(lambda: service._heartbeat._number is not None)
        return dispatcher

    async def accounts(self, *numbers: int, vcpus: int = 12) -> None:
        await self.bench.accounts(*numbers, vcpus=vcpus, memory_mb=14_336 * max(1, vcpus // 6))


async def _end(dispatcher: Dispatcher, following: asyncio.Task[None]) -> None:
    assert dispatcher.running is not None
    dispatcher.running.cancel()
    following.cancel()
    await asyncio.gather(dispatcher.running, following, return_exceptions=True)
    await dispatcher.http.aclose()


@asynccontextmanager
async def a_rig(bench: Bench) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster().running())
        inner = await stack.enter_async_context(AsyncExitStack())
        yield Rig(bench, cluster, inner)


async def until(true: Any, seconds: float = 5.0) -> None:
    """Wait until it is true; an async function is asked, too."""
    async with asyncio.timeout(seconds):
        while True:
            found = true()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.01)


__all__ = [
    "IMAGE",
    "NAMESPACE",
    "SETTINGS",
    "Cluster",
    "Dispatcher",
    "Rig",
    "RunnerPod",
    "ServiceAccount",
    "a_rig",
    "until",
]
