"""The gateway of one replica: it takes Macs' reports, answers them, and has Nodes and Pods written.

It keeps nothing that it cannot read again. It needs the API server alone: without the ledger only jobs and logs wait, and of a VM with a
job nobody says that its Pod is gone.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.names import POOL_LABEL
from paddock.base.rate_limit import RateLimits
from paddock.base.supervise import keep_running
from paddock.clients.gateway.messages import Answer
from paddock.gateway.answers import Answers, Work, version_of
from paddock.gateway.bounds import Accepted, Ceiling, accept
from paddock.gateway.identities import BY_CLAIM, SILENT_AFTER, Identities, KubeHosts, of_claim
from paddock.gateway.identity import MacIdentity
from paddock.gateway.jobs import HandOver, KeyProof, RunnerLogs, RunnerMarks, may_ask
from paddock.gateway.lease import OWNER_UID, MacLeases, heard_of
from paddock.gateway.macs import Changes, Left, Macs, Reported
from paddock.gateway.node_owner import owned_by
from paddock.gateway.node_writer import NodeWriter, StaleError
from paddock.gateway.pod_writer import PodWriter
from paddock.gateway.refusals import Later, Refused
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, ObjectReference, Pod, reference_to
from paddock.kube.client import Client
from paddock.kube.errors import KubeError
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.kube.objects import KubeObject
from paddock.kube.reader import FreshReader
from paddock.kube.store import CacheChange
from paddock.kube.workqueue import QueueClosedError, WorkQueue
from paddock.runners.dispatch.identity import PodIdentity
from paddock.runners.dispatch.waiting_pods import PollAnswer, later

__all__ = ["BY_NODE", "Gateway", "GatewayDeps", "Jobs"]

T = TypeVar("T", bound=KubeObject)
log = get_logger("gateway")
BY_NODE: Final = "node"
_WORKERS: Final = 4
_NO_LEDGER: Final = later("unreachable", "dispatch has no database now: no job is handed out until it answers", 5.0)


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
        self.machines: Informer[ScalewayAppleSiliconMachine] = self._informer(
            ScalewayAppleSiliconMachine, deps.hosts_namespace
        )
        self.hosts: Informer[ScalewayAppleSiliconHost] = Informer(
            client,
            ScalewayAppleSiliconHost,
            clock=clock,
            rng=rng,
            metrics=deps.metrics,
            namespace=deps.hosts_namespace,
            indexers={BY_CLAIM: of_claim},
            name="hosts of Macs",
        )
        self.nodes: Informer[Node] = self._informer(Node, None)
        self.pods: Informer[Pod] = Informer(
            client,
            Pod,
            clock=clock,
            rng=rng,
            metrics=deps.metrics,
            namespace=deps.namespace,
            indexers={BY_NODE: lambda pod: [pod.spec.node_name] if pod.spec.node_name else []},
            name="Pods of Macs",
        )
        fresh = FreshReader(client)
        self.identities = Identities(self.machines, self.hosts, KubeHosts(fresh, deps.hosts_namespace), clock)
        self.leases = MacLeases(client, clock)
        self._macs = Macs(clock)
        self._changes = Changes(clock)
        self._answers = Answers(
            _Bound(self.pods), fresh, _WorkNow(deps.jobs), clock, cluster=deps.cluster, authorities=deps.authorities
        )
        self._nodes = NodeWriter(client, self.nodes.reader, self.leases, clock)
        self._pods = PodWriter(client, self.leases, clock)
        self._events = EventRecorder(client, "paddock-gateway", clock=clock, rng=rng, instance=deps.name)
        self._queue: WorkQueue[str] = WorkQueue("macs", clock=clock, rng=rng, metrics=deps.metrics)
        self._rates = RateLimits(2.0, 4, clock)
        self.pods.add_handler(self._on_pod)
        self.nodes.add_handler(self._on_node)

    def _informer(self, kind: type[T], namespace: str | None) -> Informer[T]:
        deps = self._deps
        return Informer(
            deps.client,
            kind,
            clock=deps.clock,
            rng=deps.rng,
            metrics=deps.metrics,
            namespace=namespace,
            name=f"{kind.__name__} for Macs",
        )

    @property
    def caches(self) -> Sequence[Informer[Any]]:
        return (self.machines, self.hosts, self.nodes, self.pods)

    async def run(self) -> None:
        """Follow and write until cancelled. Reports that arrive sooner are answered as incomplete."""
        work = {informer.name: informer.run for informer in self.caches}
        work |= {"events of Macs": self._events.run}
        work |= {f"writer {number}": self._write_for_ever for number in range(_WORKERS)}
        async with asyncio.TaskGroup() as group:
            for name, run in work.items():
                group.create_task(keep_running(name, run, self._deps.clock, self._deps.rng), name=name)

    # Requests

    async def report(self, mac: MacIdentity, body: bytes, hold: float, left: Left) -> Answer | Refused | Later:
        if not self._rates.take(mac.machine_uid):
            return Later(429, "a Mac sends two reports a second at most", 1.0)
        node = mac.name
        machine = self.machines.reader.get(mac.name, mac.namespace)
        if machine is not None and machine.metadata.uid != mac.machine_uid:
            machine = None
        bound = self._bound(node)
        accepted = accept(body, self._deps.clock.now(), _ceiling(machine), _born(bound))
        if isinstance(accepted, Refused):
            return accepted
        report = accepted.report
        if (taken := self._taken(node, mac, accepted)) is not None:
            return taken
        order = heard_of(mac, report)
        seen = self.nodes.reader.get(node)
        node_uid = (
            seen.metadata.uid
            if seen is not None and seen.metadata.annotations.get(OWNER_UID) == mac.machine_uid
            else ""
        )
        try:
            noted = await self.leases.note(mac, order, proven=report.proven, node_uid=node_uid)
        except KubeError as error:
            log.info("a Mac's Lease cannot be written", node=node, why=str(error))
            noted = "unknown"
        if noted == "twin":
            return Refused(
                409,
                "two agents report as this Mac: stop one of them, or give the Mac a key of its own with `paddock rekey`",
            )
        if noted == "newer":
            self._macs.put(Reported(mac, machine, accepted, order))
            self._queue.add(node)
            await self._pass_on(node, accepted, bound)
        if hold > 0 and self._answers_follow():
            await self._changes.until(node, lambda: version_of(self._answers.wanted(node)) != report.seen, hold, left)
        return await self._answers.of(node, accepted)

    async def job(
        self, mac: MacIdentity, authorization: str, uid: str, hold: float, left: Left, *, softnet: bool
    ) -> PollAnswer | None:
        jobs = self._deps.jobs()
        pod = next((each for each in self._bound(mac.name) if each.metadata.uid == uid), None)
        if pod is None:
            # The watch may not show it yet, or not any more: the Mac is told by its reports which.
            return later("unbound", "no Pod of this uid is bound to this Mac, as far as is known: ask again", 2.0)
        machine = self.machines.reader.get(mac.name, mac.namespace)
        fleet = machine.spec.fleet_name if machine is not None else ""
        if mac.rights != "all" or mac.leaving:
            return PollAnswer(410, "leaving", "the Mac's machine is being deleted: it gets no new job")
        if (problem := may_ask(pod, uid, mac.name, fleet)) is not None:
            return PollAnswer(403, "not_allowed", problem)
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
        if not any(each.metadata.uid == uid for each in self._bound(mac.name)):
            return Refused(404, "no Pod of this uid is bound to this Mac")
        if jobs is None:
            return Later(503, _NO_LEDGER.reason, 5.0)
        try:
            return await jobs.logs(uid, first, content, ended=ended)
        except Exception as error:  # noqa: BLE001 - whatever keeps the ledger from taking it, the Mac posts it again
            log.info("a runner's log cannot be kept", why=type(error).__name__)
            return Later(503, "the ledger cannot be asked now, or takes too long: ask again", 2.0)

    # What it rests on

    def _bound(self, node: str) -> list[Pod]:
        return self.pods.reader.by_index(BY_NODE, node)

    def _answers_follow(self) -> bool:
        return _Bound(self.pods).current()

    def _taken(self, node: str, mac: MacIdentity, accepted: Accepted) -> Refused | None:
        """Another Mac with this one's key, such as one whose disk was copied: it counts for nothing."""
        seen = self.nodes.reader.get(node)
        if seen is None:
            return None
        had, said = seen.status.node_info.get("machineID", ""), accepted.report.mac.machine_id
        if not had or had == said or seen.metadata.annotations.get(OWNER_UID) != mac.machine_uid:
            return None
        self._events.record(
            reference_to(seen),
            "Warning",
            "TwoMacsWithOneKey",
            "another Mac reports with this Mac's key: switch it off, or give this one another key with `paddock rekey`",
        )
        return Refused(409, f"another Mac reports as {node}: this agent stands down; give one of the two another key")

    async def _pass_on(self, node: str, accepted: Accepted, bound: Iterable[Pod]) -> None:
        """Marks and events of a report that counted. Neither is worth a refused report: a mark that is lost is made up for by the next."""
        jobs = self._deps.jobs()
        mine = {pod.metadata.uid: pod for pod in bound}
        seen = self.nodes.reader.get(node)
        for event in accepted.report.events:
            about: ObjectReference | None = None
            if event.pod:
                about = reference_to(mine[event.pod]) if event.pod in mine else None
            elif seen is not None:
                about = reference_to(seen)
            if about is not None:
                self._events.record(about, "Warning" if event.warning else "Normal", event.reason, event.message)
        if jobs is None:
            return
        for uid, pod in accepted.pods.items():
            if pod.mark and uid in mine:
                try:
                    await jobs.note_mark(uid, pod.mark)
                except Exception as error:  # noqa: BLE001 - the next report brings a newer one
                    log.info("a runner's mark cannot be noted", why=type(error).__name__)
                    return

    # Writing

    async def _write_for_ever(self) -> None:
        while True:
            try:
                node = await self._queue.get()
            except QueueClosedError:
                return
            try:
                await self._write(node)
            except (KubeError, StaleError) as error:
                wait = self._queue.add_rate_limited(node)
                log.info("a Mac's report is not written yet", node=node, why=str(error), again_in=round(wait, 1))
            else:
                self._queue.forget(node)
            finally:
                self._queue.done(node)

    async def _write(self, node: str) -> None:
        reported = self._macs.newest(node)
        if reported is None:
            return
        bound = self._bound(node)
        uids = frozenset(pod.metadata.uid for pod in bound)
        failed = self._queue.failures(node) > 0
        seen = self.nodes.reader.get(node)
        if reported.mac.rights == "all" and (seen is None or failed or not owned_by(seen, reported)):
            if not await self._still_mine(reported):
                self._macs.forget(node)
                return
            written = await self._nodes.write(reported, uids, fresh=True)
            if written is None:
                self._complain(node, reported)
                return
        else:
            await self._nodes.write(reported, uids)
        await self._pods.write(reported, bound)
        removable = self._pods.to_remove(reported, bound)
        if removable and await self._still_mine(reported, ends=True):
            for pod in removable:
                await self._pods.remove(pod, node)

    async def _still_mine(self, reported: Reported, *, ends: bool = False) -> bool:
        """Whether the claim and the Machine that this report was accepted for stand, read afresh."""
        found = await self.identities.still(reported.mac)
        if found is None:
            return False
        return ends or found.rights == "all"

    def _complain(self, node: str, reported: Reported) -> None:
        seen = self.nodes.reader.get(node)
        if seen is not None and not owned_by(seen, reported):
            log.warning("a Node of this Mac's name belongs to somebody else, and is not written", node=node)
            self._events.record(
                reference_to(seen),
                "Warning",
                "NodeNotOurs",
                f"the Mac of machine {reported.mac.name} reports, and this Node is not its own: delete the Node, or the machine",
            )

    def _on_pod(self, change: CacheChange[Pod]) -> None:
        for side in (change.old, change.new):
            if side is not None and side.spec.node_name:
                self._changes.ring(side.spec.node_name)
        if change.kind == "deleted":
            self._pods.forget(change.obj.metadata.uid)
        elif change.obj.spec.node_name and self._macs.newest(change.obj.spec.node_name) is not None:
            self._queue.add(change.obj.spec.node_name)

    def _on_node(self, change: CacheChange[Node]) -> None:
        node = change.obj.metadata.name
        if self._macs.newest(node) is not None:
            # Gone, or overruled by the control plane: what was reported last still stands while its Lease names it.
            self._queue.add(node)


class _Bound:
    def __init__(self, pods: Informer[Pod]) -> None:
        self._pods = pods

    def of(self, node: str) -> Sequence[Pod]:
        return self._pods.reader.by_index(BY_NODE, node)

    def current(self) -> bool:
        return self._pods.synced.is_set() and self._pods.last_event_age() < SILENT_AFTER


class _WorkNow:
    """The ledger's word where there is a ledger; else nothing is known."""

    def __init__(self, jobs: Callable[[], Jobs | None]) -> None:
        self._jobs = jobs

    async def of(self, uids: Sequence[str]) -> Mapping[str, Literal["running", "none"]]:
        jobs = self._jobs()
        return {} if jobs is None else await jobs.work.of(uids)


def _ceiling(machine: ScalewayAppleSiliconMachine | None) -> Ceiling:
    if machine is None:
        return Ceiling()
    spec = machine.spec
    memory = spec.host_memory_mb * 1024 * 1024 if spec.host_memory_mb else None
    return Ceiling(cpus=spec.host_cpu or None, memory_bytes=memory, softnet=True)


def _born(pods: Iterable[Pod]) -> dict[str, datetime]:
    return {
        pod.metadata.uid: pod.metadata.creation_timestamp for pod in pods if pod.metadata.creation_timestamp is not None
    }
