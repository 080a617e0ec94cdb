"""What a Mac is answered: the Pods that are bound to it as they should be, and of others that it named what is known."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from paddock.base.clock import Clock
from paddock.base.logs import get_logger
from paddock.base.rate_limit import RateLimits
from paddock.clients.gateway.messages import Absent, Answer, PodReport, WantedPod
from paddock.gateway.bound_pods import BoundPods
from paddock.gateway.bounds import Accepted
from paddock.gateway.pod_bounds import may_have_job
from paddock.kube.builtin import Pod
from paddock.kube.errors import KubeError
from paddock.kube.reader import FreshReader
from paddock.node.pod_shape import pod_shape

__all__ = ["Answers", "Work", "version_of"]

log = get_logger("gateway")
_TIMEOUT: Final = 5.0


class Work(Protocol):
    """The ledger's word on who works."""

    async def of(self, uids: Sequence[str]) -> Mapping[str, Literal["running", "none"]]:
        """Of these Pods, whether one has a claim or a job that runs on it. A uid that is missing, or an error, is not known."""
        ...


class Answers:
    """`authorities` are those in force, as PEM. `cluster` is the uid of this cluster."""

    def __init__(
        self,
        pods: BoundPods,
        fresh: FreshReader,
        work: Work,
        clock: Clock,
        *,
        cluster: str,
        authorities: Callable[[], tuple[str, ...]],
    ) -> None:
        self._pods = pods
        self._fresh = fresh
        self._work = work
        self._clock = clock
        self._cluster = cluster
        self._authorities = authorities
        self._reads = RateLimits(1.0, 16, clock)

    def wanted(self, node: str) -> tuple[WantedPod, ...]:
        return tuple(pod_shape(pod) for pod in sorted(self._pods.of(node), key=lambda pod: pod.metadata.uid))

    async def of(self, node: str, accepted: Accepted) -> Answer:
        wanted, complete = self.wanted(node), self._pods.current()
        named = {each.uid for each in wanted}
        missing = {uid: pod for uid, pod in accepted.pods.items() if uid not in named}
        return Answer(
            now=self._clock.now(),
            cluster=self._cluster,
            authorities=self._authorities(),
            complete=complete,
            version=version_of(wanted),
            pods=wanted,
            absent=await self._absent(node, missing),
        )

    async def _absent(self, node: str, missing: Mapping[str, PodReport]) -> dict[str, Absent]:
        """`gone` for what a fresh read does not show. Of a VM that was handed a job nobody says so while the ledger knows of its job,
        or cannot be asked: its Pod may have been deleted by force, and the job runs. Of one that another cluster handed its job
        nothing is known here.
        """
        found: dict[str, Absent] = dict.fromkeys(missing, "unknown")
        asked = [
            (uid, pod)
            for uid, pod in missing.items()
            if (pod.cluster == self._cluster or not may_have_job(pod)) and self._reads.take(node)
        ]
        # At once: the Mac waits for its answer, and one that the API server does not answer takes seconds.
        gone = await asyncio.gather(*(self._is_gone(uid, pod) for uid, pod in asked))
        found |= {uid: "gone" for (uid, _), is_gone in zip(asked, gone, strict=True) if is_gone}
        handed = [uid for uid, answer in found.items() if answer == "gone" and may_have_job(missing[uid])]
        if handed:
            working = await self._working(handed)
            found |= dict.fromkeys([uid for uid in handed if working.get(uid) != "none"], "unknown")
        return found

    async def _is_gone(self, uid: str, pod: PodReport) -> bool:
        if not pod.namespace or not pod.name:
            return False  # an entry that nobody can read: whose it is is not known
        try:
            there = await self._fresh.get(Pod, pod.name, pod.namespace, timeout=_TIMEOUT)
        except KubeError as error:
            log.info("whether a Pod is gone cannot be told", uid=uid, why=str(error))
            return False
        return there is None or there.metadata.uid != uid

    async def _working(self, uids: Sequence[str]) -> Mapping[str, str]:
        try:
            return await self._work.of(uids)
        except Exception as error:  # noqa: BLE001 - whatever keeps the ledger from answering, nothing is known then
            log.info("whether a job runs cannot be told", why=type(error).__name__)
            return {}


def version_of(wanted: Sequence[WantedPod]) -> str:
    """Names the Pods as they should be: every replica gives the same for the same."""
    return hashlib.sha256(msgspec.json.encode(wanted)).hexdigest()[:16]
