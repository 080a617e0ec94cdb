"""A Mac's link over Kubernetes: its reports become Node, Lease, Pod statuses and Events, and the API server's Pods its answers."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Container
from datetime import timedelta
from typing import Final

import httpx2
import msgspec

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.base.tasks import TaskStack, first_of
from paddock.base.tasks import end as end_task
from paddock.clients.dispatch import Drained, Refused, Served
from paddock.clients.gateway.messages import (
    Absent,
    Answer,
    Event,
    JobRequest,
    PodReport,
    PodState,
    Report,
    WantedPod,
)
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, UnauthorizedError
from paddock.kube.events import EventRecorder
from paddock.kube.informer import Informer
from paddock.kube.metrics import KubeMetrics
from paddock.kube.store import CacheChange
from paddock.node.cluster import cluster_uid, find_pod
from paddock.node.heartbeat import Heartbeat
from paddock.node.jobs import JobsByPod
from paddock.node.kube_pods import PodWriter
from paddock.node.link import NodeTakenError, NotKnownError
from paddock.node.metrics import AgentMetrics
from paddock.node.node_object import NodeTemplate
from paddock.node.pod_shape import pod_shape
from paddock.node.settings import AgentSettings

__all__ = ["KubernetesLink"]

log = get_logger("kubernetes link")
_BACKOFF: Final = Backoff(base=1.0, cap=30.0)
_NOT_KNOWN: Final = 30.0
_EARLY: Final = 0.05
"""A report that comes by this share of the interval before its beat is due is one for it: the Lease follows the reports."""
_SKEW_MOVED: Final = 5.0
_OVER: Final = (PodState.ENDED, PodState.CLEARED)


class KubernetesLink:
    """Satisfies MacLink. A report replaces the one before and is written in the background: one that is given up loses nothing."""

    def __init__(
        self,
        client: Client,
        dispatch: Callable[[], httpx2.AsyncClient],
        settings: AgentSettings,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: AgentMetrics | None = None,
        kube_metrics: KubeMetrics | None = None,
    ) -> None:
        """`dispatch` makes an HTTP client for one conversation with the dispatch service."""
        self.client = client
        self._settings = settings
        self._clock = clock
        self._rng = rng
        self._metrics = metrics or AgentMetrics()
        template = NodeTemplate(
            settings.node_name, settings.provider_id, settings.labels, settings.kubelet_version, settings.logs_port
        )
        self._heartbeat = Heartbeat(client, template, settings, clock=clock, metrics=self._metrics)
        self._events = EventRecorder(client, "paddock-node-agent", clock=clock, rng=rng, instance=settings.node_name)
        self._informer = Informer(
            client,
            Pod,
            clock=clock,
            rng=rng,
            metrics=kube_metrics,
            namespace=settings.namespace,
            field_selector=f"spec.nodeName={settings.node_name}",
            name="pods of this node",
        )
        self._informer.add_handler(self._on_pod)
        self._writers: dict[str, tuple[PodWriter, asyncio.Task[None]]] = {}
        self._report: Report | None = None
        self._reported: dict[str, PodReport] = {}
        self._node_events: list[Event] = []
        self._pods: dict[str, Pod] = {}
        self._jobs = JobsByPod(client, self._pods, dispatch, settings, clock=clock, rng=rng)
        self._wanted: dict[str, WantedPod] = {}
        self._ended: set[str] = set()
        self._gone: set[str] = set()
        self._absent: dict[str, Absent] = {}
        self._listed: set[str] = set()
        self._listed_at: float | None = None
        self._cluster = ""
        self._checked = False
        self._unknown: UnauthorizedError | None = None
        self._changed = asyncio.Event()
        self._due = asyncio.Event()
        self._beat_at = float("-inf")

    async def run(self) -> None:
        """Follow the API server and write what is reported, until cancelled."""
        work: dict[str, Callable[[], Awaitable[None]]] = {
            "pods": self._informer.run,
            "heartbeat": self._beat,
            "pods that are gone": self._look_for_absent,
            "events": self._events.run,
        }
        async with TaskStack() as tasks:
            try:
                for name, run in work.items():
                    tasks.start(keep_running(name, run, self._clock, self._rng))
                await asyncio.Event().wait()
            finally:
                for _, task in self._writers.values():
                    await end_task(task)
                self._writers.clear()
                await self._jobs.close()

    # Reports and answers

    async def report(self, report: Report, hold: float) -> Answer:
        if not self._checked:
            await self._not_taken(report)
            self._checked = True
        self._take(report)
        if hold > 0.0 and not self._changed.is_set():
            await first_of(self._clock.sleep(hold), self._changed.wait())
        if self._unknown is not None:
            raise NotKnownError(f"the API server does not know this agent any more: {self._unknown}")
        self._changed.clear()
        return self._answer()

    async def _not_taken(self, report: Report) -> None:
        try:
            if await self._heartbeat.taken(report.mac.machine_id):
                raise NodeTakenError(self._settings.node_name)
            self._cluster = await cluster_uid(self.client)
        except KubeError as error:
            # Not knowing is no reason to stand down: VMs of ours may run.
            log.warning("whether another Mac has this name cannot be told now", why=str(error))

    def _take(self, report: Report) -> None:
        self._report = report
        # One Pod that cannot be read costs no heartbeat.
        for uid, raw in report.pods.items():
            try:
                self._reported[uid] = msgspec.json.decode(raw, type=PodReport)
            except msgspec.MsgspecError as error:
                log.error("what is reported of a Pod cannot be read", uid=uid, why=str(error))  # noqa: TRY400
        if self._clock.monotonic() - self._beat_at >= self._settings.lease_every * (1.0 - _EARLY):
            self._due.set()
        for event in report.events:
            pod = self._pods.get(event.pod)
            if pod is not None:
                self._events.record(pod, "Warning" if event.warning else "Normal", event.reason, event.message)
            elif not event.pod:
                self._node_events.append(event)
        self._forget(report.pods)
        for uid in report.pods.keys() & self._reported.keys():
            self._jobs.pass_on(uid, self._reported[uid])
            self._write(uid)

    def _answer(self) -> Answer:
        absent, self._absent = self._absent, {}
        return Answer(
            now=self._clock.now() - timedelta(seconds=self._heartbeat.skew),
            cluster=self._cluster,
            complete=self._is_complete(),
            pods=tuple(self._wanted.values()),
            absent=absent,
        )

    def _is_complete(self) -> bool:
        """Whether the cache shows everything that is bound to this Mac, by a list that is not much older than a sweep."""
        if self._listed_at is None or not self._informer.synced.is_set() or self._informer.problem is not None:
            return False
        lately = self._clock.monotonic() - self._listed_at <= 3 * self._settings.sweep_every
        return lately and self._listed <= self._wanted.keys()

    # Pods

    def _on_pod(self, change: CacheChange[Pod]) -> None:
        pod, before = change.obj, change.old
        if before is not None and before.metadata.uid != pod.metadata.uid:
            self._drop(before.metadata.uid)
        if change.kind == "deleted":
            # No proof that the Pod is gone, but the cache has it no longer.
            self._drop(pod.metadata.uid)
        else:
            self._show(pod)

    def _drop(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._listed.discard(uid)
        if self._wanted.pop(uid, None) is not None:
            self._changed.set()

    def _show(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._pods[uid] = pod
        wanted = pod_shape(pod)
        if wanted.recorded is PodState.ENDED:
            self._ended.discard(uid)
        elif uid in self._ended:
            wanted = msgspec.structs.replace(wanted, recorded=PodState.ENDED)
        if uid not in self._gone and self._wanted.get(uid) != wanted:
            self._wanted[uid] = wanted
            self._changed.set()
        self._write(uid)

    def _write(self, uid: str) -> None:
        """The Pod's status follows what is reported of it."""
        report, pod = self._reported.get(uid), self._pods.get(uid)
        if report is None or pod is None or self._report is None:
            return
        if uid not in self._writers:
            made = PodWriter(self.client, uid, clock=self._clock, rng=self._rng, written=self._written)
            work = keep_running(f"status of Pod {uid}", made.run, self._clock, self._rng)
            self._writers[uid] = made, asyncio.create_task(work, name=f"status of Pod {uid}")
        writer, _ = self._writers[uid]
        writer.update(report, pod, self._report.mac.address)

    def _written(self, uid: str, state: PodState) -> None:
        if state is PodState.CLEARED:
            self._is_gone(uid)
        elif (pod := self._pods.get(uid)) is not None:
            # The cache shows it later.
            self._ended.add(uid)
            self._show(pod)

    def _is_gone(self, uid: str) -> None:
        self._gone.add(uid)
        self._drop(uid)
        self._absent[uid] = "gone"
        self._changed.set()

    async def _look_for_absent(self) -> None:
        while True:
            try:
                await self._compare()
            except KubeError as error:
                log.info("which Pods are gone cannot be told", why=str(error))
            await self._clock.sleep(self._settings.sweep_every)

    async def _compare(self) -> None:
        """Read all Pods of the Node, and each that was reported and is not among them. Raises KubeError where nothing is known."""
        node = self._settings.node_name
        listed = await self.client.list(Pod, self._settings.namespace, field_selector=f"spec.nodeName={node}")
        present = {pod.metadata.uid for pod in listed.items}
        missing = {uid: each for uid, each in self._reported.items() if uid not in present and each.name}
        if not self._cluster or any(each.state not in _OVER for each in missing.values()):
            # Read anew before anything follows from an absence: the same address may lead to another cluster by now.
            self._cluster = await cluster_uid(self.client)
        complete = self._is_complete()
        self._listed, self._listed_at = present, self._clock.monotonic()
        back = self._gone & present
        cached = {pod.metadata.uid for pod in self._informer.reader.list()}
        self._gone = {uid for uid in self._gone - present if uid in cached or uid in self._reported}
        for uid in back & self._pods.keys():
            self._show(self._pods[uid])
        for uid, each in missing.items():
            try:
                found = await find_pod(self.client, uid, each.namespace, each.name, node)
            except KubeError as error:
                # Of this one nothing is known. It must not keep the others from ending.
                log.info("whether a Pod is gone cannot be told", uid=uid, why=str(error))
                self._absent[uid] = "unknown"
                continue
            if found is None:
                self._is_gone(uid)
            else:
                self._gone.discard(uid)
                self._show(found)
        if self._is_complete() != complete:
            self._changed.set()

    # The Node

    async def _beat(self) -> None:
        failures = 0
        while True:
            await self._due.wait()
            self._due.clear()
            report, wait, skew = self._report, 0.0, self._heartbeat.skew
            assert report is not None, "a beat is due with a report"
            began = self._clock.monotonic()
            try:
                await self._heartbeat.beat(report)
                self._beat_at, self._unknown, failures = began, None, 0
                self._record_node_events()
            except UnauthorizedError as error:
                log.error("the API server does not know this agent any more", why=str(error))  # noqa: TRY400
                self._unknown, wait = error, _NOT_KNOWN
            except KubeError as error:
                failures += 1
                wait = min(self._settings.lease_every, _BACKOFF.delay(failures, self._rng))
                log.warning("a heartbeat failed", why=str(error), again_in=round(wait, 1))
            if self._unknown is not None or abs(self._heartbeat.skew - skew) > _SKEW_MOVED:
                self._changed.set()
            self._metrics.token_age.set(self._jobs.token_age)
            if wait:
                await self._clock.sleep(wait)
                self._due.set()

    def _record_node_events(self) -> None:
        node = self._heartbeat.node
        while node is not None and self._node_events:
            event = self._node_events.pop(0)
            self._events.record(node, "Warning" if event.warning else "Normal", event.reason, event.message)

    # Jobs and logs

    async def job(
        self,
        uid: str,
        request: Callable[[], JobRequest],
        hand_over: Callable[[Served], Awaitable[None]],
        reached: Callable[[], None],
    ) -> Drained | Refused | None:
        del request  # dispatch reads the Node's label
        while (jobs := self._jobs.of(uid)) is None:
            await self._clock.sleep(1.0)
        return await jobs.job(hand_over, reached)

    async def log(self, uid: str, first_byte: int, content: bytes = b"", *, ended: bool = False) -> int | None:
        jobs = self._jobs.of(uid)
        return await jobs.post_log(first_byte, content, ended=ended) if jobs is not None else None

    def _forget(self, named: Container[str]) -> None:
        """Nothing is kept for Pods that neither the Mac nor the API server has."""
        for uid in [uid for uid in self._reported if uid not in named and uid not in self._pods]:
            del self._reported[uid]
            self._jobs.forget(uid)
            self._ended.discard(uid)
            if uid in self._writers:
                self._writers.pop(uid)[1].cancel()
