"""One Pod as the API server has it: its status follows its Mac's reports, and its object goes when the Mac has let it go."""

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from paddock.base.backoff import Backoff
from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.tasks import first_of
from paddock.clients.gateway.messages import PodReport, PodState
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import ConflictError, KubeError, NotFoundError
from paddock.node.heartbeat import FIELD_MANAGER
from paddock.node.pod_object import PodChange, but_texts, contradicts, pod_object

__all__ = ["PodWriter"]

log = get_logger("node pods")
_BACKOFF: Final = Backoff(base=1.0, cap=30.0)
_CONTRADICTED: Final = 10.0
"""So long the cache may be behind what was written."""
_TEXTS_EVERY: Final = 60.0
"""A text that counts seconds or gigabytes is written so often, and with every change beside it."""
_LET_GO: Final = (PodState.CLEARED, PodState.REFUSED)


class PodWriter:
    """Writes one Pod's status, where it changed, and deletes it. A write that is lost is made up for by the next."""

    def __init__(
        self, client: Client, uid: str, *, clock: Clock, rng: random.Random, written: Callable[[str, PodState], None]
    ) -> None:
        """`written` is called with `ENDED` where the Pod's end is recorded, with `CLEARED` where the object is gone."""
        self._client = client
        self._uid = uid
        self._clock = clock
        self._rng = rng
        self._note = written
        self._woken = asyncio.Event()
        self._report: PodReport | None = None
        self._pod: Pod | None = None
        self._host_ip = ""
        self._last: dict[str, Any] | None = None
        self._last_at = 0.0
        self._deleted_at = float("-inf")

    def update(self, report: PodReport, pod: Pod, host_ip: str) -> None:
        """The newest of both. The status follows at once."""
        self._report, self._pod, self._host_ip = report, pod, host_ip
        self._woken.set()

    async def run(self) -> None:
        """Write until cancelled."""
        failures = 0
        while True:
            self._woken.clear()
            try:
                await self._write()
                failures = 0
            except KubeError as error:
                failures += 1
                wait = _BACKOFF.delay(failures, self._rng)
                log.warning("a Pod's status is not written yet", uid=self._uid, why=str(error), again_in=round(wait, 1))
                await self._clock.sleep(wait)
                continue
            await first_of(self._clock.sleep(_CONTRADICTED), self._woken.wait())

    async def _write(self) -> None:
        report, pod = self._report, self._pod
        if report is None or pod is None:
            return
        change = pod_object(report, pod, self._host_ip)
        if change is not None and self._is_due(change, pod):
            # NotFound, and Conflict for another uid: this Pod is gone already.
            with suppress(NotFoundError, ConflictError):
                await self._apply(pod, change)
            self._last, self._last_at = change.status, self._clock.monotonic()
            if change.status.get("phase") in ("Succeeded", "Failed"):
                self._note(self._uid, PodState.ENDED)
        if report.state in _LET_GO and pod.metadata.deletion_timestamp is not None:
            await self._delete(pod)

    def _is_due(self, change: PodChange, pod: Pod) -> bool:
        if change.partial:
            reason = change.status["conditions"][0]["reason"]
            return not any(each.type == "Ready" and each.reason == reason for each in pod.status.conditions)
        since = self._clock.monotonic() - self._last_at
        if change.status == self._last or (but_texts(change.status) == but_texts(self._last) and since < _TEXTS_EVERY):
            return since >= _CONTRADICTED and contradicts(pod, change.status)
        return True

    async def _apply(self, pod: Pod, change: PodChange) -> None:
        # The uid is a precondition: a namesake's status is not ours to write.
        metadata = {"namespace": pod.metadata.namespace, "name": pod.metadata.name, "uid": self._uid}
        await self._client.apply(
            {"metadata": metadata, "status": change.status},
            Pod.RESOURCE,
            subresource="status",
            field_manager=f"{FIELD_MANAGER}-journal" if change.partial else FIELD_MANAGER,
            force=True,
        )

    async def _delete(self, pod: Pod) -> None:
        """The object goes last. What keeps it all the same, a finalizer say, is left to its owner for a while."""
        if self._clock.monotonic() - self._deleted_at < _CONTRADICTED:
            return
        # 404 and another uid mean the same: this Pod is gone already.
        with suppress(NotFoundError, ConflictError):
            await self._client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=self._uid, grace_period=0)
        self._deleted_at = self._clock.monotonic()
        self._note(self._uid, PodState.CLEARED)
