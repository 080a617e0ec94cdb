"""The gateway of one replica: it takes Macs' reports, answers them, and has Nodes and Pods written.

It keeps nothing that it cannot read again. It needs the API server alone: without the ledger only jobs and logs wait, and of a VM with a
job nobody says that its Pod is gone.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.names import POOL_LABEL
from paddock.base.rate_limit import RateLimits
from paddock.base.supervise import keep_running
from paddock.clients.gateway.messages import Answer, Report
from paddock.gateway.answers import Answers, Work, version_of
from paddock.gateway.bound_pods import BY_NODE, BoundPods, of_node
from paddock.gateway.bounds import Accepted, accept
from paddock.gateway.identities import BY_CLAIM, Identities, KubeHosts, of_claim
from paddock.gateway.identity import MacIdentity
from paddock.gateway.jobs import HandOver, JobRefusals, KeyProof, RunnerLogs, RunnerMarks, may_ask
from paddock.gateway.lease import OWNER_UID, MacLeases, Order, heard_of
from paddock.gateway.macs import Changes, Left, Reported
from paddock.gateway.node_owner import ceiling_of
from paddock.gateway.refusals import Later, Refused
from paddock.gateway.writing import Writing
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, Pod, reference_to
from paddock.kube.client import Client
from paddock.kube.errors import KubeError
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject
from paddock.kube.reader import FreshReader
from paddock.kube.store import CacheChange, Indexer
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.dispatch.waiting_pods import PollAnswer, later

__all__ = ["Gateway", "GatewayDeps", "Jobs"]

T = TypeVar("T", bound=KubeObject)
log = get_logger("gateway")
_NO_LEDGER: Final = later("unreachable", "dispatch has no database now: no job is handed out until it answers", 5.0)
_TWIN: Final = Refused(
    409, "two agents report as this Mac, so that neither can be believed about the other's VMs: stop one of them"
)


class Jobs(Struct, frozen=True):
    """What dispatch does for Macs, once its ledger is open."""

    hand_over: HandOver
    logs: RunnerLogs
    note_mark: RunnerMarks
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayDeps:
    """`jobs` gives None while there is no ledger. `namespace` is that of runner Pods, `hosts_namespace` of Machines and Hosts (None:
    all). `cluster` is this cluster's uid. `name` is the replica's own.
    """

    client: Client
    clock: Clock
    rng: random.Random
    namespace: str
    cluster: str
    jobs: Callable[[], Jobs | None]
    authorities: Callable[[], tuple[str, ...]] = tuple
    hosts_namespace: str | None = None
    name: str = "gateway"
    metrics: KubeMetrics | None = None


class Gateway:
    """Serve `paddock.gateway.routes.mac_routes(gateway)`, and run `run()`."""

    def __init__(self, deps: GatewayDeps) -> None:
        client, clock, rng = deps.client, deps.clock, deps.rng
        self._deps = deps
        self.machines = self._informer(ScalewayAppleSiliconMachine, deps.hosts_namespace, {})
        self.hosts = self._informer(ScalewayAppleSiliconHost, deps.hosts_namespace, {BY_CLAIM: of_claim})
        self.nodes = self._informer(Node, None, {})
        self.pods = self._informer(Pod, deps.namespace, {BY_NODE: of_node})
        fresh = FreshReader(client)
        self.identities = Identities(self.machines, self.hosts, KubeHosts(fresh, deps.hosts_namespace), clock)
        self.leases = MacLeases(client, clock)
        self._bound = BoundPods(self.pods)
        self._changes = Changes(clock)
        self._answers = Answers(
            self._bound, fresh, _WorkNow(deps.jobs), clock, cluster=deps.cluster, authorities=deps.authorities
        )
        self._events = EventRecorder(client, "paddock-gateway", clock=clock, rng=rng, instance=deps.name)
        self.writing = Writing(
            client,
            self.nodes.reader,
            self._bound,
            self.identities,
            self.leases,
            self._events,
            clock=clock,
            rng=rng,
            metrics=deps.metrics,
        )
        self._refusals = JobRefusals(self.identities, fresh, clock)
        self._rates = RateLimits(2.0, 4, clock)
        self.pods.add_handler(self._on_pod)
        self.nodes.add_handler(lambda change: self.writing.again(change.obj.metadata.name))

    def _informer(self, kind: type[T], namespace: str | None, indexers: Mapping[str, Indexer[T]]) -> Informer[T]:
        deps = self._deps
        return Informer(
            deps.client,
            kind,
            clock=deps.clock,
            rng=deps.rng,
            metrics=deps.metrics,
            namespace=namespace,
            indexers=dict(indexers),
            name=f"{kind.__name__} for Macs",
        )

    @property
    def caches(self) -> Sequence[Informer[Any]]:
        return (self.machines, self.hosts, self.nodes, self.pods)

    async def run(self) -> None:
        """Follow and write until cancelled. Reports that arrive sooner are answered as incomplete."""
        work = {informer.name: informer.run for informer in self.caches}
        work |= {"events of Macs": self._events.run, "writing of Macs": self.writing.run}
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ring_when_synced())
            for name, run in work.items():
                group.create_task(keep_running(name, run, self._deps.clock, self._deps.rng), name=name)

    # Requests

    async def report(self, mac: MacIdentity, body: bytes, hold: float, left: Left) -> Answer | Refused | Later:
        if not self._rates.take(mac.machine_uid):
            return Later(429, "a Mac sends two reports a second at most", 1.0)
        node, machine = mac.name, self._machine(mac)
        accepted = accept(body, self._deps.clock.now(), ceiling_of(machine), self._bound.born(node))
        if isinstance(accepted, Refused):
            return accepted
        if (refused := self._another_mac(mac, accepted)) is not None:
            return refused
        match await self._note(mac, accepted.report):
            case "twin":
                return _TWIN
            case "newer":
                order = heard_of(mac, accepted.report)
                self.writing.add(Reported(mac, machine, accepted, order))
                await self._pass_on(node, accepted)
            case _:
                pass  # an older one, or nobody knows: it is answered, and counts for nothing
        if hold > 0:
            await self._changes.until(node, self._differs(node, accepted.report.seen), hold, left)
        return await self._answers.of(node, accepted)

    async def job(
        self, mac: MacIdentity, authorization: str, uid: str, hold: float, left: Left, *, softnet: bool
    ) -> PollAnswer | None:
        jobs = self._deps.jobs()
        pod = self._bound.find(mac.name, uid)
        if pod is None:
            # The watch may not show it yet, or not any more: the Mac learns from its reports which.
            return later("unbound", "no Pod of this uid is bound to this Mac, as far as is known: ask again", 2.0)
        machine = self._machine(mac)
        fleet = machine.spec.fleet_name if machine is not None else ""
        if machine is None or mac.rights != "all" or mac.leaving or may_ask(pod, uid, mac.name, fleet) is not None:
            return await self._refusals.of(mac, pod)
        if jobs is None:
            return _NO_LEDGER
        meta = pod.metadata
        identity = PodIdentity(meta.namespace, meta.name, uid, meta.labels[POOL_LABEL])
        proof = KeyProof(self.identities, self._deps.client, authorization, mac, identity, fleet, softnet)
        return await jobs.hand_over.wait_for_job(identity, proof, hold, left)

    async def log(
        self, mac: MacIdentity, uid: str, first: int, content: bytes, *, ended: bool
    ) -> int | Refused | Later:
        jobs = self._deps.jobs()
        if self._bound.find(mac.name, uid) is None:
            return Refused(404, "no Pod of this uid is bound to this Mac")
        if jobs is None:
            return Later(503, _NO_LEDGER.reason, 5.0)
        try:
            return await jobs.logs(uid, first, content, ended=ended)
        except Exception as error:  # noqa: BLE001 - whatever keeps the ledger from taking it, the Mac posts it again
            log.info("a runner's log cannot be kept", why=type(error).__name__)
            return Later(503, "the ledger cannot be asked now, or takes too long: ask again", 2.0)

    # What they rest on

    def _differs(self, node: str, seen: str) -> Callable[[], bool]:
        """Whether there is something that the Mac does not know. A watch that does not follow is nothing new: else all Macs would
        report without pause while the API server is in trouble.
        """
        complete = self._bound.current()
        return lambda: version_of(self._answers.wanted(node)) != seen or self._bound.current() != complete

    async def _ring_when_synced(self) -> None:
        await self.pods.synced.wait()
        self._changes.ring_all()

    def _machine(self, mac: MacIdentity) -> ScalewayAppleSiliconMachine | None:
        """None while the cache shows none, or a namesake."""
        machine = self.machines.reader.get(mac.name, mac.namespace)
        return machine if machine is not None and machine.metadata.uid == mac.machine_uid else None

    def _node(self, mac: MacIdentity) -> Node | None:
        """This Mac's; None while the cache shows none, or somebody else's."""
        node = self.nodes.reader.get(mac.name)
        return node if node is not None and node.metadata.annotations.get(OWNER_UID) == mac.machine_uid else None

    def _another_mac(self, mac: MacIdentity, accepted: Accepted) -> Refused | None:
        """Another Mac with this one's key, such as one whose disk was copied: it counts for nothing.

        Which Mac is the right one was read over SSH, when it was given the key; where that is not known, the first to report is.
        """
        node, said = self._node(mac), accepted.report.mac.machine_id
        had = mac.machine_id or (node.status.node_info.get("machineID", "") if node is not None else "")
        if not had or had == said:
            return None
        if (about := node or self._machine(mac)) is not None:
            self._events.record(
                reference_to(about),
                "Warning",
                "TwoMacsWithOneKey",
                "another Mac reports with this Mac's key: switch one of the two off; the operator gives the other a key of its own",
            )
        return Refused(
            409, f"another Mac reports as Node {mac.name}: this agent stands down; give one of the two another key"
        )

    async def _note(self, mac: MacIdentity, report: Report) -> Order | Literal["unknown"]:
        node = self._node(mac)
        node_uid = node.metadata.uid if node is not None else ""
        try:
            return await self.leases.note(mac, heard_of(mac, report), proven=report.proven, node_uid=node_uid)
        except KubeError as error:
            log.info("a Mac's Lease cannot be written", node=mac.name, why=str(error))
            return "unknown"

    async def _pass_on(self, node: str, accepted: Accepted) -> None:
        """Marks and events of a report that counted. A mark that is lost is made up for by the next."""
        jobs = self._deps.jobs()
        mine = {pod.metadata.uid: pod for pod in self._bound.of(node)}
        shown = self.nodes.reader.get(node)
        for event in accepted.report.events:
            about = mine.get(event.pod) if event.pod else shown
            if about is not None:
                kind = "Warning" if event.warning else "Normal"
                self._events.record(reference_to(about), kind, event.reason, event.message)
        if jobs is None:
            return
        for uid, pod in accepted.pods.items():
            if pod.mark and uid in mine:
                try:
                    await jobs.note_mark(uid, pod.mark)
                except Exception as error:  # noqa: BLE001 - the next report brings a newer one
                    log.info("a runner's mark cannot be noted", why=type(error).__name__)
                    return

    def _on_pod(self, change: CacheChange[Pod]) -> None:
        for side in (change.old, change.new):
            if side is not None and side.spec.node_name:
                self._changes.ring(side.spec.node_name)
        if change.kind == "deleted":
            self.writing.forget_pod(change.obj.metadata.uid)
        elif change.obj.spec.node_name:
            self.writing.again(change.obj.spec.node_name)


class _WorkNow:
    """The ledger's word where there is a ledger; else nothing is known."""

    def __init__(self, jobs: Callable[[], Jobs | None]) -> None:
        self._jobs = jobs

    async def of(self, uids: Sequence[str]) -> Mapping[str, Literal["running", "none"]]:
        jobs = self._jobs()
        return {} if jobs is None else await jobs.work.of(uids)
