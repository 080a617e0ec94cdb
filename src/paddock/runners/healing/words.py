"""From what the ledgers hold to the words of the verdict. Pure: nothing is read here."""

from collections.abc import Iterable
from datetime import datetime

from paddock.clients.github import ForgeJob
from paddock.kube.builtin import ContainerStatus, Pod
from paddock.runners.api import POLLER, RUNNER
from paddock.runners.ledger import Fence, HeldPod, ProgressMark, Transition
from paddock.runners.settings import HealingSettings
from paddock.runners.verdicts.pod_facts import Executor, Held, Job, Life, Machine, Moves, Poller, Runner

__all__ = ["held_of", "job_of", "life_of", "machine_of", "moves_of", "poller_of", "remembered_release", "runner_of"]

_OS = "kubernetes.io/os"
_MACHINES = {"darwin": Machine.MACOS, "linux": Machine.LINUX}


def remembered_release(lines: Iterable[Transition]) -> datetime | None:
    """When the Pod's last claim ended, if the ledger remembers both: a claim, and its end, and none after it."""
    released: datetime | None = None
    for line in lines:
        if line.subject == "claim" and line.became == "released":
            released = line.at
        elif line.subject == "job" and line.became in ("claimed", "running"):
            released = None
    return released


def life_of(pod: Pod) -> Life:
    if pod.status.phase in ("Succeeded", "Failed"):
        return Life.ENDED
    return Life.DELETING if pod.metadata.deletion_timestamp is not None else Life.ALIVE


def machine_of(pod: Pod) -> Machine:
    """By the Nodes it may run on; a Pod with a poller is a Linux Pod whatever it says."""
    if any(container.name == POLLER for container in pod.spec.init_containers):
        return Machine.LINUX
    return _MACHINES.get(pod.spec.node_selector.get(_OS, ""), Machine.UNKNOWN)


def _status(statuses: Iterable[ContainerStatus], name: str) -> ContainerStatus | None:
    return next((status for status in statuses if status.name == name), None)


def runner_of(pod: Pod) -> Runner:
    status = _status(pod.status.container_statuses, RUNNER)
    if status is None:
        return Runner.NONE
    if status.state.terminated is not None or status.last_state.terminated is not None:
        return Runner.TERMINATED
    if status.state.running is not None or status.started:
        return Runner.STARTED
    return Runner.WAITING


def poller_of(pod: Pod) -> Poller:
    status = _status(pod.status.init_container_statuses, POLLER)
    if status is None:
        return Poller.NONE
    if status.state.terminated is not None:
        return Poller.TERMINATED
    return Poller.RUNNING if status.state.running is not None else Poller.WAITING


def held_of(claim: HeldPod | None, fence: Fence | None) -> Held:
    if claim is None:
        return Held.NONE if fence is None else Held.FENCE
    if claim.state == "running":
        return Held.RUNNING if claim.job_id is not None else Held.DISPLACED
    return Held.CLAIMED


def moves_of(mark: ProgressMark | None, now: datetime, settings: HealingSettings) -> tuple[Moves, datetime | None]:
    """A mark that was not said lately is no word about now: the runner may be cut off from us and work on."""
    if mark is None:
        return Moves.UNKNOWN, None
    if now - mark.changed_at < settings.progress_grace:
        return Moves.MOVING, None
    if now - mark.seen_at > settings.progress_grace:
        return Moves.UNKNOWN, None
    return Moves.STILL, mark.changed_at


def job_of(job: ForgeJob | None, runner_name: str) -> tuple[Job, Executor]:
    if job is None:
        return Job.UNKNOWN, Executor.UNKNOWN
    executor = Executor.THIS if job.runner_name == runner_name else Executor.OTHER
    match job.status:
        case "in_progress":
            return Job.IN_PROGRESS, executor if job.runner_name else Executor.UNKNOWN
        case "completed":
            return Job.COMPLETED, executor if job.runner_name else Executor.NOBODY
        case _:
            return Job.QUEUED, Executor.NOBODY
