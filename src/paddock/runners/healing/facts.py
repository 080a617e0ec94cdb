"""From what the ledgers hold to the words of the verdict. Pure: nothing is read here."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from paddock.clients.github import GitHubJob
from paddock.kube.builtin import ContainerStatus, Pod
from paddock.runners.api import POLLER, RUNNER
from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.verdicts.asking import GuestSaid
from paddock.runners.healing.verdicts.pod_facts import (
    ExecutorFact,
    HeldFact,
    JobFact,
    MovesFact,
    PodLife,
    PollerFact,
    RunnerFact,
    VmFact,
)
from paddock.runners.ledger import Fence, HeldPod, ProgressMark, Transition

__all__ = [
    "LEFT_CLAIMS",
    "LISTENER_STAGES",
    "guest_of",
    "held_of",
    "job_of",
    "left_by_its_dispatcher",
    "life_of",
    "listener_still_since",
    "listens",
    "machine_of",
    "moves_of",
    "poller_of",
    "released_at",
    "remembered_release",
    "runner_of",
    "stage_of",
]

LEFT_CLAIMS = "healing/claims"
"""Who takes back the claims of dispatchers that died, in the log."""
LISTENER_STAGES = ("starting", "listening")
"""Stages of the guest script in which no worker runs: with one it says `running`, and `finishing` from then on."""
_WORKER_STAGE = "running"
_OS = "kubernetes.io/os"
_MACHINES = {"darwin": VmFact.MACOS, "linux": VmFact.LINUX}


def remembered_release(lines: Iterable[Transition]) -> Transition | None:
    """The end of the Pod's last claim, if the ledger remembers both: a claim, and its end, and none after it."""
    released: Transition | None = None
    for line in lines:
        if line.subject == "claim" and line.became == "released":
            released = line
        elif line.subject == "job" and line.became in ("claimed", "running"):
            released = None
    return released


def released_at(line: Transition | None) -> datetime | None:
    return None if line is None else line.at


def left_by_its_dispatcher(line: Transition | None) -> bool:
    """Whether healing took the claim back (`left_claims`), which it does only with claims that no living process finishes."""
    return line is not None and line.by == LEFT_CLAIMS


def life_of(pod: Pod) -> PodLife:
    if pod.status.phase in ("Succeeded", "Failed"):
        return PodLife.ENDED
    return PodLife.DELETING if pod.metadata.deletion_timestamp is not None else PodLife.ALIVE


def machine_of(pod: Pod) -> VmFact:
    """By the Nodes it may run on; a Pod with a poller is a Linux Pod whatever it says."""
    if any(container.name == POLLER for container in pod.spec.init_containers):
        return VmFact.LINUX
    return _MACHINES.get(pod.spec.node_selector.get(_OS, ""), VmFact.UNKNOWN)


def _status(statuses: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    return next((status for status in statuses if status.name == name), None)


def runner_of(pod: Pod) -> RunnerFact:
    status = _status(pod.status.container_statuses, RUNNER)
    if status is None:
        return RunnerFact.NONE
    if status.state.terminated is not None or status.last_state.terminated is not None:
        return RunnerFact.TERMINATED
    if status.state.running is not None or status.started:
        return RunnerFact.STARTED
    return RunnerFact.WAITING


def poller_of(pod: Pod) -> PollerFact:
    status = _status(pod.status.init_container_statuses, POLLER)
    if status is None:
        return PollerFact.NONE
    if status.state.terminated is not None:
        return PollerFact.TERMINATED
    return PollerFact.RUNNING if status.state.running is not None else PollerFact.WAITING


def held_of(claim: HeldPod | None, fence: Fence | None) -> HeldFact:
    if claim is None:
        return HeldFact.NONE if fence is None else HeldFact.FENCE
    if claim.state == "running":
        return HeldFact.RUNNING if claim.job_id is not None else HeldFact.DISPLACED
    return HeldFact.CLAIMED


def moves_of(mark: ProgressMark | None, now: datetime, settings: HealingSettings) -> tuple[MovesFact, datetime | None]:
    """A mark that was not said lately is no word about now: the runner may be cut off from us and work on."""
    if mark is None:
        return MovesFact.UNKNOWN, None
    if now - mark.changed_at < settings.progress_grace:
        return MovesFact.MOVING, None
    if now - mark.seen_at > settings.progress_grace:
        return MovesFact.UNKNOWN, None
    return MovesFact.STILL, mark.changed_at


def stage_of(mark: str) -> str:
    """The stage in a mark of the guest script, `<epoch> <stage>`; empty where it is another's."""
    epoch, _, stage = mark.partition(" ")
    return stage if epoch.isdigit() else ""


def listener_still_since(mark: ProgressMark | None, now: datetime, settings: HealingSettings) -> datetime | None:
    """Since when the runner says that it has no worker and that nothing moves, if that is long enough and was said lately."""
    if mark is None or stage_of(mark.mark) not in LISTENER_STAGES:
        return None
    still, heard = now - mark.changed_at, now - mark.seen_at
    return mark.changed_at if still >= settings.listener_grace and heard <= settings.listener_grace else None


def listens(mark: ProgressMark | None, now: datetime, settings: HealingSettings) -> bool:
    """Whether the runner says, and said lately, that it has no worker: a listener that logs its retries moves for ever."""
    return mark is not None and stage_of(mark.mark) in LISTENER_STAGES and now - mark.seen_at <= settings.listener_grace


def guest_of(mark: ProgressMark | None, now: datetime, settings: HealingSettings) -> tuple[GuestSaid, timedelta]:
    """What the guest says of its job by its newest mark, and for how long nothing has moved."""
    if mark is None or now - mark.seen_at > settings.still_asked:
        return GuestSaid.UNKNOWN, timedelta()
    still = now - mark.changed_at
    if still >= settings.still_asked:
        return GuestSaid.STILL, still
    return GuestSaid.WORKS if stage_of(mark.mark) == _WORKER_STAGE else GuestSaid.UNKNOWN, still


def job_of(job: GitHubJob | None, runner_name: str) -> tuple[JobFact, ExecutorFact]:
    if job is None:
        return JobFact.UNKNOWN, ExecutorFact.UNKNOWN
    executor = ExecutorFact.THIS if job.runner_name == runner_name else ExecutorFact.OTHER
    match job.status:
        case "in_progress":
            return JobFact.IN_PROGRESS, executor if job.runner_name else ExecutorFact.UNKNOWN
        case "completed":
            return JobFact.COMPLETED, executor if job.runner_name else ExecutorFact.NONE
        case _:
            return JobFact.QUEUED, ExecutorFact.NONE
