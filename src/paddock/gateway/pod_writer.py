"""Writes the status of a Mac's Pods from its newest report, and removes a Pod that is being deleted once its Mac let go of it."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.clients.gateway.messages import PodReport, PodState
from paddock.gateway.lease import MacLeases
from paddock.gateway.macs import Reported
from paddock.gateway.node_writer import FIELD_MANAGER, StaleError, still_newest
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, KubeError, NotFoundError
from paddock.node.pod_object import PodChange, but_texts, contradicts, pod_object

__all__ = ["PodWriter", "forward"]

log = get_logger("gateway")
_ORDER: Final = {"": 0, "Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}
_TEXTS_EVERY: Final = 60.0
"""A text that counts seconds or gigabytes is written so often, and with every change beside it."""
_CONTRADICTED: Final = 10.0
"""So long the cache may be behind what was written."""
_TIMEOUT: Final = 10.0
_LET_GO: Final = frozenset({PodState.CLEARED, PodState.REFUSED})


class _Written(Struct, frozen=True):
    status: dict[str, Any]
    at: float


class PodWriter:
    """What it remembers of a Pod only saves writes: without it each status is written once more, and the same."""

    def __init__(self, client: Client, leases: MacLeases, clock: Clock) -> None:
        self._client = client
        self._leases = leases
        self._clock = clock
        self._written: dict[str, _Written] = {}

    async def write(self, reported: Reported, bound: Sequence[Pod]) -> dict[str, KubeError | StaleError]:
        """The Pods of `bound` that the report names show it. Gives what is to be repeated, by uid: one that cannot be written keeps
        no other from being. Raises SupersededError, and KubeError where the Lease cannot be read.
        """
        failures: dict[str, KubeError | StaleError] = {}
        checked = False
        host_ip = reported.accepted.report.mac.address
        for pod in bound:
            report = reported.accepted.pods.get(pod.metadata.uid)
            if report is None or (reported.mac.rights == "ends" and report.state not in (PodState.ENDED, *_LET_GO)):
                continue
            change = self._due(report, pod, host_ip)
            if change is None:
                continue
            if not checked:
                # All versions below were taken before: they are the watch's.
                await still_newest(self._leases, reported)
                checked = True
            try:
                await self._apply(pod, change)
            except NotFoundError:
                continue
            except ConflictError:
                failures[pod.metadata.uid] = StaleError(f"Pod {pod.metadata.name} was changed meanwhile")
            except KubeError as error:
                failures[pod.metadata.uid] = error
        return failures

    def forget(self, uid: str) -> None:
        self._written.pop(uid, None)

    def to_remove(self, reported: Reported, bound: Sequence[Pod]) -> list[Pod]:
        """Pods that are being deleted and of which nothing is left on the Mac, by its own word."""
        return [
            pod
            for pod in bound
            if pod.metadata.deletion_timestamp is not None
            and (said := reported.accepted.pods.get(pod.metadata.uid)) is not None
            and said.state in _LET_GO
        ]

    async def remove(self, pod: Pod, node: str) -> None:
        """Whoever calls has read afresh that the Mac's key is good. The Pod is read afresh here: the watch may show a deletion that
        was of its namesake.
        """
        meta = pod.metadata
        try:
            now = await self._client.get(Pod, meta.name, meta.namespace, timeout=_TIMEOUT)
            if now.metadata.uid != meta.uid or now.metadata.deletion_timestamp is None or now.spec.node_name != node:
                return
            # Its terminal status is written first (`write`), because what is deleted hides its end from everybody else.
            await self._client.delete(Pod, meta.name, meta.namespace, uid=meta.uid, grace_period=0, timeout=_TIMEOUT)
        except (NotFoundError, ConflictError):
            return
        log.info("a Pod is gone from its Mac and was removed", pod=meta.name, node=node)

    def _due(self, report: PodReport, pod: Pod, host_ip: str) -> PodChange | None:
        change = pod_object(report, pod, host_ip)
        if change is None or not forward(pod, change):
            return None
        if change.partial:
            return None if _shows(pod, change.status) else change
        written, now = self._written.get(pod.metadata.uid), self._clock.monotonic()
        if written is None:
            return change
        texts_alone = but_texts(change.status) == but_texts(written.status) and now - written.at < _TEXTS_EVERY
        same = change.status == written.status or texts_alone
        return None if same and not (now - written.at >= _CONTRADICTED and contradicts(pod, change.status)) else change

    async def _apply(self, pod: Pod, change: PodChange) -> None:
        meta = pod.metadata
        metadata = {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        }
        await self._client.apply(
            {"metadata": metadata, "status": change.status},
            Pod.RESOURCE,
            subresource="status",
            field_manager=f"{FIELD_MANAGER}-journal" if change.partial else FIELD_MANAGER,
            force=True,
            timeout=_TIMEOUT,
        )
        if not change.partial:
            self._written[meta.uid] = _Written(change.status, self._clock.monotonic())


def forward(pod: Pod, change: PodChange) -> bool:
    """Whether the change leads on: a Pod that ran does not wait to start, and an end is written once."""
    phase = change.status.get("phase")
    shown = _ORDER.get(pod.status.phase, 0)
    return shown < 2 and (phase is None or _ORDER[phase] >= shown)


def _shows(pod: Pod, status: dict[str, Any]) -> bool:
    wanted = status["conditions"][0]
    return any(each.type == wanted["type"] and each.reason == wanted.get("reason") for each in pod.status.conditions)
