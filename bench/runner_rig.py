"""The runner subsystem in one process: the real service, a real Postgres, the embedded API in memory, a GitHub without delay."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from paddock.base.clock import Clock, SystemClock
from paddock.base.metrics import CollectorRegistry
from paddock.base.rng import new_uuid
from paddock.base.secrets import Secret
from paddock.base.tasks import end
from paddock.embedded.api.representation import decode
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store import Key
from paddock.embedded.store.memory import MemoryStore
from paddock.kube.builtin import Container, Node, Pod, PodSpec, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import (
    AUDIENCE,
    POOL_LABEL,
    RUNNER,
    RUNNER_LABEL,
    SOFTNET_LABEL,
    RunnerPool,
    RunnerPoolSpec,
)
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.ledger import Ledger, Listener
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.simulator.transport import InProcessTransport

from .stub_github import StubGitHub

__all__ = ["ACCOUNTS", "LABEL", "NAMESPACE", "POOL", "WEBHOOK_SECRET", "RunnerRig", "at_work", "runner_rig"]

NAMESPACE, POOL, LABEL = "default", "macs", "paddock-macos"
WEBHOOK_SECRET = Secret("bench-webhook-secret")
ACCOUNTS = 16
_ADMIN = Secret("bench-admin")
_SCHEMA = "bench_runners"
_PLENTY = 2_000_000


class CountingTransport(httpx2.AsyncBaseTransport):
    """The way to the API server; knows how often it was asked about a token."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner
        self.token_reviews = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.token_reviews += request.url.path.endswith("/tokenreviews")
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass(frozen=True, slots=True)
class RunnerRig:
    clock: Clock
    plane: ControlPlane
    store: MemoryStore
    wire: CountingTransport
    client: Client
    ledger: Ledger
    github: StubGitHub
    caches: RunnerCaches
    service: RunnerService

    async def pods(self, count: int, *, rng: random.Random) -> list[str]:
        """So many Pods that may wait, and their tokens.

        The first is made by the API, which fills in what it fills in; the others are written beside it as the API would
        have stored them.
        """
        kind = next(kind for kind in self.plane.kinds if kind.kind == "ServiceAccount")
        accounts, pods = Key("serviceaccounts", NAMESPACE, f"{POOL}-00000"), Key("pods", NAMESPACE, f"{POOL}-00000")
        await self._first_pod(pods.name)
        account, pod = [decode(record) for key in (accounts, pods) if (record := await self.store.get(key))]
        tokens = []
        for number in range(count):
            if number:
                name = f"{POOL}-{number:05}"
                account = {**account, "metadata": {**account["metadata"], "name": name, "uid": new_uuid(rng)}}
                pod = {**pod, "metadata": {**pod["metadata"], "name": name, "uid": new_uuid(rng)}}
                pod["spec"] = {**pod["spec"], "serviceAccountName": name, "serviceAccount": name}
                await self.store.create(accounts._replace(name=name), account)
                await self.store.create(pods._replace(name=name), pod)
            issued = self.plane.access.issuer.issue(kind, account, audiences=[AUDIENCE], pod=pod)
            tokens.append(issued["status"]["token"])
        return tokens

    async def _first_pod(self, name: str) -> None:
        # Behind Softnet, as Macs are where as many accounts are served as here.
        await self.client.create(Node(metadata=ObjectMeta(name=f"{POOL}-node", labels={SOFTNET_LABEL: "true"})))
        labels = {POOL_LABEL: POOL, RUNNER_LABEL: "true"}
        meta = ObjectMeta(name=name, namespace=NAMESPACE, labels=labels)
        await self.client.create(ServiceAccount(metadata=meta))
        spec = PodSpec(
            containers=(Container(name=RUNNER, image="runner:1"),),
            node_selector={"kubernetes.io/os": "darwin"},
            node_name=f"{POOL}-node",  # bound, as a Pod is that asks for a job
            service_account_name=name,
            restart_policy="Never",
        )
        await self.client.create(Pod(metadata=meta, spec=spec))
        running = {"status": {"phase": "Running"}}
        await self.client.merge_patch(Pod, name, running, NAMESPACE, subresource="status")


@asynccontextmanager
async def runner_rig(
    dsn: str, clock: Clock, rng: random.Random, settings: DispatchSettings
) -> AsyncIterator[RunnerRig]:
    """Everything built, with its pool and accounts; `service.run()` is the caller's (see `at_work`)."""
    store = MemoryStore()
    plane = ControlPlane(
        store, clock, rng, admin_token=_ADMIN, signing_key=generate_key(), definitions=[crd_of(RunnerPool)]
    )
    wire = CountingTransport(InProcessTransport(plane.app, clock=SystemClock()))  # its timeouts are of real time
    config = Config("https://api", credentials=FixedIdentity(Identity(token=_ADMIN)))
    async with (
        plane.running(),
        Client(config, wire) as client,
        Ledger.open(dsn, clock=clock, rng=rng, schema=_SCHEMA) as ledger,
    ):
        spec = RunnerPoolSpec(
            image="runner:1",
            fleet_selector="m4",
            dispatch_label=LABEL,
            job_source="Webhook",
            runner_labels=("self-hosted",),
            replicas=0,
        )
        await client.create(RunnerPool(metadata=ObjectMeta(name=POOL, namespace=NAMESPACE), spec=spec))
        for number in range(1, ACCOUNTS + 1):
            await ledger.accounts.enrol(number, f"org{number}", 1000 + number)
            await ledger.allow_list.allow(number, f"org{number}", by="bench", why="to be measured")
            await ledger.limits.set(
                number, "macos", vcpus=_PLENTY, memory_mb=1000 * _PLENTY, by="bench", why="caps on, and never reached"
            )
        metrics = KubeMetrics(CollectorRegistry())
        github = StubGitHub()
        caches = RunnerCaches(client, settings.namespace, clock=clock, rng=rng, metrics=metrics)
        service = RunnerService(
            RunnerContext(
                ledger=ledger,
                listener=Listener(dsn, schema=_SCHEMA, clock=clock, rng=rng, timeout=settings.backstop),
                github=github,
                client=client,
                caches=caches,
                secrets=_secrets,
                clock=clock,
                rng=rng,
                registry=metrics.registry,
                kube_metrics=metrics,
            ),
            settings,
        )
        yield RunnerRig(clock, plane, store, wire, client, ledger, github, caches, service)


@asynccontextmanager
async def at_work(rig: RunnerRig) -> AsyncIterator[None]:
    """The service runs for as long as the block does, and has read everything before it begins."""
    following = asyncio.create_task(rig.caches.run())
    running = asyncio.create_task(rig.service.run())
    try:
        async with asyncio.timeout(60):
            while rig.caches.waiting_for() and not running.done():
                await asyncio.sleep(0.05)
        yield
    finally:
        for task in (running, following):
            await end(task)


def _secrets() -> Sequence[Secret]:
    return (WEBHOOK_SECRET,)
