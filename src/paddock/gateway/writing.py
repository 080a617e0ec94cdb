"""Has each Mac's newest report written: to its Node, then to its Pods, and again until that is done.

| ends after | what is left | what heals it |
|---|---|---|
| the process, anywhere here | what was not written | the Mac's next report, which is whole, to whichever replica |
| the Node, before the Pods | Pods that show less than their Mac said | the same |
| a Pod's end, before its removal | a Pod with an end that is being deleted | the same: its Mac says `cleared` until the Pod is gone |
"""

import asyncio
import random
from typing import Final

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.supervise import keep_running
from paddock.gateway.bound_pods import BoundPods
from paddock.gateway.identities import Identities
from paddock.gateway.lease import MacLeases
from paddock.gateway.macs import Macs, Reported
from paddock.gateway.node_owner import owned_by
from paddock.gateway.node_writer import NodeWriter, StaleError, SupersededError
from paddock.gateway.pod_writer import PodWriter
from paddock.kube.builtin import Node, reference_to
from paddock.kube.client import Client
from paddock.kube.errors import KubeError
from paddock.kube.events import EventRecorder
from paddock.kube.metrics import KubeMetrics
from paddock.kube.reader import CachedReader
from paddock.kube.workqueue import QueueClosedError, WorkQueue

__all__ = ["Writing"]

log = get_logger("gateway")
_WORKERS: Final = 4


class Writing:
    """One Mac is written by one worker at a time. What is known of a report is kept for as long as its Lease lasts, and no longer."""

    def __init__(
        self,
        client: Client,
        nodes: CachedReader[Node],
        pods: BoundPods,
        identities: Identities,
        leases: MacLeases,
        events: EventRecorder,
        *,
        clock: Clock,
        rng: random.Random,
        metrics: KubeMetrics | None = None,
    ) -> None:
        self._nodes, self._pods, self._identities, self._events = nodes, pods, identities, events
        self._clock, self._rng = clock, rng
        self._macs = Macs(clock)
        self._write_node = NodeWriter(client, nodes, leases, clock)
        self._write_pods = PodWriter(client, leases, clock)
        self._queue: WorkQueue[str] = WorkQueue("macs", clock=clock, rng=rng, metrics=metrics)

    def add(self, reported: Reported) -> None:
        """A report that counts."""
        self._macs.put(reported)
        self._queue.add(reported.node)

    def again(self, node: str) -> None:
        """Its Node or a Pod on it was changed: what was reported last still stands."""
        if self._macs.newest(node) is not None:
            self._queue.add(node)

    def forget_pod(self, uid: str) -> None:
        self._write_pods.forget(uid)

    def idle(self, node: str) -> bool:
        """Whether all that was reported is written."""
        return not len(self._queue) and not self._queue.failures(node)

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as group:
            for number in range(_WORKERS):
                name = f"writer {number} of Macs"
                group.create_task(keep_running(name, self._work, self._clock, self._rng), name=name)

    async def _work(self) -> None:
        while True:
            try:
                node = await self._queue.get()
            except QueueClosedError:
                return
            try:
                await self._write(node)
            except SupersededError:
                self._queue.forget(node)  # whoever noted the newer one writes that
            except (KubeError, StaleError) as error:
                wait = self._queue.add_rate_limited(node)
                log.info("a Mac's report is not written yet", node=node, why=str(error), again_in=round(wait, 1))
            else:
                self._queue.forget(node)
            finally:
                self._queue.done(node)

    async def _write(self, name: str) -> None:
        reported = self._macs.newest(name)
        if reported is None:
            return
        bound = self._pods.of(name)
        uids = frozenset(pod.metadata.uid for pod in bound)
        node = self._nodes.get(name)
        # The cache is enough for a Node that it shows as this Mac's, as long as no write under its version fails.
        fresh = node is None or not owned_by(node, reported) or self._queue.failures(name) > 0
        if reported.mac.rights == "all":
            if fresh and not await self._stands(reported):
                self._macs.forget(name)
                return
            if await self._write_node.write(reported, uids, fresh=fresh) is None:
                self._complain(node, reported)
                return
        failures = await self._write_pods.write(reported, bound)
        # Its end is written before a Pod goes: what is deleted hides its end from everybody else.
        removable = self._write_pods.to_remove(reported, [pod for pod in bound if pod.metadata.uid not in failures])
        if removable and await self._identities.still(reported.mac) is not None:
            for pod in removable:
                await self._write_pods.remove(pod, name)
        if failures:
            raise next(iter(failures.values()))

    async def _stands(self, reported: Reported) -> bool:
        """Whether the Machine and its claim still stand, read afresh: no Node is made for a Mac that was let go."""
        found = await self._identities.still(reported.mac)
        return found is not None and found.rights == "all"

    def _complain(self, node: Node | None, reported: Reported) -> None:
        if node is None or owned_by(node, reported):
            return
        log.warning("a Node of this Mac's name belongs to somebody else, and is not written", node=reported.node)
        self._events.record(
            reference_to(node),
            "Warning",
            "NodeNotOurs",
            f"the Mac of machine {reported.mac.name} reports, and this Node is not its own: delete the Node, or the machine",
        )
