"""What can be told from looking at a Pod. Pure; and what is told here is never proof that no job uses it.

Each of these is asked of every Pod at every look at its pool, so they are written to be cheap.

A Pod may hold a claim that nothing on it shows: assignment labels are best effort. `busy` is therefore for counting and for leaving
alone; that a Pod is idle is proven by the ledger alone (`RetirementApi.retire`).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from paddock.kube.builtin import Container, ContainerStateTerminated, ContainerStatus, Pod, PodCondition
from paddock.kube.quantity import parse_quantity
from paddock.runners.api import (
    ACCOUNT_LABEL,
    DRAIN_ELIGIBLE_LABEL,
    OPERATOR_DRAIN_LABEL,
    OWNER_LABEL,
    POLLER,
    POOL_LABEL,
    RUNNER,
    VM_RESOURCE,
    RunnerPool,
)
from paddock.runners.pools.pod_names import DRAIN_SINCE, POOL_UID, REVISION

__all__ = [
    "PodEnding",
    "alive",
    "asks_for_seat",
    "busy",
    "deleting",
    "drain_since",
    "ending_of",
    "failed_to_start",
    "marked",
    "of_pool",
    "operator_drained",
    "os_of",
    "pulls",
    "scheduled_at",
    "seats_asked",
    "stale",
    "stalled_since",
    "starting",
    "terminal",
    "unready_since",
    "unschedulable",
    "warm",
    "warm_since",
]

_VM_START_FAILED: Final = "VMStartFailed"
"""What a Mac's agent says of a VM that ended at once, again and again, or whose guest never got ready."""


def of_pool(pod: Pod, pool: RunnerPool) -> bool:
    """Whether the Pod is this very pool's: by label, and by the pool's uid. A pool of an earlier life is another."""
    meta = pod.metadata
    owners = (meta.annotations.get(POOL_UID), *(owner.uid for owner in meta.owner_references))
    return pool.metadata.uid in owners and meta.labels.get(POOL_LABEL) == pool.metadata.name


def terminal(pod: Pod) -> bool:
    phase = pod.status.phase
    return phase == "Succeeded" or phase == "Failed"  # noqa: PLR1714 - a set would be built, or looked into, for nothing


def deleting(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def alive(pod: Pod) -> bool:
    """Counts as one of the pool's Pods."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    phase = pod.status.phase
    return phase != "Succeeded" and phase != "Failed"  # noqa: PLR1714 - as above


def busy(pod: Pod) -> bool:
    """Looks taken: it carries the assignment label, or the account, or its poller is done, which on Linux needs no label.

    Two signals that fail independently, because the label is best effort.
    """
    labels = pod.metadata.labels
    if labels.get(OWNER_LABEL) or labels.get(ACCOUNT_LABEL):
        return True
    poller = _status(pod, POLLER)
    return poller is not None and poller.state.terminated is not None


def stalled_since(pod: Pod) -> datetime | None:
    """Since when a Linux Pod without an assignment label is between its poller and a runner that does not start.

    Its poller was drained, or its job's label was lost, and the runner's image cannot be had: only the ledger can tell
    which of the two, so this is a reason to ask, and no more.
    """
    labels = pod.metadata.labels
    if labels.get(OWNER_LABEL) or labels.get(ACCOUNT_LABEL):
        return None
    poller = _status(pod, POLLER)
    if poller is None or poller.state.terminated is None:
        return None
    runner = _status(pod, RUNNER)
    if runner is not None and (runner.state.running is not None or runner.state.terminated is not None):
        return None
    return poller.state.terminated.finished_at


def os_of(pod: Pod) -> str:
    """The system that it asks for; our macOS Pods always say theirs."""
    return pod.spec.node_selector.get("kubernetes.io/os", "darwin")


def warm(pod: Pod, os: str) -> bool:
    """Waits for a job: on macOS the Pod is Ready, which its agent says once the guest is ready and dispatch was asked in its
    name; on Linux the poller runs (and the Pod is Pending all the while). A VM that is merely up waits for nothing.
    """
    if os == "darwin":
        if pod.status.phase != "Running":
            return False
        said = _ready(pod)
        return said is not None and said.status == "True"
    poller = _status(pod, POLLER)
    return poller is not None and poller.state.running is not None


def warm_since(pod: Pod, os: str) -> datetime | None:
    """When it began to wait for a job, as far as the Pod says."""
    if os == "darwin" and warm(pod, os):
        said = _ready(pod)
        return said.last_transition_time if said is not None else None
    if os == "darwin" and pod.status.phase != "Succeeded":
        return None  # it may have run for hours without ever asking for a job
    status = _status(pod, RUNNER if os == "darwin" else POLLER)
    if status is None:
        return None
    if status.state.running is not None:
        return status.state.running.started_at
    return status.state.terminated.started_at if status.state.terminated is not None else None


def unready_since(pod: Pod) -> datetime | None:
    """Since when its agent says that it does not wait for a job; None while it does, or where nobody said so."""
    said = _ready(pod)
    return said.last_transition_time if said is not None and said.status != "True" else None


def starting(pod: Pod, os: str) -> bool:
    """On its way to being warm, bound or not: it holds a place among those that may start at once."""
    return alive(pod) and not busy(pod) and not warm(pod, os)


def pulls(pod: Pod) -> bool:
    """Its image is being pulled, and gets on: its agent ends a pull that does not, and says so by another reason."""
    runner = _status(pod, RUNNER)
    waiting = runner.state.waiting if runner is not None else None
    return waiting is not None and waiting.reason == "ImagePulling"


def failed_to_start(pod: Pod) -> bool:
    """Failed on its Node before it could wait for a job: the agent or the kubelet refused it there, or its VM did not come up.

    What ran and ended badly says nothing about its Node, and a Pod that was taken had started.
    """
    labels = pod.metadata.labels
    if pod.status.phase != "Failed" or not pod.spec.node_name or labels.get(OWNER_LABEL) or labels.get(ACCOUNT_LABEL):
        return False
    if pod.status.reason == _VM_START_FAILED:
        return True
    return all(_never_ran(status) for status in _statuses(pod))


def stale(pod: Pod, pool: RunnerPool) -> bool:
    """Made from an older image, for an older RuntimeClass, or of another size than the pool asks for now."""
    runners = 0
    for container in pod.spec.containers:
        if container.name == RUNNER:
            runners += 1
            if container.image != pool.spec.image or _of_another_size(container, pool):
                return True
    if runners != 1:
        return True
    if pool.spec.os == "darwin" and asks_for_seat(pod) and seats_asked(pod) != pool.vm_seats:
        return True
    return pod.metadata.annotations.get(REVISION, "") != pool.metadata.annotations.get(REVISION, "")


def _of_another_size(container: Container, pool: RunnerPool) -> bool:
    """On Macs, where it says a size at all. The server gives amounts back as it likes to write them: 6000m as 6.

    In a cluster of Linux Nodes others may have changed the amounts at admission, and each new Pod would be stale again.
    """
    if pool.spec.os != "darwin":
        return False
    asked = container.resources.get("requests") or {}
    wanted = {"cpu": pool.spec.pod_cpu_milli / 1000, "memory": pool.spec.pod_memory_mb * 1024 * 1024}
    try:
        return any(name in asked and float(parse_quantity(asked[name])) != amount for name, amount in wanted.items())
    except ValueError:
        return True


def seats_asked(pod: Pod) -> int:
    """The seats of a Mac that the scheduler counts for it."""
    seats = 0
    for container in pod.spec.containers:
        requests = container.resources.get("requests")
        amount = requests.get(VM_RESOURCE) if requests else None
        if amount is None:
            continue
        try:
            seats += int(parse_quantity(amount))
        except ValueError:
            return 0
    return seats


def asks_for_seat(pod: Pod) -> bool:
    """Whether the scheduler counts it among the VMs of its Mac."""
    for container in pod.spec.containers:
        requests = container.resources.get("requests")
        if requests and VM_RESOURCE in requests:
            return True
    return False


def marked(pod: Pod) -> bool:
    """Told to drain in this roll."""
    return pod.metadata.labels.get(DRAIN_ELIGIBLE_LABEL) == "true"


def drain_since(pod: Pod) -> datetime | None:
    try:
        return datetime.fromisoformat(pod.metadata.annotations.get(DRAIN_SINCE, ""))
    except ValueError:
        return None  # another writer's mark: its age is unknown


def operator_drained(pod: Pod) -> bool:
    return pod.metadata.labels.get(OPERATOR_DRAIN_LABEL) == "true"


def scheduled_at(pod: Pod) -> datetime | None:
    """When it got its Node; the clock of everything that may go wrong on that Node."""
    said = _scheduled(pod)
    return said.last_transition_time if said is not None and said.status == "True" else None


def unschedulable(pod: Pod) -> PodCondition | None:
    """The scheduler's own word that no Node fits, with the moment since when."""
    if pod.spec.node_name:
        return None
    said = _scheduled(pod)
    return said if said is not None and said.status == "False" and said.reason == "Unschedulable" else None


@dataclass(frozen=True, slots=True)
class PodEnding:
    """How a Pod ended: what is kept of it when it is deleted."""

    at: datetime
    exit_code: int | None
    reason: str
    message: str

    @property
    def abnormal(self) -> bool:
        return self.exit_code != 0 or self.reason in {"TartRunExited", "TartRunFailed"}

    @property
    def sentence(self) -> str:
        code = "no exit code" if self.exit_code is None else f"exit code {self.exit_code}"
        # What a runner printed last explains an end that was not meant, and nothing else; it is kept beside the sentence.
        lines = [line.strip() for line in self.message.splitlines() if line.strip()] if self.abnormal else []
        said = f": {'; '.join(lines[-2:])}" if lines else ""
        return f"ended with {code} ({self.reason or 'no reason given'}){said}"


def ending_of(pod: Pod, now: datetime) -> PodEnding:
    """The latest end of its containers, else the moment it was deleted, else now; code and words of the runner, if it ran."""
    ends = [ended for status in _statuses(pod) if (ended := status.state.terminated) is not None]
    times = [ended.finished_at for ended in ends if ended.finished_at is not None]
    at = max(times, default=pod.metadata.deletion_timestamp or now)
    told = _told(pod)
    if told is None:
        return PodEnding(min(at, now), None, pod.status.reason or pod.status.phase, pod.status.message[:300])
    return PodEnding(min(at, now), told.exit_code, told.reason, (told.message or pod.status.message)[:300])


def _told(pod: Pod) -> ContainerStateTerminated | None:
    """The end that explains the Pod's: the runner's, or the poller's where no runner ever started."""
    for name in (RUNNER, POLLER):
        status = _status(pod, name)
        if status is not None and status.state.terminated is not None:
            return status.state.terminated
    return None


def _never_ran(status: ContainerStatus) -> bool:
    now, before = status.state, status.last_state
    return now.running is None and now.terminated is None and before.terminated is None


def _statuses(pod: Pod) -> tuple[ContainerStatus, ...]:
    return (*pod.status.init_container_statuses, *pod.status.container_statuses)


def _status(pod: Pod, name: str) -> ContainerStatus | None:
    for status in pod.status.init_container_statuses:
        if status.name == name:
            return status
    for status in pod.status.container_statuses:
        if status.name == name:
            return status
    return None


def _scheduled(pod: Pod) -> PodCondition | None:
    return _of_type(pod, "PodScheduled")


def _ready(pod: Pod) -> PodCondition | None:
    return _of_type(pod, "Ready")


def _of_type(pod: Pod, kind: str) -> PodCondition | None:
    for condition in pod.status.conditions:
        if condition.type == kind:
            return condition
    return None
