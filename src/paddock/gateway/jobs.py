"""A Mac asks for its Pods' jobs, and posts what their runners print."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, final

from paddock.base.clock import Clock
from paddock.base.names import FLEET_LABEL, POOL_LABEL
from paddock.base.rate_limit import RateLimits
from paddock.gateway.identities import Identities
from paddock.gateway.identity import MacIdentity
from paddock.gateway.macs import Left
from paddock.gateway.refusals import Later, Refused
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.kube.builtin import Pod
from paddock.kube.client import Client
from paddock.kube.errors import KubeError, NotFoundError
from paddock.kube.reader import FreshReader
from paddock.runners.dispatch.identity import NotAllowed, PodIdentity, Unauthenticated, Unreachable
from paddock.runners.dispatch.pod_proof import AskingMac, PodProof
from paddock.runners.dispatch.waiting_pods import PollAnswer, later

__all__ = ["HandOver", "JobRefusals", "KeyProof", "RunnerLogs", "RunnerMarks", "may_ask"]

_TIMEOUT: Final = 5.0
_NOT_CERTAIN: Final = later(
    "unreachable", "whether this Mac may have a job for the Pod is not known now: ask again", 2.0
)


class HandOver(Protocol):
    async def wait_for_job(self, pod: PodIdentity, proof: PodProof, hold: float, left: Left) -> PollAnswer | None:
        """A job for this Pod, in whose answer the claim is committed and the proof was confirmed; None where whoever asked left."""
        ...


class RunnerLogs(Protocol):
    async def __call__(self, pod_uid: str, first_byte: int, content: bytes, *, ended: bool) -> int:
        """Keep what that Pod's runner printed from this byte on; gives the byte that is expected next."""
        ...


RunnerMarks = Callable[[str, str], Awaitable[object]]
"""`note(pod_uid, mark)`: the runner of that Pod got as far as `mark`. Only of reports that counted: an old mark would look like life."""


@final
@dataclass(frozen=True, slots=True)
class KeyProof:
    """The key of the Mac that a Pod is on. Before a job is handed over the claim and the Pod are read afresh."""

    identities: Identities
    client: Client
    authorization: str
    identity: MacIdentity
    pod: PodIdentity
    fleet: str
    softnet: bool

    @property
    def mac(self) -> AskingMac:
        return AskingMac(self.identity.machine_uid, softnet=self.softnet)

    async def confirm(self) -> None:
        match await self.identities.of(self.authorization, fresh=True):
            case Refused(message=message):
                raise Unauthenticated(message)
            case Later(message=message):
                raise Unreachable(message)
            case identity if identity.machine_uid != self.identity.machine_uid:
                raise NotAllowed("the Mac belongs to another machine by now")
            case identity if identity.rights != "all" or identity.leaving:
                raise NotAllowed("the Mac's machine is being deleted: it gets no new job")
        try:
            pod = await self.client.get(Pod, self.pod.name, self.pod.namespace, timeout=_TIMEOUT)
        except NotFoundError:
            raise NotAllowed("the Pod is gone") from None
        except KubeError:
            raise Unreachable("the cluster cannot be asked about the Pod") from None
        if (problem := may_ask(pod, self.pod.uid, self.identity.name, self.fleet)) is not None:
            raise NotAllowed(problem)
        if pod.metadata.labels.get(POOL_LABEL) != self.pod.pool:
            raise NotAllowed("the Pod is of another pool by now")

    def lasts(self) -> float:
        return float("inf")


class JobRefusals:
    """The Mac ends a waiting VM by a refusal, so that every one rests on fresh reads: a cache may not show a Machine yet."""

    def __init__(self, identities: Identities, fresh: FreshReader, clock: Clock) -> None:
        self._identities, self._fresh = identities, fresh
        self._reads = RateLimits(1.0, 4, clock)

    async def of(self, mac: MacIdentity, pod: Pod) -> PollAnswer:
        """Why this Mac gets no job for the Pod, where that is certain; else that it is to ask later."""
        if not self._reads.take(mac.machine_uid):
            return _NOT_CERTAIN
        meta = pod.metadata
        try:
            found = await self._identities.still(mac)
            machine = await self._fresh.get(ScalewayAppleSiliconMachine, mac.name, mac.namespace, timeout=_TIMEOUT)
            now = await self._fresh.get(Pod, meta.name, meta.namespace, timeout=_TIMEOUT)
        except KubeError:
            return _NOT_CERTAIN
        if found is None or now is None:
            return _NOT_CERTAIN  # whether its key is good, and the Pod gone, the Mac learns from its reports
        if found.rights != "all" or found.leaving or machine is None:
            return PollAnswer(410, "leaving", "the Mac's machine is being deleted: it gets no new job")
        problem = may_ask(now, meta.uid, mac.name, machine.spec.fleet_name)
        return _NOT_CERTAIN if problem is None else PollAnswer(403, "not_allowed", problem)


def may_ask(pod: Pod, uid: str, node: str, fleet: str) -> str | None:
    """Why a Mac gets no job for this Pod; None where it may. The pool is the Pod's label, which its controller alone sets."""
    if pod.metadata.uid != uid or pod.spec.node_name != node:
        return "the Pod is not bound to this Mac"
    if pod.metadata.deletion_timestamp is not None:
        return "the Pod is being deleted"
    if not pod.metadata.labels.get(POOL_LABEL):
        return f"the Pod has no label {POOL_LABEL}: it is of no pool"
    wanted = pod.spec.node_selector.get(FLEET_LABEL, "")
    if wanted != fleet:
        return f"the Pod is for the fleet {wanted or 'without a name'}, and this Mac is of {fleet or 'none'}"
    return None
