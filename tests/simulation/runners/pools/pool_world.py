"""Runner pools in virtual time: a real API, the real controller, and simulators of ledger, scheduler's Nodes and node agents."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace
from simulation.runners.pools.capacity_bound import CapacityBound

from paddock.base.clock import rfc3339
from paddock.base.metrics import CollectorRegistry
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.interface import Record
from paddock.embedded.store.operations import Operation
from paddock.kube.builtin import Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.controller import Controller, Request
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import KubeError
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import Condition, KubeObject, ObjectMeta
from paddock.runners.api import (
    DRAIN_ELIGIBLE_LABEL,
    FLEET_LABEL,
    LINUX_POOL_LABEL,
    OWNER_LABEL,
    POLLER,
    POOL_LABEL,
    RUNNER,
    RUNNER_LABEL,
    RunnerPool,
    RunnerPoolSpec,
)
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.immortal_pods import ImmortalPods
from paddock.runners.healing.service_accounts import OrphanServiceAccounts
from paddock.runners.healing.worker import Healed
from paddock.runners.ledger import GivenUp, PoolSignals
from paddock.runners.ledger import Pod as PodRef
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.runners.pools.controller import PoolCaches, PoolContext, PoolReconciler, between_looks, its_pool
from paddock.runners.pools.retirement import RetirementUnavailableError
from paddock.runners.pools.settings import PoolSettings
from paddock.simulator.faults import Faults
from paddock.simulator.fleet_world import GlassStore, LaggingTransport
from paddock.simulator.process import World

T = TypeVar("T", bound=KubeObject)
ADMIN = Secret("pool-world-admin")
IMAGE = "runner:1"
BOUND = 15.0
"""Seconds within which a place that a pool can use has a Pod, or one on its way."""
BOUND_WITH_LOST_ANSWERS = 60.0
"""The same where answers are lost: a creation without an answer counts as on its way for `PoolSettings.reservation`."""


@dataclass
class Account:
    """The ledger's rows: who holds a claim, who is fenced, whose stop was told. Outlives every process."""

    claims: set[str] = field(default_factory=set)
    fences: set[str] = field(default_factory=set)
    stops: list[tuple[str, datetime]] = field(default_factory=list)
    away: bool = False
    deaf: bool = False
    """Only stops cannot be told."""

    def claim(self, uid: str) -> bool:
        """What a dispatcher does: a fenced Pod wins nothing."""
        if uid in self.fences:
            return False
        self.claims.add(uid)
        return True


class StubBooks:
    """`RetirementApi` over the account, with every call an effect that can be disturbed."""

    def __init__(self, account: Account, faults: Faults) -> None:
        self._account = account
        self._faults = faults

    async def signals(self, pool: str) -> PoolSignals:
        raise AssertionError(f"the pool controller does not ask for the load of {pool}")

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        raise AssertionError("the pool controller does not ask who works")

    async def killed(self, kills: Sequence[GivenUp]) -> None:
        raise AssertionError("the pool controller ends no job")

    async def ends_on(self, nodes: Sequence[str]) -> Sequence[EndOnMac]:
        raise AssertionError("the pool controller does not ask how jobs ended")

    async def retire(self, pods: Sequence[PodRef], *, why: str) -> frozenset[str]:
        assert why

        async def act() -> frozenset[str]:
            if self._account.away:
                raise RetirementUnavailableError("the ledger is away")
            free = frozenset(pod.uid for pod in pods if pod.uid not in self._account.claims)
            self._account.fences |= free
            return free

        return await self._faults.call("books retire", act, error=lambda error: RetirementUnavailableError(str(error)))

    async def stopped(self, pod: PodRef, ended_at: datetime, *, why: str, ended: bool = True) -> None:
        assert why

        async def act() -> None:
            if self._account.away or self._account.deaf:
                raise RetirementUnavailableError("the ledger is away")
            self._account.stops.append((pod.uid, ended_at))
            self._account.claims.discard(pod.uid)
            self._account.fences.discard(pod.uid)

        await self._faults.call("books stopped", act, error=lambda error: RetirementUnavailableError(str(error)))


class GuardedStore(GlassStore):
    """Sees every write at the moment it happens, and remembers the deaths of Pods that held a claim or had no fence."""

    def __init__(self, account: Account) -> None:
        super().__init__()
        self.account = account
        self.killed: list[str] = []
        self.unfenced: list[str] = []
        self.deletions: list[tuple[str, bool]] = []
        """Pods by uid as they are deleted, and whether their stop had been told by then."""
        self.forgiven: set[str] = set()
        """Pods that somebody else deletes."""

    def present(self, kind: type[T]) -> list[T]:
        """Every object of a kind as it is now; built-in kinds have no group."""
        where = kind.RESOURCE
        page = self._state.page(f"{where.plural}.{where.group}".rstrip("."), None, 0, None, None)
        return [msgspec.json.decode(record.value, type=kind) for record in page.records]

    def _write(self, operation: Operation) -> Record:
        before = self._state.get(operation.key) if operation.key.resource == "pods" else None
        record = super()._write(operation)
        if before is not None:
            self._judge(_decoded(before), None if operation.__class__.__name__ == "Delete" else _decoded(record))
        return record

    def _judge(self, before: dict[str, Any], after: dict[str, Any] | None) -> None:
        meta = before["metadata"]
        uid, phase = meta["uid"], before.get("status", {}).get("phase")
        already = "deletionTimestamp" in meta
        if already or (after is not None and "deletionTimestamp" not in after["metadata"]):
            return
        self.deletions.append((uid, any(told == uid for told, _ in self.account.stops)))
        if phase in {"Succeeded", "Failed"} or uid in self.forgiven:
            return
        if uid in self.account.claims:
            self.killed.append(meta["name"])
        elif uid not in self.account.fences:
            self.unfenced.append(meta["name"])


def _decoded(record: Record) -> dict[str, Any]:
    return msgspec.json.decode(record.value)


class PoolWorld:
    """One cluster with runner pools. `nodes` Macs and `linux` Linux Nodes are there from the start.

    `lag` is how many seconds the controller's caches are behind. Beside the controller run healing's own workers on Pods that
    cannot end and on accounts without a Pod; with `healing=None` nobody does, which shows what the controller leaves alone.
    `bound` is within how many seconds free places of good Nodes are used by pools that lack Pods (see `capacity_bound`).
    """

    def __init__(
        self,
        world: World,
        *,
        nodes: int = 0,
        linux: int = 0,
        lag: float = 0.0,
        healing: HealingSettings | None = HealingSettings(),  # noqa: B008 - it is frozen
        bound: float | None = BOUND,
        **settings: Any,
    ) -> None:
        self.world = world
        self.bound = CapacityBound(bound, self._is_warm)
        self._lag = lag
        self.clock = world.clock
        given: dict[str, Any] = {"dispatch_url": "http://dispatch", "poller_image": "poller:1", "termination_grace": 5}
        self.settings = PoolSettings(**(given | settings))
        self.account = Account()
        self.store = GuardedStore(self.account)
        self.boot = 10.0
        self.healed: tuple[Healed, ...] = ()
        self.broken: set[str] = set()
        """Nodes on which no Pod ever starts."""
        self.failing: set[str] = set()
        """Nodes on which every Pod fails as soon as it is there."""
        self.plane = ControlPlane(
            self.store,
            self.clock,
            world.rng("api"),
            admin_token=ADMIN,
            signing_key=generate_key(),
            definitions=[crd_of(RunnerPool)],
        )
        self._starts_seen = 0
        self.ready = asyncio.Event()
        world.process("api", self._api)
        self.api = self.client(faults=False)
        self._first = [("darwin", f"mac-{n}") for n in range(nodes)] + [("linux", f"lin-{n}") for n in range(linux)]
        world.process("agents", self._agents)
        self.operator = world.process("operator", self._operator, restart_after=2.0)
        if healing is not None:
            world.process("healing", partial(self._healing, healing), restart_after=2.0)

    async def _api(self) -> None:
        async with self.plane.running():
            for os, name in self._first:
                await self.add_node(name, os)
            self.ready.set()
            await asyncio.Event().wait()

    def client(self, *, faults: bool = True) -> Client:
        transport = self.world.transport(
            self.plane.app, host=self.world.processes["api"], latency=(0.001, 0.01), faults=faults, purpose="kube"
        )
        if faults and self._lag:
            transport = LaggingTransport(transport, self.clock, self._lag)
        return Client(Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN))), transport, timeout=5.0)

    async def _operator(self) -> None:
        await self.ready.wait()
        rng, clock = self.world.rng("operator"), self.clock
        # Names must differ from those of the life before.
        rng.seed(f"{self.world.seed} {self.world.processes['operator'].starts}")
        metrics = KubeMetrics(CollectorRegistry())
        client = self.client()
        informer = partial(Informer, client, clock=clock, rng=rng, metrics=metrics)
        pods = informer(kind=Pod, label_selector=f"{RUNNER_LABEL}=true")
        nodes, pools = informer(kind=Node), informer(kind=RunnerPool)
        recorder = EventRecorder(client, "paddock", clock=clock, rng=rng, metrics=metrics)
        reconciler = PoolReconciler(
            PoolContext(
                client=client,
                retirement=StubBooks(self.account, self.world.faults),
                settings=self.settings,
                recorder=recorder,
                clock=clock,
                rng=rng,
            ),
            PoolCaches(pods=pods.reader, nodes=nodes.reader, pools=pools.reader),
        )
        everyone = lambda _: [Request("default", each.metadata.name) for each in pools.reader.list()]  # noqa: E731
        rest = lambda _: between_looks(len(pods.reader))  # noqa: E731
        controller = Controller("pool", reconciler, clock=clock, rng=rng, metrics=metrics, workers=2, rest=rest)
        controller.watches(pools).watches(pods, its_pool).watches(nodes, everyone)
        manager = Manager(clock=clock, rng=rng, metrics=metrics)
        manager.add_runnable("events", recorder.run)
        manager.add_controller(controller)
        await manager.run()

    async def _healing(self, settings: HealingSettings) -> None:
        await self.ready.wait()
        client = self.client()
        workers = (
            ImmortalPods(client, settings, self.clock, namespace="default"),
            OrphanServiceAccounts(client, settings, self.clock, namespace="default"),
        )
        while True:
            await self.clock.sleep(settings.every)
            for worker in workers:
                with suppress(KubeError):
                    self.healed += (await worker.heal()).healed

    # The Nodes' agents

    async def _agents(self) -> None:
        await self.ready.wait()
        client = self.client(faults=False)
        while True:
            there, pods = self.store.present(Node), self.store.present(Pod)
            self._look(there, pods)
            nodes = {node.metadata.name for node in there}
            for pod in pods:
                if pod.spec.node_name in nodes:
                    try:
                        await self._tend(client, pod)
                    except KubeError:
                        continue
            await self.clock.sleep(1.0)

    def _look(self, nodes: list[Node], pods: list[Pod]) -> None:
        operator = self.operator
        excused = not operator.running or operator.starts != self._starts_seen
        self._starts_seen = operator.starts
        self.bound.look(
            self.store.present(RunnerPool),
            nodes,
            pods,
            bad=frozenset(self.broken | self.failing),
            excused=excused,
            now=self.clock.monotonic(),
        )

    async def _tend(self, client: Client, pod: Pod) -> None:
        meta, phase, uid = pod.metadata, pod.status.phase, pod.metadata.uid
        if meta.deletion_timestamp is not None:
            if self.clock.now() >= meta.deletion_timestamp:
                await client.delete(Pod, meta.name, meta.namespace, uid=uid, grace_period=0)
            return
        if phase in {"Succeeded", "Failed"} or pod.spec.node_name in self.broken:
            return
        if pod.spec.node_name in self.failing:
            await self._fail(client, pod)
            return
        told_to_go = meta.labels.get(DRAIN_ELIGIBLE_LABEL) == "true" or uid in self.account.fences
        if self._is_warm(pod):
            if told_to_go and uid not in self.account.claims:
                await self.end(pod)
            return
        scheduled = next((c.last_transition_time for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if scheduled is not None and (self.clock.now() - scheduled).total_seconds() >= self.boot and phase == "Pending":
            await self._start(client, pod)

    async def _start(self, client: Client, pod: Pod) -> None:
        running = {"running": {"startedAt": rfc3339(self.clock.now())}}
        if pod.spec.init_containers:
            poller = {"name": POLLER, "image": "p", "imageID": "", "ready": True, "restartCount": 0, "state": running}
            status: dict[str, Any] = {"initContainerStatuses": [poller]}
        else:
            runner = {"name": RUNNER, "image": "r", "imageID": "", "ready": True, "restartCount": 0, "state": running}
            others = [msgspec.to_builtins(each) for each in pod.status.conditions if each.type != "Ready"]
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(self.clock.now())}
            status = {"phase": "Running", "containerStatuses": [runner], "conditions": [*others, ready]}
        await client.merge_patch(
            Pod, pod.metadata.name, {"status": status}, pod.metadata.namespace, subresource="status"
        )

    async def _fail(self, client: Client, pod: Pod) -> None:
        """As the agent says it of a VM that does not start, and a kubelet of a Pod that it cannot take."""
        status: dict[str, Any] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        if not pod.spec.init_containers:
            at = rfc3339(self.clock.now())
            over = {"terminated": {"exitCode": 1, "reason": "VMStartFailed", "startedAt": at, "finishedAt": at}}
            runner = {"name": RUNNER, "image": "r", "imageID": "", "ready": False, "restartCount": 0, "state": over}
            status = {"phase": "Failed", "reason": "VMStartFailed", "containerStatuses": [runner]}
        await client.merge_patch(
            Pod, pod.metadata.name, {"status": status}, pod.metadata.namespace, subresource="status"
        )

    def _is_warm(self, pod: Pod) -> bool:
        if pod.spec.init_containers:
            return any(s.state.running is not None for s in pod.status.init_container_statuses)
        return pod.status.phase == "Running"

    # What others do

    async def add_node(self, name: str, os: str, **labels: str) -> None:
        label = FLEET_LABEL if os == "darwin" else LINUX_POOL_LABEL
        await self.api.create(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {
                    "name": name,
                    "labels": {
                        "kubernetes.io/os": os,
                        "kubernetes.io/arch": "arm64" if os == "darwin" else "amd64",
                        "tuist.dev/runtime": "tart",
                        label: "fleet",
                        **labels,
                    },
                },
            },
            Node.RESOURCE,
        )
        offer = {"cpu": "64", "memory": "512Gi", "pods": "100"} | ({"tuist.dev/vm": "2"} if os == "darwin" else {})
        status = {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": offer,
            "capacity": offer,
        }
        await self.api.merge_patch(Node, name, {"status": status}, subresource="status")

    async def cordon(self, name: str) -> None:
        await self.api.merge_patch(Node, name, {"spec": {"unschedulable": True}})

    async def pool(self, name: str, replicas: int, **spec: Any) -> None:
        await self.ready.wait()
        given: dict[str, Any] = {
            "image": IMAGE,
            "fleet_selector": "fleet",
            "dispatch_label": f"label-{name}",
            "runner_labels": ("self-hosted",),
            "pod_cpu_milli": 1000,
            "pod_memory_mb": 1024,
            "replicas": replicas,
        }
        await self.api.create(
            RunnerPool(metadata=ObjectMeta(name=name, namespace="default"), spec=RunnerPoolSpec(**(given | spec)))
        )

    async def change(self, name: str, **spec: Any) -> None:
        await self.api.merge_patch(RunnerPool, name, {"spec": spec}, "default")

    async def take(self, pod: Pod, *, assign: bool = True) -> None:
        """A dispatcher gives the Pod a job."""
        assert self.account.claim(pod.metadata.uid), f"{pod.metadata.name} is fenced"
        if assign:
            await self.api.merge_patch(
                Pod, pod.metadata.name, {"metadata": {"labels": {OWNER_LABEL: "acme"}}}, "default"
            )

    async def end(self, pod: Pod, code: int = 0) -> None:
        """The Pod ends by itself, its job done or without one."""
        done = {
            "terminated": {
                "exitCode": code,
                "reason": "Completed" if code == 0 else "Error",
                "finishedAt": rfc3339(self.clock.now()),
            }
        }
        runner = {"name": RUNNER, "image": "r", "imageID": "", "ready": False, "restartCount": 0, "state": done}
        status: dict[str, Any] = {"phase": "Succeeded" if code == 0 else "Failed", "containerStatuses": [runner]}
        await self.api.merge_patch(Pod, pod.metadata.name, {"status": status}, "default", subresource="status")

    # What can be seen

    def pods(self, pool: str = "", *, living: bool = True) -> list[Pod]:
        found = [pod for pod in self.store.present(Pod) if not pool or pod.metadata.labels.get(POOL_LABEL) == pool]
        over = {"Succeeded", "Failed"}
        return [
            pod
            for pod in sorted(found, key=lambda pod: pod.metadata.name)
            if not living or (pod.metadata.deletion_timestamp is None and pod.status.phase not in over)
        ]

    def warm(self, pool: str = "") -> list[Pod]:
        return [pod for pod in self.pods(pool) if self._is_warm(pod)]

    def seen_pool(self, name: str) -> RunnerPool | None:
        return next((each for each in self.store.present(RunnerPool) if each.metadata.name == name), None)

    def ready_condition(self, name: str) -> Condition:
        found = self.seen_pool(name)
        assert found is not None
        said = [each for each in found.status.conditions if each.type == "Ready"]
        return replace(said[0]) if said else Condition(type="Ready", status="", reason="")

    def accounts(self) -> set[str]:
        return {each.metadata.name for each in self.store.present(ServiceAccount) if each.metadata.name != "default"}

    def safe(self) -> None:
        assert not self.store.killed, f"deleted while they held a claim: {self.store.killed}"
        assert not self.store.unfenced, f"deleted alive and without a fence: {self.store.unfenced}"
        assert not self.bound.broken, f"good Macs were idle beside a pool that lacks Pods: {self.bound.broken[:3]}"

    async def eventually(self, what: str, holds: Callable[[], bool | Awaitable[bool]], within: float = 300.0) -> None:
        deadline = self.clock.monotonic() + within
        while True:
            result = holds()
            if result if isinstance(result, bool) else await result:
                self.safe()
                return
            self.safe()
            if self.clock.monotonic() > deadline:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{self.describe()}")
            await self.clock.sleep(1.0)

    async def settled(self, pool: str, warm: int, within: float = 480.0) -> None:
        """All Pods warm, and each with its own ServiceAccount, which it owns, and no other."""

        def holds() -> bool:
            pods = self.pods(pool, living=False)
            mine = {
                each.metadata.name: each
                for each in self.store.present(ServiceAccount)
                if each.metadata.labels.get(POOL_LABEL) == pool
            }
            paired = all(
                [owner.uid for owner in mine[pod.metadata.name].metadata.owner_references] == [pod.metadata.uid]
                for pod in pods
                if pod.metadata.name in mine
            )
            return len(self.warm(pool)) == warm == len(pods) and set(mine) == {p.metadata.name for p in pods} and paired

        await self.eventually(f"{warm} warm Pods of {pool}, each with its ServiceAccount", holds, within)

    def describe(self) -> str:
        lines = [f"at {self.clock.monotonic():.0f} s, ServiceAccounts {sorted(self.accounts())}"]
        for each in self.store.present(RunnerPool):
            said = [f"{c.type}={c.status} {c.reason}: {c.message}" for c in each.status.conditions]
            lines.append(f"  pool {each.metadata.name} wants {each.spec.replicas}: {'; '.join(said)}")
        for pod in self.pods(living=False):
            meta = pod.metadata
            lines.append(
                f"  pod {meta.name} {pod.status.phase} on {pod.spec.node_name or '-'} deleted={meta.deletion_timestamp} "
                f"claimed={meta.uid in self.account.claims} fenced={meta.uid in self.account.fences}"
            )
        return "\n".join(lines)
