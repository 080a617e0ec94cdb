"""The decisions about a scale set, without effects: whose it is, how much to ask for, what a failure means, who is a ghost."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from paddock.base.explanation import span
from paddock.clients.github import errors as github
from paddock.clients.github.contract import RunnerPlace
from paddock.clients.github.scaleset import ScaleSet
from paddock.kube.objects import ObjectMeta
from paddock.runners.api import RunnerPool, RunnerPoolSpec
from paddock.runners.api.dispatch_label import another_keeps, label_keeper
from paddock.runners.ledger.assignments import OpenAssignment
from paddock.runners.ledger.scale_sets import Room, SourceState

__all__ = [
    "Failure",
    "Found",
    "GhostWatch",
    "broken_off",
    "capacity",
    "clash",
    "failure",
    "judge_found",
    "labels_dropped",
    "no_group",
    "not_ours",
    "not_retired",
    "owner_label",
    "pool_that_was",
    "put_off",
    "retiring",
    "set_labels",
    "still_anothers",
    "unanswered",
]

_PRESENT: Final = timedelta(minutes=2)
"""GitHub's statistics were zero beside assignments for some time: so young an assignment is no ghost."""
_APART: Final = timedelta(seconds=60)


class Found(Enum):
    """What a look-up by name found."""

    NONE = "none"
    OURS = "ours"
    ANOTHERS = "another's"


def owner_label(owner: str) -> str:
    """The label by which a set is known as ours, also when our row of it was lost."""
    return f"paddock-{owner}"


def set_labels(pool: RunnerPool, owner: str) -> tuple[str, ...]:
    """What the set offers: nothing is implied with a scale set, so that all that jobs may ask for is said."""
    labels: dict[str, str] = {}
    for label in (pool.spec.dispatch_label, *pool.spec.runner_labels, owner_label(owner)):
        labels.setdefault(label.lower(), label)
    return tuple(labels.values())


def judge_found(found: ScaleSet | None, *, recorded: int | None, owner: str) -> Found:
    """Whose the set of that name is. It is ours by our row of its number, or by the label that we gave it.

    A set of the right name proves nothing: another Paddock, or ARC, may have made it, and its jobs are theirs.
    """
    if found is None:
        return Found.NONE
    labelled = owner_label(owner).lower() in {label.lower() for label in found.labels}
    return Found.OURS if labelled or found.scale_set_id == recorded else Found.ANOTHERS


def labels_dropped(pool: RunnerPool, found: ScaleSet) -> tuple[str, ...]:
    """Labels of the pool that the set does not have, in the pool's order."""
    has = {label.lower() for label in found.labels}
    wanted = (pool.spec.dispatch_label, *pool.spec.runner_labels)
    return tuple(label for label in wanted if label.lower() not in has)


def clash(pool: RunnerPool, pools: Sequence[RunnerPool], *, holds: bool = False) -> str | None:
    """Why GitHub could give this set's jobs to other runners of ours, or theirs to this set; None if it cannot.

    Such a job would have two rows and two runners, because waiting jobs of two sources cannot be told to be one. Of two pools of one
    label the one that `holds` the set goes on, else the one that has had the label longest.
    """
    label = pool.spec.dispatch_label.lower()
    others = [other for other in pools if other.metadata.name != pool.metadata.name]
    keeper = label_keeper([pool, *others], label)
    if keeper is not None and keeper.metadata.name != pool.metadata.name and not holds:
        return another_keeps(pool, keeper)
    for other in sorted(others, key=lambda other: other.metadata.name):
        if other.spec.job_source == "ScaleSet":
            continue
        if label in {offered.lower() for offered in other.spec.runner_labels}:
            return (
                f"runners of pool {other.metadata.name}, which hears of its jobs by webhook, offer "
                f"{pool.spec.dispatch_label!r} and could be given this pool's jobs: take it out of that pool's runnerLabels"
            )
        if other.spec.dispatch_label.lower() in {offered.lower() for offered in pool.spec.runner_labels}:
            return (
                f"this scale set would offer {other.spec.dispatch_label!r}, which brings jobs to pool "
                f"{other.metadata.name} by webhook: take it out of this pool's runnerLabels"
            )
    return None


def pool_that_was(name: str) -> RunnerPool:
    """In place of a pool that is gone. Nothing is asked for or made for it; a job first heard of now has a usual size."""
    spec = RunnerPoolSpec(image="none", fleet_selector="none", dispatch_label="none", runner_labels=("none",))
    return RunnerPool(metadata=ObjectMeta(name=name), spec=spec)


def capacity(room: Room | None, pool: RunnerPool, *, draining: bool) -> int:
    """How many jobs GitHub may have assigned at once: a promise, so never more than can start.

    What the account's limit leaves for this source, within its part of the pool's most Pods: the accounts that have jobs there share
    them by their weights, in equal parts where none has one. At least 1, because GitHub shows nothing of an account whose
    capacity is 0, and limits and shares change. A source that ends asks for 0, and so does a pool that may have no Pod: each
    assignment would be taken back, and after the third GitHub may give the job up.
    """
    spec = pool.spec
    most = spec.autoscaling.max_replicas if spec.autoscaling.enabled else spec.replicas
    if draining or most <= 0:
        return 0
    if room is None:
        return 1
    by_limit = min(
        (room.vcpus - room.elsewhere_vcpus) // pool.vcpus,
        (room.memory_mb - room.elsewhere_memory_mb) // spec.pod_memory_mb,
    )
    return max(1, min(by_limit, most * room.weight // (room.rivals + room.weight)))


@dataclass(frozen=True, slots=True)
class Failure:
    """What a failed call means for the source: the state it is in, the sentence, and when to try again."""

    state: SourceState
    sentence: str
    again_in: float


def failure(error: github.GitHubError, place: RunnerPlace, *, failures: int) -> Failure:
    """What GitHub's refusal means. What only a person can mend is asked again every five minutes, and not in a loop."""
    if isinstance(error, github.RateLimited):
        sentence = f"GitHub wants to be left alone for {span(error.retry_after)}: {error.message}"
        return Failure("Lost", sentence, max(1.0, error.retry_after))
    if isinstance(error, github.Unavailable):
        return Failure("Lost", f"GitHub cannot be asked for jobs: {error.message}", min(15.0, 2.0 ** min(failures, 4)))
    if isinstance(error, github.Conflict):
        sentence = (
            "another listener holds the queue: it is asked for again; end the other listener if one runs elsewhere"
        )
        return Failure("Conflict", f"{sentence} ({error.message})", 15.0)
    right = "Administration: write" if place.repository else "Self-hosted runners: write"
    if isinstance(error, github.Forbidden | github.Unauthenticated):
        sentence = f"GitHub refuses the App at {place.path}: grant it {right!r} there and accept it ({error.message})"
        return Failure("Refused", sentence, 300.0)
    if isinstance(error, github.NotFound | github.OutOfReach):
        where = (
            "name its repositories in scaleSet.repositories" if not place.repository else "check the repository's name"
        )
        sentence = f"GitHub shows no runners of {place.path} to the App: if it is a personal account, {where}"
        return Failure("Refused", f"{sentence} ({error.message})", 300.0)
    return Failure("Refused", f"GitHub does not accept the scale set: {error.message}", 300.0)


def broken_off(asked: int, capacity: int, *, answered_lately: bool) -> bool:
    """Whether a poll that asks for so many ends before its time. For fewer always: more would be promised than can start.

    For more only while GitHub has answered lately: polls that all are broken off prove nothing, and a queue that does not
    answer would never be found out. A poll that asks for none shows none.
    """
    return capacity < asked or (capacity > asked and (answered_lately or asked == 0))


def unanswered(polls: int, why: str) -> str:
    """What it means that sessions are opened and their queue does not answer, which may be at another address."""
    return f"GitHub opens sessions and answered none of the last {polls} polls of the queue: {why}"


def put_off(error: github.GitHubError, place: RunnerPlace, *, failures: int) -> Failure:
    """What it means that a pool's change did not reach its set: the set goes on as it was, and the change is tried again."""
    found = failure(error, place, failures=failures)
    why = found.sentence if found.state == "Refused" else error.message
    sentence = (
        f"the scale set is listened to as it was before the pool was changed, because GitHub did not take that: {why}"
    )
    return Failure(found.state, sentence, found.again_in)


def not_ours(name: str, group: str, place: RunnerPlace) -> str:
    return (
        f"scale set {name!r} exists in group {group!r} of {place.path} and was not made by this Paddock: give the pool "
        "another dispatchLabel, or delete that set at GitHub"
    )


def still_anothers(name: str, pool: str) -> str:
    return (
        f"scale set {name!r} is still pool {pool}'s: it is this pool's as soon as that has let it go; give one of them "
        "another dispatchLabel if both are to stay"
    )


def retiring(assigned: int) -> str:
    """What goes on while a source is retired."""
    left = (
        f"{assigned} assigned job{' is' if assigned == 1 else 's are'} served to the end"
        if assigned
        else "no job is left"
    )
    return f"no pool asks for these jobs any more: the scale set takes no new ones; {left}, then it is deleted"


def not_retired(why: str) -> str:
    return f"no pool asks for these jobs any more, and the scale set is still at GitHub: {why}"


def no_group(group: str, place: RunnerPlace) -> str:
    return (
        f"there is no runner group {group!r} at {place.path} that the App may use: create it at GitHub, or set "
        "runnerGroup to one that exists"
    )


class GhostWatch:
    """Finds rows of jobs that GitHub does not count any more, by reads of the set's own statistics."""

    def __init__(self) -> None:
        self._zero_since: datetime | None = None

    def ghosts(self, assigned: int, rows: Sequence[OpenAssignment], now: datetime) -> list[OpenAssignment]:
        """Rows without a runner, once no job was assigned in two reads a minute apart; a read that shows one starts anew."""
        if assigned > 0:
            self._zero_since = None
            return []
        if self._zero_since is None:
            self._zero_since = now
        if now - self._zero_since < _APART:
            return []
        if any(now - row.assigned_at < _PRESENT for row in rows):
            return []
        return [row for row in rows if not row.started]
