"""A cluster in virtual time whose ledger is a table of numbers: everything else of the runner subsystem's operator is real."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

from simulation.runners.pools.capacity_bound import CapacityBound

from paddock.base.failing_mac import JOBS_FAIL
from paddock.base.metrics import CollectorRegistry
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.definitions import our_definitions
from paddock.kube.builtin import Node
from paddock.kube.builtin import Pod as KubePod
from paddock.kube.client import Client
from paddock.kube.conditions import get_condition
from paddock.kube.config import Config
from paddock.kube.controller import Controller
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import NotFoundError
from paddock.kube.informer import Informer
from paddock.kube.manager import Manager
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import Condition, ObjectMeta
from paddock.runners.api import FLEET_LABEL, LINUX_POOL_LABEL, Autoscaling, RunnerPool, RunnerPoolSpec
from paddock.runners.ledger import GivenUp, Pod, PoolSignals
from paddock.runners.ledger.mac_ends import EndOnMac
from paddock.runners.pools.autoscaler import AUTOSCALED, Autoscaler
from paddock.runners.pools.retirement import RetirementUnavailableError
from paddock.runners.pools.settings import PoolSettings
from paddock.runners.processes.operator import RunnerOperator
from paddock.simulator.fleet_world import GlassStore
from paddock.simulator.process import World

ADMIN = Secret("scaling-admin")
BOUND = 15.0
"""Seconds within which a place that a pool can use has a Pod, as in every simulation of pools."""


class StubBooks:
    """A fake ledger: says of each pool what the test wrote down, or nothing at all."""

    def __init__(self) -> None:
        self.load: dict[str, PoolSignals] = {}
        self.silent: set[str] = set()
        self.asked: list[str] = []
        self.ends: list[EndOnMac] = []

    def say(
        self,
        pool: str,
        *,
        claimed: int = 0,
        occupied: int = 0,
        queued: int = 0,
        withheld: int = 0,
        p95: int = 0,
        **more: Any,
    ) -> None:
        self.load[pool] = PoolSignals(pool, claimed, occupied, queued, withheld, 0.0, p95, **more)

    async def signals(self, pool: str) -> PoolSignals:
        self.asked.append(pool)
        if pool in self.silent:
            raise RetirementUnavailableError("nobody answers")
        return self.load.get(pool, PoolSignals(pool, 0, 0, 0, 0, 0.0, 0))

    async def retire(self, pods: Sequence[Pod], *, why: str) -> frozenset[str]:
        return frozenset(pod.uid for pod in pods)

    async def killed(self, kills: Sequence[GivenUp]) -> None:
        raise AssertionError("a pool that is scaled ends no job")

    async def stopped(self, pod: Pod, ended_at: datetime, *, why: str, ended: bool = True) -> None:
        """Nothing is written down."""

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        return {}

    async def ends_on(self, nodes: Sequence[str]) -> Sequence[EndOnMac]:
        if "ends" in self.silent:
            raise RetirementUnavailableError("nobody answers")
        return [end for end in self.ends if end.node in nodes]


class ScalingWorld:
    """`alone` runs the autoscaler without the pool controller, whose writes and Pods would only be in the way.

    With the pool controller the bound on capacity is kept (`capacity_bound`): whatever the autoscaler asks for, good Nodes with
    room do not stand beside pools that lack Pods. Every Pod that has a Node runs within a second or two.
    """

    def __init__(self, world: World, *definitions: dict[str, Any], alone: bool = False) -> None:
        self._alone = alone
        self.world, self.clock = world, world.clock
        self.retirement = StubBooks()
        self.store = GlassStore()
        self.plane = ControlPlane(
            self.store,
            self.clock,
            world.rng("api"),
            admin_token=ADMIN,
            signing_key=generate_key(),
            definitions=[*our_definitions(), *definitions],
        )
        self.registry = CollectorRegistry()
        self.ready = asyncio.Event()
        self.node_names: list[str] = []
        world.process("api", self._api)
        self.api = self._client(faults=False)
        self.operator = world.process("operator", self._operator, restart_after=2.0)
        self.bound = CapacityBound(None if alone else BOUND, lambda pod: pod.status.phase == "Running")
        self._starts_seen = 0
        world.process("agents", self._agents)

    async def _agents(self) -> None:
        """The kubelets, and who looks at them from outside."""
        await self.ready.wait()
        while True:
            for pod in self.store.present(KubePod):
                meta = pod.metadata
                with suppress(NotFoundError):
                    if meta.deletion_timestamp is not None:
                        await self.api.delete(KubePod, meta.name, meta.namespace, uid=meta.uid, grace_period=0)
                    elif pod.spec.node_name and pod.status.phase in ("", "Pending"):
                        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                        change = {"metadata": {"uid": meta.uid}, "status": running}
                        await self.api.merge_patch(KubePod, meta.name, change, meta.namespace, subresource="status")
            started, self._starts_seen = self.operator.starts != self._starts_seen, self.operator.starts
            self.bound.look(
                self.store.present(RunnerPool),
                self.store.present(Node),
                self.store.present(KubePod),
                bad=frozenset(
                    node.metadata.name for node in self.store.present(Node) if JOBS_FAIL in node.metadata.annotations
                ),
                excused=started or not self.operator.running,
                now=self.clock.monotonic(),
            )
            await self.clock.sleep(1.0)

    async def _api(self) -> None:
        async with self.plane.running():
            self.ready.set()
            await asyncio.Event().wait()

    def _client(self, *, faults: bool = True) -> Client:
        transport = self.world.transport(
            self.plane.app, host=self.world.processes["api"], latency=(0.001, 0.02), faults=faults, purpose="kube"
        )
        return Client(Config("https://api", credentials=FixedIdentity(Identity(token=ADMIN))), transport, timeout=10.0)

    async def _operator(self) -> None:
        await self.ready.wait()
        rng = self.world.rng("operator")
        self.registry = CollectorRegistry()
        metrics = KubeMetrics(self.registry)
        manager = Manager(clock=self.clock, rng=rng, metrics=metrics)
        if self._alone:
            self._autoscaler_of(manager, rng, metrics)
            await manager.run()
        RunnerOperator(manager, self._client(), self.retirement, PoolSettings(dispatch_url="http://dispatch"))
        await manager.run()

    def _autoscaler_of(self, manager: Manager, rng: random.Random, metrics: KubeMetrics) -> None:
        client, tools = self._client(), {"clock": self.clock, "rng": rng, "metrics": metrics}
        pools, nodes = Informer(client, RunnerPool, **tools), Informer(client, Node, **tools)
        manager.add_informer(nodes)
        scaler = Autoscaler(client, self.retirement, pools.reader, nodes.reader, self.clock)
        manager.add_controller(Controller("autoscaler", scaler, **tools).watches(pools))

    async def pool(
        self,
        name: str,
        *,
        replicas: int = 0,
        floor: int = 1,
        limit: int = 20,
        cooldown: int = 300,
        enabled: bool = True,
        **spec: object,
    ) -> None:
        await self.ready.wait()
        made = RunnerPoolSpec(
            **{
                "image": "image:1",
                "fleet_selector": "macs",
                "dispatch_label": name,
                "runner_labels": ("self-hosted",),
                "replicas": replicas,
                "autoscaling": Autoscaling(
                    enabled=enabled,
                    min_warm_pool_floor=floor,
                    max_replicas=limit,
                    scale_down_cooldown_seconds=cooldown,
                ),
                **spec,
            }  # pyright: ignore[reportArgumentType]
        )
        await self.api.create(RunnerPool(metadata=ObjectMeta(name=name, namespace="default"), spec=made))

    async def nodes(self, count: int, *, fleet: str = "macs", memory: str = "", **conditions: str) -> None:
        """Healthy Nodes, or with `conditions` others."""
        await self.ready.wait()
        label = LINUX_POOL_LABEL if memory else FLEET_LABEL
        for _ in range(count):
            name = f"node-{len(self.node_names)}"
            self.node_names.append(name)
            os, arch = ("linux", "amd64") if memory else ("darwin", "arm64")
            fits = {"kubernetes.io/os": os, "kubernetes.io/arch": arch, "tuist.dev/runtime": "tart"}
            await self.api.create(Node(metadata=ObjectMeta(name=name, labels={label: fleet, **fits})))
            said = {"Ready": "True", **conditions}
            status = {
                "conditions": [{"type": kind, "status": state} for kind, state in said.items()],
                "nodeInfo": {"bootID": f"first boot of {name}"},
                "allocatable": {"cpu": "64", "memory": memory or "16Gi", "pods": "3"}
                | ({} if memory else {"tuist.dev/vm": "2"}),
            }
            await self.api.merge_patch(Node, name, {"status": status}, subresource="status")

    def seen(self, name: str) -> RunnerPool:
        return next(pool for pool in self.store.present(RunnerPool) if pool.metadata.name == name)

    def replicas(self, *names: str) -> list[int]:
        return [self.seen(name).spec.replicas for name in names]

    def said(self, name: str) -> Condition:
        found = get_condition(self.seen(name).status.conditions, AUTOSCALED)
        assert found is not None, f"nothing was said of {name}"
        return found

    async def until(self, what: str, holds: Callable[[], bool], within: float = 60.0) -> float:
        """Wait in virtual time; gives the seconds that it took."""
        began = self.clock.monotonic()
        while not _holds(holds):
            if self.clock.monotonic() - began > within:
                pools = {p.metadata.name: (p.spec.replicas, p.status) for p in self.store.present(RunnerPool)}
                raise AssertionError(f"not within {within:.0f} s: {what}\n{pools}")
            await self.clock.sleep(0.5)
        assert not self.bound.broken, self.bound.broken
        return self.clock.monotonic() - began

    async def stays(self, what: str, holds: Callable[[], bool], during: float) -> None:
        until = self.clock.monotonic() + during
        while self.clock.monotonic() < until:
            assert holds(), f"no longer: {what}"
            assert not self.bound.broken, self.bound.broken
            await self.clock.sleep(0.5)


def _holds(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (AssertionError, StopIteration):
        return False


Scenario = Callable[[World], Awaitable[None]]
