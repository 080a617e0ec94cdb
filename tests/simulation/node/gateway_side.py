"""The other side of a Mac's gateway link, in virtual time: the shipped gateway before the same API, with a Machine and a claim."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from starlette.applications import Starlette

from paddock.base.secrets import Secret
from paddock.clients.gateway.mac_client import MacClient
from paddock.gateway.jobs import KeyProof
from paddock.gateway.macs import Left
from paddock.gateway.routes import mac_routes
from paddock.gateway.service import Gateway, GatewayDeps, Jobs
from paddock.hosts.api import HostClaim, HostSpec, MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.errors import AlreadyExistsError
from paddock.kube.objects import ObjectMeta
from paddock.node.gateway_link import GatewayLink
from paddock.node.keys import Keys
from paddock.runners.dispatch.identity import IdentityError, PodIdentity
from paddock.runners.dispatch.pod_proof import PodProof
from paddock.runners.dispatch.waiting_pods import NOTHING, HandedJob, PollAnswer, later

if TYPE_CHECKING:
    from simulation.node.node_world import NodeWorld

KEY = "k" * 43
HOSTS = "default"
FLEET = "f"


class _HeldKey:
    """The Mac's key file, as far as these worlds need it: one key, good from the start."""

    def read(self) -> Keys:
        return Keys(1, "", KEY)

    def answered(self, key: str) -> None:
        assert key == KEY


class _NoAuthorities:
    """The way in these worlds has no TLS: what the real file does is tested where there is TLS."""

    def store(self, named: Sequence[str]) -> bool:
        return bool(named)


class GatewaySide:
    """`gateway` is a process that comes back a second after it dies."""

    def __init__(self, mac: "NodeWorld", node: str) -> None:
        self.mac, self.node = mac, node
        self.running: Gateway | None = None
        self._app = Starlette()
        mac.world.process("gateway", self._run, restart_after=1.0)

    async def _run(self) -> None:
        mac = self.mac
        await mac.ready.wait()
        await self._claimed()
        starts = mac.world.processes["gateway"].starts
        gateway = self.running = Gateway(
            GatewayDeps(
                client=mac.client(),
                clock=mac.clock,
                rng=random.Random(f"gateway {mac.world.seed} {starts}"),
                namespace="default",
                hosts_namespace=HOSTS,
                cluster=await mac.cluster(),
                jobs=self._jobs,
            )
        )
        self._app = Starlette(routes=mac_routes(gateway))
        await gateway.run()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def _claimed(self) -> None:
        """The Machine of this Mac, and the Host whose claim holds its key."""
        try:
            machine = await self.mac.api.create(
                ScalewayAppleSiliconMachine(
                    metadata=ObjectMeta(name=self.node, namespace=HOSTS),
                    spec=MachineSpec(provider_id="scaleway://mac-1", fleet_name=FLEET),
                )
            )
        except AlreadyExistsError:
            return
        claim = HostClaim(
            machine_namespace=HOSTS,
            machine_name=self.node,
            machine_uid=machine.metadata.uid,
            key_hash=hashlib.sha256(KEY.encode()).hexdigest(),
            key_number=1,
        )
        meta = ObjectMeta(name="host-1", namespace=HOSTS)
        await self.mac.api.create(ScalewayAppleSiliconHost(metadata=meta, spec=HostSpec(claim=claim)))

    def link(self, rng: random.Random) -> GatewayLink:
        mac = self.mac
        way = mac.world.transport(
            self, host=mac.world.processes["gateway"], latency=(0.001, 0.01), purpose="macs", faults=True
        )
        client = MacClient(
            "https://macs.test",
            f"{HOSTS}/{self.node}",
            _HeldKey(),
            _NoAuthorities(),  # pyright: ignore[reportArgumentType]
            clock=mac.clock,
            transport=way,
        )
        return GatewayLink(client, clock=mac.clock, rng=rng)

    # What dispatch does for it

    def _jobs(self) -> Jobs:
        return Jobs(hand_over=self, logs=self._append, note_mark=self._note, work=self)

    async def wait_for_job(self, pod: PodIdentity, proof: PodProof, hold: float, left: Left) -> PollAnswer | None:
        assert isinstance(proof, KeyProof)
        dispatch, uid, clock = self.mac.dispatch, pod.uid, self.mac.clock
        dispatch.asked.append(uid)
        until = clock.monotonic() + min(dispatch.hold, hold)
        while True:
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
        return {uid: "running" if runs and uid in dispatch.answered else "none" for uid in uids}

    async def _append(self, pod_uid: str, first_byte: int, content: bytes, *, ended: bool) -> int:
        kept = self.mac.dispatch.logs.setdefault(pod_uid, bytearray())
        kept += content[max(0, len(kept) - first_byte) :]
        self.mac.dispatch.ended_logs |= {pod_uid} if ended else set()
        return len(kept)

    async def _note(self, pod_uid: str, mark: str) -> None:
        self.mac.dispatch.marks.append((pod_uid, mark))


def encoded(job: str) -> str:
    import base64

    return base64.b64encode(job.encode()).decode()
