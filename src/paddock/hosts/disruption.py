"""Who works on a Mac, and whether it may be taken from under them. Pure; see docs/design/disruption.md.

The invariant: nothing of ours releases, wipes, reboots or bootstraps a Mac while a job runs on it, unless a person or the
machine's own limit says so, and then every job that ends is counted. Not knowing is a reason to wait, never to go on.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from paddock.base.names import ACCOUNT_LABEL, OWNER_LABEL, POOL_LABEL, RUNNER_LABEL
from paddock.kube.builtin import Node, Pod

__all__ = [
    "CORDONED_AT",
    "CORDON_REASON",
    "FENCE_SETTLES",
    "FORCE",
    "Busy",
    "Clear",
    "Cordon",
    "DrainStep",
    "Force",
    "Idle",
    "Job",
    "Occupancy",
    "Unknown",
    "Wait",
    "WorkLedger",
    "WorkLedgerAwayError",
    "at_work",
    "drain_step",
    "force_of",
    "jobs_by_node",
    "occupancy",
    "unproven",
]

FORCE: Final = "tuist.dev/force"
"""On a machine that is deleted: the uids of the Pods whose end a person was shown, with commas between them, or `true` for
whatever runs there. These are not waited for.
"""
CORDON_REASON: Final = "tuist.dev/cordon-reason"
"""On a Node that we cordoned: why. A Node without it was cordoned by somebody else, and is not opened by us."""
CORDONED_AT: Final = "tuist.dev/cordoned-at"
"""On a Node that is drained by us: since when it takes nothing more, as we saw it."""
FENCE_SETTLES: Final = timedelta(seconds=10)
"""After a cordon the scheduler may bind one more Pod, from a cache that is a moment old: only after that is empty empty."""

_ASSIGNMENT: Final = (OWNER_LABEL, ACCOUNT_LABEL)
_OTHER_CLUSTER: Final = "OtherClusterVMs"
_LOOK_AGAIN: Final = 10.0
_LOOK_AGAIN_AT_SILENCE: Final = 30.0
_DEAD_AFTER: Final = timedelta(minutes=30)
_NAMED: Final = 4
_FENCED: Final = "its Node takes no more work, and who works there is read again in some seconds"


@dataclass(frozen=True, slots=True)
class Job:
    """A Pod that was given a job and has not ended."""

    pod: str
    account: str
    uid: str = ""
    """Of the Pod; empty where it is in another cluster."""

    def __str__(self) -> str:
        return f"{self.pod} (of {self.account})"


@dataclass(frozen=True, slots=True)
class Force:
    """What a person gives up with a Mac: certain Pods, or everything, named or not."""

    everything: bool = False
    pods: frozenset[str] = frozenset()


def force_of(annotations: Mapping[str, str]) -> Force:
    """What the annotation of a machine gives up."""
    value = annotations.get(FORCE, "")
    if value == "true":
        return Force(everything=True)
    return Force(pods=frozenset(value.split(",")) - {""})


@dataclass(frozen=True, slots=True)
class Idle:
    """Complete reads showed no runner Pod there that has not ended."""


@dataclass(frozen=True, slots=True)
class Busy:
    """Jobs run there; or Pods wait there that may get one, or have one that nothing on them shows.

    A stamp is best effort, so a Pod that looks idle is no proof. On a cordoned Node the pool controller deletes those
    that the ledger has fenced: that they are gone is the ledger's word that nobody works there.
    """

    jobs: tuple[Job, ...]
    idle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """A read failed, so nobody knows; or the Mac has not said who works there (`silent`), which a person may overrule."""

    why: str
    silent: bool = False


class WorkLedgerAwayError(Exception):
    """Dispatch could not be asked; who works is what the Pods show."""


class WorkLedger(Protocol):
    """Dispatch's word on Pods, where this process has a way to ask it."""

    async def at_work(self, pod_uids: Sequence[str]) -> Mapping[str, str]:
        """Which of these Pods hold a claim or were handed a runner: uid → whose job. WorkLedgerAwayError if it cannot be known."""
        ...


Occupancy = Idle | Busy | Unknown


@dataclass(frozen=True, slots=True)
class Clear:
    """The Mac may be taken now. `kills` are the jobs that this ends; `path` names who said that they may end."""

    kills: tuple[Job, ...] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class Cordon:
    """Fence the Node against new work, then ask again."""

    message: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing may be done now; the message says for whom, since when and until when at most."""

    message: str
    seconds: float = _LOOK_AGAIN


DrainStep = Clear | Cordon | Wait


def occupancy(node: Node | None, pods: Iterable[Pod], now: datetime, *, server_gone: bool = False) -> Occupancy:
    """Who works on a Node, from complete fresh reads of it and of every Pod that is bound to it.

    A Pod that is being deleted counts until it is gone: deleting it does not end its VM. A job does not end because its
    Node is silent either, for VMs outlive their agent. What is not a job is bounded: a Pod without one that is being
    deleted on a Node that has been silent for half an hour does not count. Nothing works on a server that does
    not exist any more (`server_gone`), once the Node has been silent for as long. Jobs that another cluster started there
    before a move count by the Node's own condition.
    """
    silent = _silent_since(node)
    dead = silent is not None and now - silent >= _DEAD_AFTER
    if dead and server_gone:
        return Idle()
    living = [pod for pod in pods if _is_runner(pod) and pod.status.phase not in {"Succeeded", "Failed"}]
    jobs = tuple(sorted((*(_job(pod) for pod in living if _assigned(pod)), *_of_another_cluster(node)), key=str))
    idle = sorted(
        pod.metadata.name
        for pod in living
        if not _assigned(pod) and not (dead and pod.metadata.deletion_timestamp is not None)
    )
    return Busy(jobs, tuple(idle)) if jobs or idle else Idle()


def unproven(pods: Iterable[Pod]) -> list[Pod]:
    """Runner Pods that show no job and have not ended: only the ledger knows whether they have one."""
    return [
        pod
        for pod in pods
        if _is_runner(pod) and not _assigned(pod) and pod.status.phase not in {"Succeeded", "Failed"}
    ]


def at_work(seen: Occupancy, pods: Iterable[Pod], said: Mapping[str, str]) -> Occupancy:
    """What was seen, with the ledger's word about Pods that show no job: those that have one are jobs, and count as such."""
    if not isinstance(seen, Busy):
        return seen
    found = [
        Job(pod.metadata.name, said[pod.metadata.uid], pod.metadata.uid)
        for pod in unproven(pods)
        if pod.metadata.uid in said
    ]
    names = {job.pod for job in found}
    idle = tuple(name for name in seen.idle if name not in names)
    return Busy(tuple(sorted((*seen.jobs, *found), key=str)), idle)


def drain_step(
    seen: Occupancy,
    node: Node | None,
    *,
    since: datetime | None,
    now: datetime,
    timeout: timedelta | None = None,
    force: Force | None = None,
) -> DrainStep:
    """What to do next on the way to taking a Mac. `since` is when the drain began; None when it begins now.

    The order is always: fence, look again when the fence holds, take. Only what was said by a person (`force`) or by the
    machine's limit (`timeout`) goes past a job, and never past a read that failed. Where a person gave certain jobs up, any
    other is waited for behind the fence.
    """
    force = force or Force()
    if isinstance(seen, Unknown) and seen.silent:
        return _unheard(seen.why, since or now, now, timeout, forced=force.everything)
    if isinstance(seen, Unknown):
        return Wait(f"waits, because who works there is not known: {seen.why}; read again in {_LOOK_AGAIN:.0f} s")
    given_up: tuple[Job, ...] = ()
    if isinstance(seen, Busy):
        if force.everything:
            return Clear(seen.jobs, "force")
        given_up = tuple(job for job in seen.jobs if job.uid in force.pods)
        jobs = tuple(job for job in seen.jobs if job not in given_up)
        seen = Busy(jobs, seen.idle) if jobs or seen.idle else Idle()
    if node is not None:
        fenced = _cordoned_at(node)
        if not node.spec.unschedulable or fenced is None:
            whom = f" for {_whom(seen)}" if isinstance(seen, Busy) else ""
            return Cordon(f"waits{whom}; {_FENCED}", FENCE_SETTLES.total_seconds())
        if isinstance(seen, Idle) and (left := FENCE_SETTLES - (now - fenced)) > timedelta(0):
            return Wait(f"waits; {_FENCED}", left.total_seconds())
    if isinstance(seen, Idle):
        return Clear(given_up, "force" if given_up else "")
    begun = since or now
    until = begun + timeout if timeout else None
    if until is not None and now >= until:
        return Clear((*given_up, *seen.jobs), "drain_timeout")
    limit = f"until {until:%Y-%m-%d %H:%M} UTC at most" if until else "for as long as that takes"
    seconds = min(_LOOK_AGAIN, max((until - now).total_seconds(), 1.0)) if until else _LOOK_AGAIN
    return Wait(f"waits for {_whom(seen)}, since {begun:%Y-%m-%d %H:%M} UTC, {limit}{_silence(node)}", seconds)


def _unheard(why: str, begun: datetime, now: datetime, timeout: timedelta | None, *, forced: bool) -> DrainStep:
    """A Mac that does not say who works there is waited for; whoever may end jobs may also end what nobody can name."""
    until = begun + timeout if timeout else None
    if forced or (until is not None and now >= until):
        return Clear((), "force" if forced else "drain_timeout")
    limit = f"until {until:%Y-%m-%d %H:%M} UTC at most" if until else "for as long as that takes"
    message = (
        f"waits, because who works there is not known: {why}; since {begun:%Y-%m-%d %H:%M} UTC, {limit}; "
        f"if the Mac is dead, annotate the machine with {FORCE}=true"
    )
    return Wait(message, _LOOK_AGAIN_AT_SILENCE)


def jobs_by_node(pods: Iterable[Pod]) -> Counter[str]:
    """How many jobs each Node has: for choosing, never as a proof that one has none."""
    return Counter(
        pod.spec.node_name
        for pod in pods
        if pod.spec.node_name and _assigned(pod) and pod.status.phase not in {"Succeeded", "Failed"}
    )


def _of_another_cluster(node: Node | None) -> list[Job]:
    """Jobs that came with a moved Mac: their Pods are in another cluster, and the agent's condition stands for them."""
    said = next((each for each in node.status.conditions if each.type == _OTHER_CLUSTER), None) if node else None
    if said is None or said.status != "True":
        return []
    count = int(number) if (number := said.reason.removesuffix("Jobs")).isdigit() else 1
    return [Job(f"a VM that another cluster started (condition {_OTHER_CLUSTER})", "another cluster")] * count


def _whom(seen: Busy) -> str:
    if seen.jobs:
        what = "1 job" if len(seen.jobs) == 1 else f"{len(seen.jobs)} jobs"
        return f"{what}: {_some([str(job) for job in seen.jobs])}"
    what = "1 idle runner" if len(seen.idle) == 1 else f"{len(seen.idle)} idle runners"
    return f"{what} to be retired by its pool: {_some(seen.idle)}"


def _silence(node: Node | None) -> str:
    since = _silent_since(node)
    if since is None:
        return ""
    return (
        f"; its Node has been silent since {since:%H:%M} UTC, which does not prove that they ended: "
        f"if the Mac is dead, annotate the machine with {FORCE}=true"
    )


def _some(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _is_runner(pod: Pod) -> bool:
    labels = pod.metadata.labels
    return RUNNER_LABEL in labels or POOL_LABEL in labels or _assigned(pod)


def _assigned(pod: Pod) -> bool:
    return any(pod.metadata.labels.get(label) for label in _ASSIGNMENT)


def _job(pod: Pod) -> Job:
    labels = pod.metadata.labels
    account = next(value for label in _ASSIGNMENT if (value := labels.get(label)))
    return Job(pod.metadata.name, account, pod.metadata.uid)


def _cordoned_at(node: Node) -> datetime | None:
    try:
        return datetime.fromisoformat(node.metadata.annotations.get(CORDONED_AT, ""))
    except ValueError:
        return None


def _silent_since(node: Node | None) -> datetime | None:
    said = next((each for each in node.status.conditions if each.type == "Ready"), None) if node is not None else None
    return said.last_transition_time if said is not None and said.status != "True" else None
