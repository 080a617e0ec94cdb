"""What of each Pod of a report counts. Pure: a Pod that cannot be decoded holds its seat, and costs nothing else."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Raw, Struct

from paddock.clients.gateway.messages import End, PodReport, PodState, Reason
from paddock.gateway import bounded

__all__ = ["MESSAGE", "MOST_PODS", "NEVER", "is_work", "may_have_job", "pods_of"]

MOST_PODS: Final = 64
MESSAGE: Final = 1024
"""Bytes of a sentence, as many as Kubernetes takes in an Event."""
NEVER: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""No moment of a Mac is before it."""
_END_MESSAGE: Final = 4096
"""As much as Kubernetes keeps of a termination message."""
_WORDS: Final = frozenset(PodState)
_WORK: Final = frozenset({PodState.STARTING, PodState.READY, PodState.HANDED, PodState.UNREADABLE, PodState.OTHER})

_OVER: Final = frozenset({PodState.ENDED, PodState.CLEARED, PodState.REFUSED})
_PERHAPS: Final = frozenset({PodState.HANDED, PodState.UNREADABLE, PodState.OTHER})


class _Named(Struct, frozen=True):
    namespace: str = ""
    name: str = ""
    cluster: str = ""


def is_work(pod: PodReport) -> bool:
    """Whether the Pod's VM may be running, as far as its Mac says: it holds a seat, and nothing may be done to the Mac."""
    return pod.state in _WORK


def may_have_job(pod: PodReport) -> bool:
    """Whether a job may run in the Pod's VM: by its Mac's word of the hand-over, or because nobody can read its entry."""
    return pod.state not in _OVER and (pod.handed_at is not None or pod.state in _PERHAPS)


def pods_of(raw: Raw, now: datetime, born: Mapping[str, datetime]) -> tuple[dict[str, PodReport], int]:
    """The Pods by uid, and how many of the report are not among them. `born` has the creation of those that are bound to the Mac."""
    found = bounded.decoded(raw, dict[str, Raw]) if bytes(raw) else {}
    if found is None:
        return {}, 1  # which Pods there are cannot be read, so there may be one that works
    known = {uid: _pod(each, now, born.get(uid, NEVER)) for uid, each in found.items() if bounded.uid(uid)}
    # Those that may work come first: what is left out of them nobody would spare.
    kept = sorted(known, key=lambda uid: not is_work(known[uid]))[:MOST_PODS]
    return {uid: known[uid] for uid in kept}, len(found) - len(kept)


def _pod(raw: Raw, now: datetime, born: datetime) -> PodReport:
    pod = bounded.decoded(raw, PodReport)
    if pod is None:
        named = bounded.decoded(raw, _Named) or _Named()
        return PodReport(
            state=PodState.UNREADABLE,
            namespace=bounded.name(named.namespace),
            name=bounded.name(named.name),
            cluster=bounded.uid(named.cluster),
        )

    def moment(there: datetime | None) -> datetime | None:
        return None if there is None else bounded.between(there, born, now)

    return PodReport(
        state=pod.state if pod.state in _WORDS else PodState.OTHER,
        namespace=bounded.name(pod.namespace),
        name=bounded.name(pod.name),
        accepted_at=moment(pod.accepted_at),
        vm=bounded.name(pod.vm),
        cluster=bounded.uid(pod.cluster),
        running_at=moment(pod.running_at),
        started_at=moment(pod.started_at),
        ready_at=moment(pod.ready_at),
        asking_at=moment(pod.asking_at),
        cut_off_at=moment(pod.cut_off_at),
        handed_at=moment(pod.handed_at),
        asks=pod.asks,
        waits=None if pod.waits is None else _reason(pod.waits),
        mark=bounded.line(pod.mark, 200),
        end=None if pod.end is None else _end(pod.end, born, now),
    )


def _reason(waits: Reason) -> Reason:
    return Reason(bounded.label(waits.reason, "Waiting"), bounded.line(waits.message, MESSAGE))


def _end(end: End, born: datetime, now: datetime) -> End:
    return End(
        succeeded=end.succeeded,
        code=end.code if 0 <= end.code <= 255 else 255,
        reason=bounded.label(end.reason, "Ended"),
        finished_at=bounded.between(end.finished_at, born, now),
        message=bounded.lines(end.message, _END_MESSAGE),
    )
