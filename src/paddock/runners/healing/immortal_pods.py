"""Pods that are being deleted for ever, because the agent that should let go of them went with its Node.

A node agent keeps its Pods by a finalizer until their VM is torn down. Where the Node itself is gone, no agent is left to do
so: the Pod stays, and with it its ServiceAccount and its place in the pool. The finalizers are taken off only if the Node is
absent when asked for by name, and only from a Pod whose deletion the operator or a person decided long ago.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from paddock.base.clock import Clock
from paddock.kube.builtin import Node, Pod
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, NotFoundError
from paddock.kube.reader import FreshReader
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.breaker import Attempts, within_caps
from paddock.runners.healing.metrics import HealingMetrics
from paddock.runners.healing.observations import list_runner_pods, pool_of
from paddock.runners.healing.pass_report import PassReport
from paddock.runners.healing.worker import Healed, Report

__all__ = ["ImmortalPods"]

KIND: Final = "immortal_pod"


class ImmortalPods:
    """Kind `immortal_pod`. It decides no deletion; it completes those that no agent can."""

    name = "immortal_pods"

    def __init__(
        self,
        client: Client,
        settings: HealingSettings,
        clock: Clock,
        *,
        namespace: str,
        metrics: HealingMetrics | None = None,
    ) -> None:
        self._client = client
        self._reader = FreshReader(client)
        self._settings = settings
        self._clock = clock
        self._namespace = namespace
        self._metrics = metrics or HealingMetrics()
        self._attempts = Attempts()
        self.every = settings.every

    async def heal(self) -> Report:
        pass_report = PassReport(self._settings)
        pods = await list_runner_pods(self._reader, self._namespace)
        lingering = [pod for pod in pods if self._lingers(pod)]
        pass_report.looked = len(lingering)
        immortal: list[Pod] = []
        if lingering:
            nodes = {node.metadata.name for node in (await self._reader.list(Node)).items}
            if not nodes:
                self._metrics.refused.labels("breaker").inc()
                pass_report.refuse("the list of Nodes is empty: taken for a wrong read, nothing was done")
                return pass_report.report()
            immortal = [pod for pod in lingering if pod.spec.node_name not in nodes]
        self._metrics.suspects.labels(KIND).set(len(immortal))
        if pass_report.only_reports(KIND):
            return replace(pass_report.report(), reported=tuple(self._heal(pod) for pod in immortal))
        sizes = Counter(pool_of(pod) for pod in pods)
        immortal = self._attempts.in_order(immortal, lambda pod: pod.metadata.uid)
        chosen, put_off = within_caps(immortal, pool_of, sizes, self._settings)
        for pod in chosen:
            self._attempts.tried(pod.metadata.uid)
            with pass_report.item(f"Pod {pod.metadata.name}"):
                await self._let_go(pod, pass_report)
        return replace(pass_report.report(), deferred=put_off)

    def _lingers(self, pod: Pod) -> bool:
        """Its deletion is overdue: the moment in its metadata already contains the grace that it was given."""
        deadline = pod.metadata.deletion_timestamp
        return (
            bool(pod.spec.node_name)
            and deadline is not None
            and self._clock.now() - deadline > self._settings.immortal_grace
        )

    async def _let_go(self, pod: Pod, pass_report: PassReport) -> None:
        meta = pod.metadata
        if await self._reader.get(Node, pod.spec.node_name) is not None:
            self._metrics.refused.labels("there_after_all").inc()
            pass_report.refuse(f"Node {pod.spec.node_name} of Pod {meta.name} is there after all")
            return
        # The version that was read is a precondition: a finalizer that another client puts on now is not ours to take off.
        keys = {"uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": None}
        try:
            if meta.finalizers:
                await self._client.merge_patch(Pod, meta.name, {"metadata": keys}, self._namespace)
            # Without an agent no component confirms that the containers ended; the same object only, by uid.
            await self._client.delete(Pod, meta.name, self._namespace, uid=meta.uid, grace_period=0)
        except NotFoundError:
            pass  # the last finalizer was all that kept it
        except ConflictError:
            pass_report.refuse(f"Pod {meta.name} changed in the last moment, and is looked at again")
            return
        pass_report.done(self._heal(pod))

    def _heal(self, pod: Pod) -> Healed:
        meta = pod.metadata
        node = pod.spec.node_name
        assert meta.deletion_timestamp is not None, "only Pods that are being deleted linger"
        evidence = {
            "proof": [["kubernetes", f"deletion overdue, and Node {node} is absent"]],
            "pod_uid": meta.uid,
            "finalizers": list(meta.finalizers),
        }
        seconds = (self._clock.now() - meta.deletion_timestamp).total_seconds()
        return Healed(
            KIND, meta.name, f"Pod {meta.name} could not end, because its Node {node} is gone", evidence, seconds
        )
