"""A cluster in process, gateways before it, and Macs that say what a test wants."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import httpx2
import msgspec
from doubles.clocks import WITHIN
from starlette.applications import Starlette

from paddock.base.clock import SystemClock
from paddock.base.rate_limit import RateLimits
from paddock.base.secrets import Secret
from paddock.clients.gateway.messages import REPORT, Answer, MacFacts, PodReport, Report, Stated, job_path, log_path
from paddock.embedded.api.tokens import generate_key
from paddock.embedded.control_plane import ControlPlane
from paddock.embedded.store.memory import MemoryStore
from paddock.gateway.routes import mac_routes
from paddock.gateway.service import Gateway, GatewayDeps, Jobs
from paddock.hosts.api import (
    KINDS,
    HostClaim,
    HostSpec,
    MachineSpec,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.kube.builtin import Node, Pod
from paddock.kube.client import Client
from paddock.kube.config import Config
from paddock.kube.crd import crd_of
from paddock.kube.credentials import FixedIdentity, Identity
from paddock.kube.errors import NotFoundError
from paddock.kube.objects import ObjectMeta
from paddock.kube.resource import Resource
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.dispatch.pod_proof import PodProof
from paddock.runners.dispatch.waiting_pods import NOTHING, PollAnswer
from paddock.simulator.transport import InProcessTransport

NAMESPACE = "runners"
HOSTS = "paddock"
FLEET = "m4"
ADMIN = Secret("gateway-tests-admin")
KEY = generate_key()
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False, status=False)


def key_of(mac: str, number: int = 1) -> str:
    """The key of a Mac: any text of its form serves here."""
    return f"{mac}-{number}-".ljust(43, "k")


@dataclass
class FakeDispatch:
    """What `app` hands the gateway, as a test wants it."""

    answer: PollAnswer = NOTHING
    working: dict[str, Literal["running", "none"]] | None = None
    asked: list[tuple[PodIdentity, PodProof]] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    marks: list[tuple[str, str]] = field(default_factory=list)

    async def wait_for_job(self, pod: PodIdentity, proof: PodProof, hold: float, left: Any) -> PollAnswer | None:
        self.asked.append((pod, proof))
        return self.answer

    async def append(self, pod_uid: str, first_byte: int, content: bytes, *, ended: bool) -> int:
        kept = self.logs.get(pod_uid, b"")[:first_byte] + content
        self.logs[pod_uid] = kept
        return len(kept)

    async def note(self, pod_uid: str, mark: str) -> None:
        self.marks.append((pod_uid, mark))

    async def of(self, uids: Sequence[str]) -> Mapping[str, Literal["running", "none"]]:
        if self.working is None:
            raise ConnectionError("no ledger")
        return {uid: self.working.get(uid, "none") for uid in uids}

    def jobs(self) -> Jobs:
        return Jobs(hand_over=self, logs=self.append, note_mark=self.note, work=self)


class FakeMac:
    """Says what it is told to say, with a life, a sequence and a key of its own."""

    def __init__(self, rig: "Rig", name: str, key: str, *, folder: str = "folder-1") -> None:
        self.rig, self.name, self.key, self.folder = rig, name, key, folder
        self.seen = ""
        self.life, self.word, self.sequence = 1, f"word-of-{folder}", 0
        self.facts = MacFacts(
            machine_id=f"id-of-{name}",
            boot_id="boot-1",
            booted_at=datetime.fromisoformat("2026-11-01T00:00:00Z"),
            cpus=8,
            memory_bytes=14 << 30,
            disk_bytes=200 << 30,
            seats=2,
            clock=rig.clock.now(),
            os_image="macOS 26.1",
            tart="2.35.0",
            softnet=True,
            goldens=(),
        )
        self.conditions = {"Ready": Stated(True, "AgentReady", "the agent runs, and VMs can start")}

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {HOSTS}/{self.name}:{self.key}"}

    def body(self, pods: Mapping[str, PodReport] | None = None) -> Report:
        self.sequence += 1
        return Report(
            folder=self.folder,
            life=self.life,
            word=self.word,
            sequence=self.sequence,
            agent="0.2.0",
            seen=self.seen,
            mac=msgspec.structs.replace(self.facts, clock=self.rig.clock.now()),
            conditions=self.conditions,
            pods={uid: msgspec.Raw(msgspec.json.encode(pod)) for uid, pod in (pods or {}).items()},
        )

    async def send(self, report: Report, *, hold: float = 0.0, via: int = 0) -> httpx2.Response:
        return await self.rig.http[via].post(
            REPORT, params={"hold": f"{hold:g}"}, content=msgspec.json.encode(report), headers=self.headers
        )

    async def report(self, pods: Mapping[str, PodReport] | None = None, *, hold: float = 0.0, via: int = 0) -> Answer:
        answer = await self.send(self.body(pods), hold=hold, via=via)
        assert answer.status_code == 200, answer.text
        decoded = msgspec.json.decode(answer.content, type=Answer)
        self.seen = decoded.version
        return decoded

    async def job(self, uid: str, *, softnet: bool = True, hold: float = 0.0) -> httpx2.Response:
        return await self.rig.http[0].post(
            job_path(uid), params={"hold": f"{hold:g}"}, json={"softnet": softnet}, headers=self.headers
        )

    async def log(self, uid: str, first: int, content: bytes) -> httpx2.Response:
        return await self.rig.http[0].post(
            log_path(uid), params={"from": str(first)}, content=content, headers=self.headers
        )


class Rig:
    def __init__(self, client: Client, plane: ControlPlane, clock: Any) -> None:
        self.client, self.plane, self.clock = client, plane, clock
        self.dispatch = FakeDispatch()
        self.gateways: list[Gateway] = []
        self.http: list[httpx2.AsyncClient] = []

    async def machine(self, name: str, *, fleet: str = FLEET, key: str = "", machine_id: str = "") -> FakeMac:
        """A Mac with a Machine and a Host whose claim holds the hash of its key."""
        machine = await self.client.create(
            ScalewayAppleSiliconMachine(
                metadata=ObjectMeta(name=name, namespace=HOSTS),
                spec=MachineSpec(provider_id=f"scw-applesilicon://fr-par-1/{name}", fleet_name=fleet),
            )
        )
        key = key or key_of(name)
        await self.client.create(
            ScalewayAppleSiliconHost(
                metadata=ObjectMeta(name=f"host-of-{name}", namespace=HOSTS),
                spec=HostSpec(
                    zone="fr-par-1",
                    server_id=name,
                    claim=HostClaim(
                        machine_namespace=HOSTS,
                        machine_name=name,
                        machine_uid=machine.metadata.uid,
                        key_hash=hashlib.sha256(key.encode()).hexdigest(),
                        key_number=1,
                        machine_id=machine_id,
                    ),
                ),
            )
        )
        for gateway in self.gateways:
            await until(
                lambda g=gateway: g.machines.reader.get(name, HOSTS) and g.hosts.reader.get(f"host-of-{name}", HOSTS)
            )
        return FakeMac(self, name, key)

    async def pod(self, name: str, node: str, *, fleet: str = FLEET, **spec: Any) -> Pod:
        made = await self.client.create(
            {
                "metadata": {
                    "name": name,
                    "namespace": NAMESPACE,
                    "labels": {"tuist.dev/runner": "true", "tuist.dev/runner-pool": "mac"},
                },
                "spec": {
                    "nodeName": node,
                    "nodeSelector": {"tuist.dev/fleet": fleet},
                    "restartPolicy": "Never",
                    "containers": [{"name": "runner", "image": "macos:26"}],
                    **spec,
                },
            },
            Pod.RESOURCE,
        )
        uid = made["metadata"]["uid"]
        for gateway in self.gateways:
            await until(lambda g=gateway: any(each.metadata.uid == uid for each in g.pods.reader.list()))
        return await self.client.get(Pod, name, NAMESPACE)

    async def delete(self, pod: Pod) -> None:
        """As a person does: the Pod stays, with a deletion timestamp, until its Node lets go of it."""
        await self.client.delete(Pod, pod.metadata.name, NAMESPACE, uid=pod.metadata.uid, grace_period=30)

    async def seen(self, pod: Pod) -> Pod | None:
        try:
            return await self.client.get(Pod, pod.metadata.name, NAMESPACE)
        except NotFoundError:
            return None

    async def node(self, name: str) -> Node | None:
        try:
            return await self.client.get(Node, name)
        except NotFoundError:
            return None


async def until(holds: Any, seconds: float = WITHIN) -> Any:
    """Its value, once it is true; an async function is asked, too."""
    async with asyncio.timeout(seconds):
        while True:
            found = holds()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(0.01)


@asynccontextmanager
async def a_rig(replicas: int = 1, clock: Any = None, *, paced: bool = False) -> AsyncIterator[Rig]:
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        plane = ControlPlane(
            MemoryStore(),
            clock,
            random.Random(3),
            admin_token=ADMIN,
            signing_key=KEY,
            definitions=[crd_of(kind) for kind in KINDS],
        )
        await stack.enter_async_context(plane.running())
        config = Config(server="http://cluster", credentials=FixedIdentity(Identity(token=ADMIN)))
        client = await stack.enter_async_context(Client(config, InProcessTransport(plane.app)))
        for namespace in (NAMESPACE, HOSTS):
            await client.create({"metadata": {"name": namespace}}, NAMESPACES)
        rig = Rig(client, plane, clock)
        for number in range(replicas):
            gateway = Gateway(
                GatewayDeps(
                    client=client,
                    clock=clock,
                    rng=random.Random(number),
                    namespace=NAMESPACE,
                    hosts_namespace=HOSTS,
                    cluster="cluster-1",
                    jobs=rig.dispatch.jobs,
                    name=f"gateway-{number}",
                )
            )
            if not paced:
                gateway._rates = RateLimits(1e6, 1e6, clock)
            running = asyncio.create_task(gateway.run())
            stack.push_async_callback(_end, running)
            transport = InProcessTransport(Starlette(routes=mac_routes(gateway)))
            http = httpx2.AsyncClient(transport=transport, base_url="http://macs", timeout=60.0)
            rig.http.append(await stack.enter_async_context(http))
            rig.gateways.append(gateway)
            await asyncio.gather(*(cache.synced.wait() for cache in gateway.caches))
        yield rig


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
