"""One Mac in virtual time: a real API, the real agent, a simulated Tart, and a small dispatch service that remembers."""

import asyncio
import base64
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import parse_qsl

import httpx2
import pytest
from simulation.node.gateway_side import GatewaySide

from paddock.base.rng import seeded
from paddock.base.secrets import Secret
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.hosts.api import KINDS
from paddock.kube.builtin import Lease, Node, Pod, ServiceAccount
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.node.agent import Agent
from paddock.node.agent import World as AgentWorld
from paddock.node.kube_link import KubernetesLink
from paddock.node.link import MacLink
from paddock.node.metrics import AgentMetrics
from paddock.node.names import golden_name, vm_name
from paddock.node.settings import AgentSettings
from paddock.simulator.fleet_world import GlassStore
from paddock.simulator.process import World
from paddock.simulator.tart import GuestPace, SimulatedDisk, SimulatedHost, SimulatedTart, TartPace

ADMIN = Secret("node-world-admin")
IMAGE = "images.test/macos:1"
NODE = "mac-1"
DATA = Path("/node")
over_kubernetes = pytest.mark.parametrize("link", ["kubernetes"], indirect=True)
"""What only that link has: identities of Kubernetes, tokens of Pods, the Date of an API server."""
over_gateway = pytest.mark.parametrize("link", ["gateway"], indirect=True)
"""What only that link has: claims and keys, the ledger's word, processes of the gateway."""


@dataclass
class Dispatch:
    """What the dispatch service does for Pods: holds the request, answers each Pod once, and then tells it to go."""

    jobs: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    drained: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    marks: list[tuple[str, str]] = field(default_factory=list)
    hold: float = 25.0
    logs: dict[str, bytearray] = field(default_factory=dict)
    ended_logs: set[str] = field(default_factory=set)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {key.decode().lower(): value.decode() for key, value in scope["headers"]}
        uid = _pod_uid(headers["authorization"].split()[1])
        if scope["path"].endswith("/pods/log"):
            query = dict(parse_qsl(scope["query_string"].decode()))
            kept = self.logs.setdefault(uid, bytearray())
            kept += body[max(0, len(kept) - int(query["from"])) :]
            self.ended_logs |= {uid} if query.get("end") == "true" else set()
            return await _answer(send, 200, {"next": len(kept)})
        if scope["path"].endswith("/pods/progress"):
            self.marks.append((uid, json.loads(body)["mark"]))
            await _answer(send, 204)
            return None
        self.asked.append(uid)
        wait = float(headers.get("prefer", f"wait={self.hold}").partition("=")[2])
        deadline = asyncio.get_running_loop().time() + min(self.hold, wait)
        while True:
            if uid in self.refused:
                return await _answer(send, 403, {"error": "no", "reason": "refused"})
            if uid in self.answered or uid in self.drained:
                return await _answer(send, 410, {"error": "drain", "reason": "the Pod had its job"})
            if self.jobs:
                job = self.jobs.pop(0)
                self.answered.append(uid)
                config = base64.b64encode(job.encode()).decode()
                return await _answer(send, 200, {"encoded_jit_config": config, "owner": "acme", "workflow_job_id": 7})
            if asyncio.get_running_loop().time() >= deadline:
                return await _answer(send, 204)
            await asyncio.sleep(0.25)


def _pod_uid(token: str) -> str:
    part = token.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims["kubernetes.io"]["pod"]["uid"]


async def _answer(send: Any, code: int, body: Any = None) -> None:
    content = json.dumps(body).encode() if body is not None else b""
    await send({"type": "http.response.start", "status": code, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": content})


class NodeWorld:
    """`agent` is a process that comes back two seconds after it dies, as launchd would bring it back."""

    LINK: ClassVar[Literal["kubernetes", "gateway"]] = "kubernetes"
    """Which way the agent has to its cluster; the fixture `link` takes both."""

    def __init__(
        self, world: World, *, held: bool = True, start: bool = True, replicas: int = 1, **settings: Any
    ) -> None:
        self.world = world
        self.clock = world.clock
        self.store = GlassStore()
        self.dispatch = Dispatch()
        self.plane = ControlPlane(
            self.store,
            self.clock,
            world.rng("api"),
            admin_token=ADMIN,
            signing_key=generate_key(),
            definitions=[crd_of(kind) for kind in KINDS],
        )
        self.ready = asyncio.Event()
        self.server = "api"
        world.process("api", self._serve)
        world.process("dispatch", self._forever)
        self.api = self.client(faults=False)
        self.host = SimulatedHost(NODE, self.clock, address="192.0.2.10")
        self.disk = SimulatedDisk(world.faults)
        self.ran: list[str] = []
        self.finished: list[str] = []
        self.duration = 20.0
        self.code = 0
        self.tart = SimulatedTart(
            self.disk,
            self.host,
            self._runner,
            clock=self.clock,
            rng=world.rng("tart"),
            faults=world.faults,
            pace=TartPace(pull=20.0),
            guest_pace=GuestPace(boot=4.0, ready=2.0),
        )
        mac = world.process("mac", self._forever)
        assert mac.life is not None
        mac.life.on_end(self.tart.power_off)
        if held:
            self.hold(IMAGE)
        given: dict[str, Any] = {
            "node_name": NODE,
            "data": DATA,
            "dispatch_url": "http://dispatch",
            "guest_script": b"#!/bin/sh\n",
            "provider_id": "scaleway://mac-1",
            "labels": {"tuist.dev/fleet": "f"},
        }
        self.settings = AgentSettings(**(given | settings))
        self.running: Agent | None = None
        self.link: MacLink | None = None
        self.gateway: GatewaySide | None = None
        if self.LINK == "gateway":
            names = ["gateway", *(f"gateway {number}" for number in range(2, replicas + 1))]
            self.gateway = GatewaySide(self, NODE, names=names)
        self.agents: Any = None
        if start:
            self.agents = world.process("agent", self._agent, restart_after=2.0)

    def hold(self, image: str) -> None:
        """The Mac has this image already."""
        self.tart.cache.add(image)
        from paddock.simulator.tart.machines import _Machine

        self.tart.vms[golden_name(image)] = _Machine(golden_name(image), image)

    async def _serve(self) -> None:
        plane, ready = self.plane, self.ready
        async with plane.running():
            ready.set()
            await asyncio.Event().wait()

    async def move(self) -> None:
        """The Mac is given to another cluster, as `clusterctl move` and an update do it; the old one goes on without it."""
        self.store = GlassStore()
        rng = self.world.rng("api of the new cluster")
        definitions = [crd_of(kind) for kind in KINDS]
        self.plane = ControlPlane(
            self.store, self.clock, rng, admin_token=ADMIN, signing_key=generate_key(), definitions=definitions
        )
        self.ready = asyncio.Event()
        self.server = "new api"
        self.world.process("new api", self._serve)
        await self.ready.wait()
        self.api = self.client(faults=False)
        if self.gateway is not None:
            self.gateway = GatewaySide(self, NODE, names=["new gateway"])
            await self.gateway.introduced.wait()
        self.world.processes["agent"].crash()

    async def _forever(self) -> None:
        await asyncio.Event().wait()

    @property
    def writer(self) -> str:
        """The process that writes the Mac's Node and Pods."""
        return "agent" if self.gateway is None else "gateway"

    def client(self, *, faults: bool = True, token: Secret = ADMIN) -> Client:
        return self.clients()(faults=faults, token=token)

    def clients(self) -> Callable[..., Client]:
        """Makes clients of the API server that there is now, also after a move."""
        app, host = self.plane.app, self.world.processes[self.server]

        def client(*, faults: bool = True, token: Secret = ADMIN) -> Client:
            transport = self.world.transport(app, host=host, latency=(0.001, 0.01), faults=faults, purpose="kube")
            return Client(
                Config("https://api", credentials=FixedIdentity(Identity(token=token))), transport, timeout=5.0
            )

        return client

    async def _agent(self) -> None:
        await self.ready.wait()
        if self.gateway is not None:
            await self.gateway.introduced.wait()
        starts = self.world.processes["agent"].starts
        await self.agent(f"{self.world.seed} {starts}").run()

    def agent(self, seed: str = "agent") -> Agent:
        rng, metrics = seeded(f"agent of {seed}"), AgentMetrics()
        self.link = self.make_link(rng, metrics)
        world = AgentWorld(self.link, self.tart, self.host, self.disk, self.clock, rng)
        self.running = Agent(world, self.settings, metrics=metrics)
        return self.running

    def make_link(self, rng: random.Random, metrics: AgentMetrics) -> MacLink:
        """The one place that knows how agents reach the outside."""
        if self.gateway is not None:
            return self.gateway.link(rng, metrics)

        def dispatch() -> httpx2.AsyncClient:
            host = self.world.processes["dispatch"]
            return httpx2.AsyncClient(transport=self.world.transport(self.dispatch, host=host, purpose="dispatch"))

        return KubernetesLink(self.client(), dispatch, self.settings, clock=self.clock, rng=rng, metrics=metrics)

    async def _runner(self, config: str, stage: Callable[[str], None]) -> int:
        job = base64.b64decode(config).decode()
        self.ran.append(job)
        for name in ("listening", "running"):
            stage(name)
            await self.clock.sleep(self.duration / 2)
        self.finished.append(job)
        return self.code

    # What others do

    async def pod(self, name: str, image: str = IMAGE, **changes: Any) -> str:
        """Create a Pod that is bound to the Mac; gives its uid."""
        await self.ready.wait()
        account = ServiceAccount(metadata=ObjectMeta(name=name, namespace="default"))
        try:
            await self.api.get(ServiceAccount, name, "default")
        except NotFoundError:
            await self.api.create(account)
        source = {"audience": "dispatch", "expirationSeconds": 3600, "path": "token"}
        spec: dict[str, Any] = {
            "nodeName": NODE,
            "nodeSelector": {"tuist.dev/fleet": "f"},
            "restartPolicy": "Never",
            "serviceAccountName": name,
            "terminationGracePeriodSeconds": 10,
            "containers": [
                {
                    "name": "runner",
                    "image": image,
                    "env": [
                        {"name": "TUIST_RUNNER_POOL", "value": "pool"},
                        {"name": "PADDOCK_GITHUB_URL", "value": "https://github.test"},
                    ],
                    "resources": {"limits": {"cpu": "4", "memory": "6Gi"}},
                }
            ],
            "volumes": [{"name": "token", "projected": {"sources": [{"serviceAccountToken": source}]}}],
        }
        metadata = {"name": name, "namespace": "default", "labels": {"tuist.dev/runner-pool": "pool"}}
        metadata |= changes.pop("metadata", {})
        made = await self.api.create({"metadata": metadata, "spec": spec | changes}, Pod.RESOURCE)
        return made["metadata"]["uid"]

    async def delete(self, name: str, grace: int | None = None) -> None:
        await self.api.delete(Pod, name, "default", grace_period=grace)

    def vm(self, uid: str) -> str:
        return vm_name("pool", uid)

    # What can be seen

    async def see(self, name: str) -> Pod | None:
        try:
            return await self.api.get(Pod, name, "default")
        except NotFoundError:
            return None

    async def raw(self, name: str) -> dict[str, Any]:
        return await self.api.get(Pod.RESOURCE, name, "default")

    async def phase(self, name: str) -> str:
        pod = await self.see(name)
        return pod.status.phase if pod is not None else "gone"

    async def node(self) -> Node | None:
        try:
            return await self.api.get(Node, NODE)
        except NotFoundError:
            return None

    async def lease(self) -> Lease | None:
        try:
            return await self.api.get(Lease, NODE, "kube-node-lease")
        except NotFoundError:
            return None

    async def ready_pod(self, name: str) -> bool:
        pod = await self.see(name)
        return pod is not None and any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)

    def entries(self) -> list[str]:
        return sorted({path.parts[3] for path in self.disk.files if path.name == "pod.json"})

    def safe(self) -> None:
        ledger = self.tart.ledger
        assert not ledger.overlaps, ledger.overlaps
        assert not ledger.killed_jobs, f"killed in their job: {ledger.killed_jobs}"
        # One that the kernel refuses is a process for a moment, and never a guest.
        assert sum(self.tart.vms[name].guest is not None for name in self.tart.running()) <= 2

    async def eventually(
        self, what: str, holds: Callable[[], bool | Awaitable[bool]], within: float = 300.0, step: float = 0.5
    ) -> None:
        deadline = self.clock.monotonic() + within
        while True:
            result = holds()
            if result if isinstance(result, bool) else await result:
                self.safe()
                return
            self.safe()
            if self.clock.monotonic() > deadline:
                raise AssertionError(f"not within {within:.0f} s: {what}\n{await self.describe()}")
            await self.clock.sleep(step)

    async def phase_is(self, name: str, phase: str, within: float = 300.0) -> Pod | None:
        async def holds() -> bool:
            return await self.phase(name) == phase

        await self.eventually(f"{name} is {phase}", holds, within)
        return await self.see(name)

    async def is_ready(self, name: str, within: float = 120.0) -> None:
        await self.eventually(f"{name} is ready", lambda: self.ready_pod(name), within)

    async def describe(self) -> str:
        lines = [f"at {self.clock.monotonic():.0f} s; VMs {self.tart.running()} of {sorted(self.tart.vms)}"]
        pods = (await self.api.list(Pod)).items
        lines += [f"  {pod.metadata.name} {pod.status.phase} {pod.status.container_statuses}" for pod in pods]
        lines += [f"  {path}: {self.disk.files[path][:700]!r}" for path in self.disk.files if path.name == "pod.json"]
        lines.append(f"  asked {len(self.dispatch.asked)}, answered {self.dispatch.answered}, ran {self.ran}")
        return "\n".join(lines)
