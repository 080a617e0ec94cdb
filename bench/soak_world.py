"""A cluster of many Macs for a day of virtual time: dispatch, ledger, pools and healing are the shipped ones.

What others make is simulated: GitHub and its runner, the kubelets, the power of the Macs. A Mac is a Node with two places and no
life of its own, so that a day of a thousand of them fits into an afternoon; the agent and the hosts have benches of their own.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from paddock.base.metrics import CollectorRegistry, live_kills
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.embedded.store.memory import MemoryStore
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import NotFoundError
from paddock.kube.informer import Informer
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta
from paddock.kube.store import CacheChange
from paddock.runners.api import OWNER_LABEL, RUNNER_LABEL, JobSource, RunnerPool, RunnerPoolSpec
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.http.concerns import concerns_route
from paddock.runners.http.retirement_client import HttpRetirementApi
from paddock.runners.ledger import Ledger
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.runners.processes.operator import RunnerOperator
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.github.app_keys import throwaway_app_key
from paddock.simulator.in_process_client import InProcessClient
from paddock.simulator.instant_postgres import Hints, InstantListener, InstantPool, ledger_of
from paddock.simulator.pods import Hang, RunnerFaults, SimulatedPods
from paddock.simulator.process import World
from paddock.simulator.projected_token import ProjectedToken

__all__ = ["LABEL", "SoakWorld"]

ADMIN = Secret("soak-admin")
FLEET, POOL, LABEL = "macs", "macos", "tuist-macos"
LOGINS = ("acme", "globex", "initech", "umbrella")
_PLENTY = 100_000
_AWAY = 600.0
"""How long a Mac without power is away."""


class _CountedFaults(RunnerFaults):
    """Knows what was really done wrong, and not only ordered."""

    __slots__ = ("done",)

    def __init__(self) -> None:
        super().__init__()
        self.done: Counter[Hang] = Counter()

    def take(self, *kinds: Hang) -> Hang | None:
        taken = super().take(*kinds)
        if taken is not None:
            self.done[taken] += 1
        return taken


class Kubelets(SimulatedPods):
    """All Macs' kubelets, which hear of their Pods by a watch: looking at thousands twice a second would be all that is done."""

    def __init__(self, client: Client, *arguments: Any, **named: Any) -> None:
        super().__init__(client, *arguments, **named)
        self.faults = self.runner_faults = _CountedFaults()
        self.cut_off = 0
        """Pods with a job whose Mac lost its power."""
        self._dark: set[str] = set()
        self._outside: Context | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._pods = Informer(
            client,
            Pod,
            clock=self._clock,
            rng=self._rng,
            metrics=KubeMetrics(CollectorRegistry()),
            label_selector=f"{RUNNER_LABEL}=true",
            name="kubelets",
        )
        self._pods.add_handler(self._see)

    @property
    def lives(self) -> frozenset[str]:
        """Pods by uid in which something runs."""
        return frozenset(uid for uid, task in self._lives.items() if not task.done())

    async def run(self) -> None:
        self._outside = copy_context()
        await self._pods.run()

    def _see(self, change: CacheChange[Pod]) -> None:
        pod = change.obj
        uid = pod.metadata.uid
        if change.kind == "deleted":
            self._later(self._end(uid))
        elif not pod.spec.node_name or pod.spec.node_name in self._dark:
            return
        elif pod.metadata.deletion_timestamp is not None:
            self._later(self._gone(pod))
        elif uid not in self._lives and pod.status.phase in ("", "Pending", "Running"):
            # Of the Macs' process, also where whoever gives the power back started it: it ends with the world.
            context = (self._outside or copy_context()).copy()
            self._lives[uid] = asyncio.create_task(self._life(pod), name=f"pod {pod.metadata.name}", context=context)

    def _later(self, doing: Any) -> None:
        task = asyncio.create_task(doing)
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _gone(self, pod: Pod) -> None:
        meta = pod.metadata
        await self._end(meta.uid)
        with suppress(NotFoundError):
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid, grace_period=0)

    async def power_cut(self, node: str) -> None:
        """The Mac goes dark in mid-job and comes back after ten minutes, when its agent says that its VMs are gone."""
        self._dark.add(node)
        here = [pod for pod in self._pods.reader.list() if pod.spec.node_name == node]
        self.cut_off += sum(OWNER_LABEL in pod.metadata.labels for pod in here)
        for pod in here:
            task = self._lives.pop(pod.metadata.uid, None)
            if task is not None:
                task.cancel()
        await self._clock.sleep(_AWAY)
        self._dark.discard(node)
        for pod in self._pods.reader.list():
            if pod.spec.node_name == node:
                self._see(CacheChange("added", None, pod))


class SoakWorld:
    """`macs` Nodes of two places, one pool that fills them, some accounts, and processes that can be killed."""

    def __init__(
        self,
        world: World,
        dsn: str,
        schema: str,
        *,
        macs: int,
        logins: Sequence[str] = LOGINS,
        source: JobSource = "Webhook",
    ) -> None:
        self.world, self.clock, self.macs = world, world.clock, macs
        self.source: JobSource = source
        self._dsn, self._schema = dsn, schema
        self.store = MemoryStore(history_limit=100 * macs)
        self.plane = ControlPlane(
            self.store,
            self.clock,
            world.rng("api"),
            admin_token=ADMIN,
            signing_key=generate_key(),
            definitions=our_definitions(),
        )
        self.github = SimulatedGitHub(self.clock, world.rng("github"), app_key=throwaway_app_key(), audit=False)
        self.accounts = [self.github.add_organization(login, "app") for login in logins]
        self.repositories = tuple(f"{login}/app" for login in logins)
        self.asked: Counter[str] = Counter()
        """Requests of dispatch to GitHub: `rest` counts against an hour's budget, `queue` does not."""
        self.hints = Hints()
        self.kills = 0.0
        """Of lives that have ended."""
        self.service: RunnerService | None = None
        self.ledger: Ledger
        self._registries: dict[str, CollectorRegistry] = {}
        self._dispatch_app: Any = Starlette()
        self.ready = asyncio.Event()
        world.process("api", self._api)
        self.api = self._client()
        if source == "Webhook":
            self.github.deliver_to("http://dispatch/webhooks/github", self._to_dispatch())
        self.kubelets = Kubelets(
            self._client(),
            lambda: InProcessClient(self._to_dispatch()),
            "http://dispatch",
            self.github.connect,
            clock=self.clock,
            rng=world.rng("kubelets"),
        )
        world.process("outside", self._outside)
        self.dispatch = world.process("dispatch", self._dispatch, restart_after=5.0)
        self.operator = world.process("operator", self._operator, restart_after=5.0)

    # Processes

    async def _api(self) -> None:
        async with self.plane.running():
            self.ready.set()
            await asyncio.Event().wait()

    async def _outside(self) -> None:
        await self.ready.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.github.run())
            group.create_task(self.kubelets.run())

    def _client(self) -> Client:
        transport = self.world.transport(
            self.plane.app, host=self.world.processes["api"], latency=(0.001, 0.01), faults=False, purpose="kube"
        )
        config = Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN)))
        return Client(config, transport, timeout=10.0)

    async def _door(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatch_app(scope, receive, send)

    async def _github(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked["queue" if scope["path"].startswith("/broker/") else "rest"] += 1
        await self.github.app(scope, receive, send)

    def _to_dispatch(self) -> httpx2.AsyncBaseTransport:
        return self.world.transport(
            self._door, host=_Dispatch(self.world), latency=(0.001, 0.01), faults=False, purpose="dispatch"
        )

    def _metrics(self, process: str) -> KubeMetrics:
        """Of this life; what the last one had counted is kept as a number."""
        if (last := self._registries.get(process)) is not None:
            self.kills += _kills(last)
        metrics = KubeMetrics(CollectorRegistry())
        self._registries[process] = metrics.registry
        return metrics

    def live_kills(self) -> float:
        """What `paddock_live_kills_total` came to, over every life."""
        return self.kills + sum(map(_kills, self._registries.values()))

    def _rng(self, name: str) -> Any:
        return seeded(f"{name} {self.world.processes[name].starts} of {self.world.seed}")

    async def _dispatch(self) -> None:
        await self.ready.wait()
        rng, metrics = self._rng("dispatch"), self._metrics("dispatch")
        ledger = ledger_of(InstantPool(self._dsn, self._schema), self.hints, self.clock, rng)
        transport = self.world.transport(self._github, latency=(0.05, 0.2), faults=False, purpose="github")
        async with GitHubClient(self.github.settings(), self.clock, rng, transport) as github:
            settings, client = DispatchSettings(), self._client()
            caches = RunnerCaches(client, settings.namespace, clock=self.clock, rng=rng, metrics=metrics)
            context = RunnerContext(
                ledger=ledger,
                listener=InstantListener(self.hints, self.clock),
                github=github,
                scale_sets=github.scale_sets,
                client=client,
                caches=caches,
                secrets=lambda: (self.github.webhook_secret,),
                clock=self.clock,
                rng=rng,
                registry=metrics.registry,
                kube_metrics=metrics,
                name=f"dispatch-{self.world.processes['dispatch'].starts}",
            )
            self.service = service = RunnerService(context, settings)
            concerns = concerns_route(service.concerns)
            self._dispatch_app = Starlette(routes=[*service.routes, *service.readable, concerns])
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(caches.run())
                    group.create_task(service.run())
            finally:
                await service.stop()

    async def _operator(self) -> None:
        await self.ready.wait()
        rng, metrics, client = self._rng("operator"), self._metrics("operator"), self._client()
        retirement = HttpRetirementApi(
            "http://dispatch", ProjectedToken(client), transport=self._to_dispatch(), clock=self.clock
        )
        manager = Manager(clock=self.clock, rng=rng, metrics=metrics)
        RunnerOperator(manager, client, retirement, PoolSettings(dispatch_url="http://dispatch"))
        await manager.run()

    # The first day

    async def begin(self) -> None:
        await self.ready.wait()
        for name in ("paddock-operator", "paddock-dispatch"):
            await self.api.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace="default")))
        self.ledger = ledger_of(InstantPool(self._dsn, self._schema), self.hints, self.clock, self.world.rng("person"))
        for account in self.accounts:
            await self.ledger.accounts.enrol(account.id, account.login, account.installation_id)
            await self.ledger.allow_list.allow(account.id, account.login, by="soak", why="to be served")
            await self.ledger.limits.set(
                account.id, "macos", vcpus=_PLENTY, memory_mb=1000 * _PLENTY, by="soak", why="caps on, never reached"
            )
        for number in range(self.macs):
            await self._add_mac(f"mac-{number}")
        spec = RunnerPoolSpec(
            image="images.test/macos:1",
            fleet_selector=FLEET,
            dispatch_label=LABEL,
            runner_labels=("self-hosted", "macOS"),
            replicas=2 * self.macs,
            pod_cpu_milli=4000,
            pod_memory_mb=6144,
            job_source=self.source,
        )
        await self.api.create(RunnerPool(metadata=ObjectMeta(name=POOL, namespace="default"), spec=spec))

    async def _add_mac(self, name: str) -> None:
        labels = {
            "kubernetes.io/os": "darwin",
            "kubernetes.io/arch": "arm64",
            "kubernetes.io/hostname": name,
            "tuist.dev/runtime": "tart",
            "tuist.dev/softnet": "true",
            "tuist.dev/fleet": FLEET,
        }
        await self.api.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}, Node.RESOURCE
        )
        offer = {"cpu": "10", "memory": "16Gi", "pods": "10", "tuist.dev/vm": "2"}
        status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": offer, "capacity": offer}
        await self.api.merge_patch(Node, name, {"status": status}, subresource="status")

    async def eventually(self, what: str, holds: Callable[[], bool], *, within: float, every: float = 5.0) -> None:
        until = self.clock.monotonic() + within
        while not holds():
            if self.clock.monotonic() > until:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{await self._described()}")
            await self.clock.sleep(every)

    async def _described(self) -> str:
        pods = (await self.api.list(Pod, "default")).items
        waiting = len(self.service.dispatch.waiting) if self.service is not None else 0
        lines = [f"{len(pods)} Pods, {waiting} wait at dispatch"]
        for pool in (await self.api.list(RunnerPool, "default")).items:
            lines += [f"pool: {each.type}={each.status} {each.message}" for each in pool.status.conditions]
        for pod in pods:
            meta = pod.metadata
            lines.append(
                f"{meta.name} {pod.status.phase} on {pod.spec.node_name or '-'} since {meta.creation_timestamp} "
                f"deleted {meta.deletion_timestamp} {meta.uid in self.kubelets.lives} {meta.labels}"
            )
        return "\n".join(lines[:60])


def _kills(registry: CollectorRegistry) -> float:
    return sum(
        sample.value
        for metric in live_kills(registry).collect()
        for sample in metric.samples
        if sample.name == "paddock_live_kills_total"
    )


class _Dispatch:
    """Where dispatch is, once it is there."""

    def __init__(self, world: World) -> None:
        self._world = world

    @property
    def life(self) -> Any:
        process = self._world.processes.get("dispatch")
        return process.life if process is not None else None
