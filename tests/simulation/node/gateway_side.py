"""The other side of a Mac's gateway link, in virtual time: the shipped gateway before the same API, with a Machine and a claim."""

import asyncio
import base64
import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import httpx2
from msgspec.structs import replace
from starlette.applications import Starlette

from paddock.base.clock import Clock
from paddock.base.secrets import Secret
from paddock.clients.gateway.mac_client import MacClient
from paddock.gateway.jobs import KeyProof
from paddock.gateway.macs import Left
from paddock.gateway.routes import mac_routes
from paddock.gateway.service import Gateway, GatewayDeps, Jobs
from paddock.hosts.api import (
    HostClaim,
    HostRelease,
    HostSpec,
    MachineSpec,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.kube.builtin import Namespace, Node
from paddock.kube.client import Client
from paddock.kube.objects import ObjectMeta
from paddock.node.gateway_link import GatewayLink
from paddock.node.keys import Keys
from paddock.node.metrics import AgentMetrics
from paddock.runners.dispatch.identity import IdentityError, PodIdentity
from paddock.runners.dispatch.pod_proof import PodProof
from paddock.runners.dispatch.waiting_pods import NOTHING, HandedJob, PollAnswer, later

if TYPE_CHECKING:
    from simulation.node.node_world import NodeWorld

HOSTS = "default"
FLEET = "f"


class _HeldKey:
    """The Mac's key file, as far as these worlds need it: one key, good from the start."""

    def __init__(self, key: str) -> None:
        self._key = key

    def read(self) -> Keys:
        return Keys(1, "", self._key)

    def answered(self, key: str) -> None:
        assert key == self._key


class _NoAuthorities:
    """The way in these worlds has no TLS: what the real file does is tested where there is TLS."""

    def store(self, named: Sequence[str]) -> bool:
        return bool(named)


class _InTurn(httpx2.AsyncBaseTransport):
    """A Service before several replicas: it does not know yet which of them is down."""

    def __init__(self, ways: Sequence[httpx2.AsyncBaseTransport]) -> None:
        self._ways = cycle(ways)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await next(self._ways).handle_async_request(request)


class _Replica:
    """A process that comes back a second after it dies, with no memory."""

    def __init__(self, side: "GatewaySide", name: str, client: Callable[[], Client]) -> None:
        self._side, self._name, self._client = side, name, client
        self.running: Gateway | None = None
        self._app = Starlette()
        side.mac.world.process(name, self._run, restart_after=1.0)

    async def _run(self) -> None:
        side = self._side
        await side.introduced.wait()
        world = side.mac.world
        gateway = self.running = Gateway(
            GatewayDeps(
                client=self._client(),
                clock=side.clock,
                rng=random.Random(f"{self._name} {world.seed} {world.processes[self._name].starts}"),
                namespace="default",
                hosts_namespace=HOSTS,
                cluster=side.cluster,
                jobs=side.jobs,
                name=self._name.replace(" ", "-"),
            )
        )
        self._app = Starlette(routes=mac_routes(gateway))
        await gateway.run()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)


class GatewaySide:
    """The gateway's replicas before the API server that `mac` has now, and the Machine and the claim of the Mac there."""

    def __init__(self, mac: "NodeWorld", node: str, *, names: Sequence[str] = ("gateway",)) -> None:
        self.mac, self.node = mac, node
        self.clock: Clock = mac.clock
        self.cluster = ""
        self.over: set[str] = set()
        """Pods of which the ledger says that no job runs on them, whatever runs."""
        self.introduced = asyncio.Event()
        self._ready = mac.ready
        self._claims = 0
        self.key = ""
        client = mac.clients()
        self._api = client(faults=False)
        self._replicas = {name: _Replica(self, name, client) for name in names}
        mac.world.process(f"operator before {names[0]}", self._introduce)

    async def _introduce(self) -> None:
        await self._ready.wait()
        self.cluster = (await self._api.get(Namespace, "kube-system")).metadata.uid
        await self.claim()
        self.introduced.set()

    async def claim(self) -> None:
        """The Machine of this Mac, and a Host whose claim has a key that no claim had before. Agents that start now hold it."""
        self._claims += 1
        self.key = f"{next(iter(self._replicas))}-{self._claims}".replace(" ", "-").ljust(43, "k")
        machine = await self._api.create(
            ScalewayAppleSiliconMachine(
                metadata=ObjectMeta(name=self.node, namespace=HOSTS),
                spec=MachineSpec(provider_id="scaleway://mac-1", fleet_name=FLEET),
            )
        )
        claim = HostClaim(
            machine_namespace=HOSTS,
            machine_name=self.node,
            machine_uid=machine.metadata.uid,
            key_hash=hashlib.sha256(self.key.encode()).hexdigest(),
            key_number=1,
        )
        meta = ObjectMeta(name=self._host, namespace=HOSTS)
        await self._api.create(ScalewayAppleSiliconHost(metadata=meta, spec=HostSpec(claim=claim)))

    async def let_go(self) -> None:
        """The Mac's release is recorded: its key is over."""
        release = HostRelease(reason="Test")
        host = await self._api.get(ScalewayAppleSiliconHost, self._host, HOSTS)
        await self._api.update(replace(host, spec=replace(host.spec, release=release)))

    async def replace_mac(self) -> None:
        """The Mac's Machine is deleted with its Node, and another Mac is claimed for one of the same name."""
        await self.let_go()
        await self._api.delete(ScalewayAppleSiliconMachine, self.node, HOSTS)
        await self._api.delete(Node, self.node)
        await self.claim()

    @property
    def _host(self) -> str:
        return f"host-{self._claims}"

    def link(self, rng: random.Random, metrics: AgentMetrics) -> GatewayLink:
        world = self.mac.world
        ways = [
            world.transport(each, host=world.processes[name], latency=(0.001, 0.01), purpose="macs")
            for name, each in self._replicas.items()
        ]
        client = MacClient(
            "https://macs.test",
            f"{HOSTS}/{self.node}",
            _HeldKey(self.key),
            _NoAuthorities(),  # pyright: ignore[reportArgumentType]
            clock=self.mac.clock,
            transport=_InTurn(ways),
        )
        return GatewayLink(client, clock=self.mac.clock, rng=rng, metrics=metrics)

    # What dispatch does for it

    @property
    def _ledger(self) -> bool:
        """The process `dispatch` stands for it: gateways go on without."""
        return self.mac.world.processes["dispatch"].running

    def jobs(self) -> Jobs | None:
        return Jobs(hand_over=self, logs=self._append, note_mark=self._note, work=self) if self._ledger else None

    async def wait_for_job(self, pod: PodIdentity, proof: PodProof, hold: float, left: Left) -> PollAnswer | None:
        assert isinstance(proof, KeyProof)
        dispatch, uid, clock = self.mac.dispatch, pod.uid, self.mac.clock
        dispatch.asked.append(uid)
        until = clock.monotonic() + min(dispatch.hold, hold)
        while True:
            if not self._ledger:
                return later("unreachable", "the ledger is away", 1.0)
            if uid in dispatch.refused:
                return PollAnswer(403, "not_allowed", "refused")
            if uid in dispatch.answered or uid in dispatch.drained:
                return PollAnswer(410, "drain", "the Pod had its job")
            if dispatch.jobs:
                try:
                    await proof.confirm()
                except IdentityError as error:
                    return later(error.outcome, str(error))
                job = dispatch.jobs.pop(0)
                dispatch.answered.append(uid)
                return PollAnswer(200, "handed", handed=HandedJob(Secret(encoded(job)), "acme", 7))
            if clock.monotonic() >= until:
                return NOTHING
            await clock.sleep(0.25)

    async def of(self, uids: Sequence[str]) -> Mapping[str, Literal["running", "none"]]:
        dispatch = self.mac.dispatch
        runs = len(self.mac.ran) > len(self.mac.finished)
        return {
            uid: "running" if runs and uid in dispatch.answered and uid not in self.over else "none" for uid in uids
        }

    async def _append(self, pod_uid: str, first_byte: int, content: bytes, *, ended: bool) -> int:
        kept = self.mac.dispatch.logs.setdefault(pod_uid, bytearray())
        kept += content[max(0, len(kept) - first_byte) :]
        self.mac.dispatch.ended_logs |= {pod_uid} if ended else set()
        return len(kept)

    async def _note(self, pod_uid: str, mark: str) -> None:
        self.mac.dispatch.marks.append((pod_uid, mark))


def encoded(job: str) -> str:
    return base64.b64encode(job.encode()).decode()
