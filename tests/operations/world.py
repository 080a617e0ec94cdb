"""Everything of ours on virtual time, under load: API, operator, dispatch over a real Postgres, and an agent on each Mac.

What others make is simulated: the cloud, GitHub and its runner, Tart, the bootstrap's SSH. Each process can be stopped as by SIGTERM, and
killed; the kubelet, or launchd on a Mac, brings it back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import httpx2
from operations.macs import InstallingBootstrap, Macs
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from paddock.base.metrics import CollectorRegistry
from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.clients.github import GitHubClient
from paddock.clients.scaleway import ScalewayClient
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.hosts.api import MacFleet, MacFleetSpec, MacFleetTemplate, MachineSpec
from paddock.hosts.api import ScalewayAppleSiliconMachine as Machine
from paddock.hosts.operator import HostOperator
from paddock.hosts.settings import HostSettings
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.api.settings import DispatchSettings
from paddock.runners.dispatch.caches import RunnerCaches
from paddock.runners.http.concerns import concerns_route
from paddock.runners.http.retirement_client import HttpRetirementApi
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.processes.dispatch import RunnerContext, RunnerService
from paddock.runners.processes.operator import RunnerOperator
from paddock.simulator.cloud import SimulatedCloud
from paddock.simulator.fake_macs import FakeMacs
from paddock.simulator.fleet_world import POOL as HOST_POOL
from paddock.simulator.fleet_world import GlassStore
from paddock.simulator.github import SimulatedGitHub
from paddock.simulator.github.app_keys import throwaway_app_key
from paddock.simulator.instant_postgres import Hints, InstantListener, InstantPool, ledger_of
from paddock.simulator.process import World
from paddock.simulator.projected_token import ProjectedToken
from paddock.views.dispatch_word import DispatchWord

__all__ = ["FLEET", "IMAGE", "LABEL", "POOL", "OperationsWorld"]

ADMIN = Secret("operations-admin")
FLEET, POOL, LABEL, IMAGE = "macs", "macos", "tuist-macos", "images.test/macos:1"
_KEY = throwaway_app_key()


class OperationsWorld:
    """One cluster with one fleet of `macs` Macs of two VMs each, and `spare` more in the pool of hosts."""

    def __init__(
        self, world: World, dsn: str, schema: str, *, macs: int, spare: int = 0, expect_nodes: bool = False
    ) -> None:
        self.world, self.clock = world, world.clock
        self._dsn, self._schema = dsn, schema
        self._expect_nodes = expect_nodes
        self.size = self.wanted = macs
        """How many Macs the fleet should have: operations that scale change it."""
        self.store = GlassStore()
        self._signing_key = generate_key()
        self.plane: ControlPlane | None = None
        self.cloud = SimulatedCloud(self.clock, world.rng("cloud"))
        self.cloud.seed_pool(macs + spare, server_type="M4-M", prefix=HOST_POOL)
        self.github = SimulatedGitHub(self.clock, world.rng("github"), app_key=_KEY, audit=False)
        self.account = self.github.add_organization("acme", "app")
        self.hints = Hints()
        self.fakes = FakeMacs()
        self.ready = asyncio.Event()
        self.registries: list[CollectorRegistry] = []
        """Of every life of every process, so that no count is lost with the process that counted."""
        self.service: RunnerService | None = None
        self.hosts: HostOperator | None = None
        self._dispatch_app: Any = Starlette()
        self._lives = 0
        self.api_server = world.process("api", self._api, restart_after=5.0)
        self.api = self.client()
        self.github.deliver_to("http://dispatch/webhooks/github", world.transport(self._door, host=_Outer(self)))
        self.macs = Macs(
            world,
            self.cloud,
            client=self.client,
            dispatch=lambda: httpx2.AsyncClient(transport=self._to_dispatch(), trust_env=False),
            connect=self.github.connect,
            image=IMAGE,
        )
        world.process("outside", self._outside)
        self.dispatch = world.process("dispatch", self._dispatch, restart_after=5.0)
        self.operator = world.process("operator", self._operator, restart_after=5.0)

    # Processes

    async def _api(self) -> None:
        """Each life begins with what is stored, and with nothing else."""
        self.plane = ControlPlane(
            self.store,
            self.clock,
            self._rng("api"),
            admin_token=ADMIN,
            signing_key=self._signing_key,
            definitions=our_definitions(),
            node_lifecycle=True,
        )
        async with self.plane.running():
            self.ready.set()
            await asyncio.Event().wait()

    async def _api_door(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.plane is not None
        await self.plane.app(scope, receive, send)

    async def _outside(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.cloud.run())
            group.create_task(self.github.run())

    def client(self) -> Client:
        transport = self.world.transport(
            self._api_door, host=self.world.processes["api"], latency=(0.001, 0.01), faults=False, purpose="kube"
        )
        config = Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN)))
        return Client(config, transport, timeout=10.0)

    async def _door(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._dispatch_app(scope, receive, send)

    def _to_dispatch(self) -> httpx2.AsyncBaseTransport:
        return self.world.transport(
            self._door, host=self.world.processes["dispatch"], latency=(0.001, 0.01), faults=False, purpose="dispatch"
        )

    def _rng(self, name: str) -> Any:
        """Another one for each life: names must differ from those of the life before."""
        return seeded(f"{name} {self.world.processes[name].starts} of {self.world.seed}")

    def _metrics(self) -> KubeMetrics:
        metrics = KubeMetrics(CollectorRegistry())
        self.registries.append(metrics.registry)
        return metrics

    async def _dispatch(self) -> None:
        await self.ready.wait()
        rng, metrics = self._rng("dispatch"), self._metrics()
        ledger = ledger_of(InstantPool(self._dsn, self._schema), self.hints, self.clock, rng)
        transport = self.world.transport(self.github.app, latency=(0.05, 0.2), faults=False, purpose="github")
        async with GitHubClient(self.github.settings(), self.clock, rng, transport) as github:
            settings, client = DispatchSettings(), self.client()
            caches = RunnerCaches(client, settings.namespace, clock=self.clock, rng=rng, metrics=metrics)
            context = RunnerContext(
                ledger=ledger,
                listener=InstantListener(self.hints, self.clock),
                github=github,
                client=client,
                caches=caches,
                secrets=lambda: (self.github.webhook_secret,),
                clock=self.clock,
                rng=rng,
                registry=metrics.registry,
                kube_metrics=metrics,
                name=f"dispatch-{self.dispatch.starts}",
                scale_sets=github.scale_sets,
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
        rng, metrics = self._rng("operator"), self._metrics()
        client = self.client()
        settings = HostSettings(
            default_adopt_pool_prefix=HOST_POOL, claim_name_prefix=f"{FLEET}-", expect_nodes=self._expect_nodes
        )
        at_cloud = replace(self.cloud.settings(), request_timeout=settings.request_timeout)
        way = self.world.transport(self.cloud.app, latency=(0.05, 0.4), faults=False, purpose="cloud")
        cloud = ScalewayClient(at_cloud, self.clock, rng, transport=way)
        token = ProjectedToken(client)
        retirement = HttpRetirementApi("http://dispatch", token, transport=self._to_dispatch(), clock=self.clock)
        manager = Manager(clock=self.clock, rng=rng, metrics=metrics)
        bootstrap = InstallingBootstrap(self.macs, self.fakes)
        self.hosts = HostOperator(
            manager, client, cloud, bootstrap, settings, work=DispatchWord(retirement),
        )  # fmt: skip
        RunnerOperator(
            manager, client, retirement, PoolSettings(dispatch_url="http://dispatch"),
        )  # fmt: skip
        await manager.run()

    # The first day

    async def begin(self) -> None:
        """A fleet with all its Macs, a pool that fills them, and an account that may use them all."""
        await self.ready.wait()
        for name in ("paddock-operator", "paddock-dispatch"):
            await self.api.create(ServiceAccount(metadata=ObjectMeta(name=name, namespace="default")))
        self.ledger = ledger_of(InstantPool(self._dsn, self._schema), self.hints, self.clock, self.world.rng("person"))
        await self.ledger.accounts.enrol(self.account.id, "acme", self.account.installation_id)
        await self.ledger.allow_list.allow(self.account.id, "acme", by="test", why="as the test needs it")
        await self.ledger.limits.set(
            self.account.id, "macos", vcpus=4000, memory_mb=14_336_000, by="test", why="a large account"
        )
        await self.create_fleet(self.size)
        await self.create_pool(POOL, LABEL)

    async def create_fleet(self, replicas: int) -> None:
        spec = MacFleetSpec(
            replicas=replicas,
            template=MacFleetTemplate(spec=MachineSpec(zone="fr-par-1", type="M4-M", fleet_name=FLEET)),
        )
        await self.api.create(MacFleet(metadata=ObjectMeta(name=FLEET, namespace="default"), spec=spec))

    async def create_pool(self, name: str, label: str, *, replicas: int | None = None) -> None:
        spec = RunnerPoolSpec(
            image=IMAGE,
            fleet_selector=FLEET,
            dispatch_label=label,
            job_source="Webhook",
            runner_labels=("self-hosted", "macOS"),
            replicas=2 * self.size if replicas is None else replicas,
            pod_cpu_milli=4000,
            pod_memory_mb=6144,
        )
        await self.api.create(RunnerPool(metadata=ObjectMeta(name=name, namespace="default"), spec=spec))

    async def evict(self, name: str) -> int:
        """What `kubectl drain` asks for each Pod; gives the code of the answer, of which 429 means: ask again."""
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        transport = self.world.transport(self._api_door, host=self.world.processes["api"], faults=False)
        async with httpx2.AsyncClient(transport=transport, base_url="https://api") as http:
            way = f"/api/v1/namespaces/default/pods/{name}/eviction"
            answer = await http.post(way, json=eviction, headers={"Authorization": f"Bearer {ADMIN.reveal()}"})
        return answer.status_code

    def end(self) -> None:
        """The last word: nothing runs on any Mac any more."""
        self.macs.all_off()

    async def eventually(
        self, what: str, holds: Callable[[], bool | Awaitable[bool]], within: float = 3600.0, every: float = 1.0
    ) -> float:
        """Wait in virtual time until something holds; gives how many seconds that took."""
        began = self.clock.monotonic()
        while True:
            found = holds()
            if found if isinstance(found, bool) else await found:
                return self.clock.monotonic() - began
            if self.clock.monotonic() > began + within:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{self.describe()}")
            await self.clock.sleep(every)

    def describe(self) -> str:
        lines = [f"at {self.clock.monotonic():.0f} s"]
        for machine in self.store.present(Machine):
            said = "; ".join(f"{c.type}={c.status} {c.message}" for c in machine.status.conditions)
            lines.append(f"  machine {machine.metadata.name} {machine.status.phase}: {said}")
        for node in self.store.present(Node):
            ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "?")
            lines.append(f"  node {node.metadata.name} Ready={ready} unschedulable={node.spec.unschedulable}")
        for pool in self.store.present(RunnerPool):
            said = "; ".join(f"{c.type}={c.status} {c.reason} {c.message}" for c in pool.status.conditions)
            lines.append(f"  pool {pool.metadata.name} wants {pool.spec.replicas}: {said}")
        lines += [
            f"  pod {pod.metadata.name} {pod.status.phase} on {pod.spec.node_name or '-'} "
            f"{'deleted ' if pod.metadata.deletion_timestamp else ''}{pod.metadata.labels}"
            for pod in self.store.present(Pod)
        ]
        open_jobs = [job for job in self.github.state.jobs.values() if job.status != "completed"]
        lines += [f"  job {job.id} {job.status} on {job.runner_name}" for job in open_jobs[:40]]
        return "\n".join(lines)


class _Outer:
    """GitHub finds dispatch where it is, once it is there."""

    def __init__(self, owner: OperationsWorld) -> None:
        self._owner = owner

    @property
    def life(self) -> Any:
        process = self._owner.world.processes.get("dispatch")
        return process.life if process is not None else None
