"""What a pool wants its scale set to be, and what becomes of one that is something else. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from paddock.base.explanation import utc
from paddock.clients.github.scaleset import ScaleSet, ScaleSetStatistics
from paddock.runners.api import RunnerPool
from paddock.runners.ledger.scale_sets import Source
from paddock.runners.scale_sets.decisions import owner_label, set_labels

__all__ = [
    "Change",
    "DesiredSet",
    "change",
    "desired",
    "differences",
    "holds",
    "is_the_one_asked_for",
    "keeps_labels",
    "replaced",
    "unused",
]


_ANSWER_LOST: Final = timedelta(hours=1)


class Change(Enum):
    """What a set needs in order to be what its pool wants."""

    NONE = "none"
    UPDATE = "update"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class DesiredSet:
    """A set as the pool wants it. Names do not differ by case alone, as at GitHub."""

    name: str
    labels: tuple[str, ...]
    group: str

    def was_asked(self, source: Source) -> bool:
        """Whether GitHub was asked for just these labels and this group, whatever it made of that."""
        asked = source.asked_labels
        if asked is None or source.asked_group is None:
            return False
        return _lowered(asked) == _lowered(self.labels) and source.asked_group.lower() == self.group.lower()

    def is_offered_by(self, found: ScaleSet) -> bool:
        return _lowered(found.labels) == _lowered(self.labels)


def desired(pool: RunnerPool, owner: str) -> DesiredSet:
    return DesiredSet(pool.spec.dispatch_label, set_labels(pool, owner), pool.spec.runner_group or "Default")


def holds(source: Source, name: str) -> bool:
    """Whether the source has a set that was made under this name: its name is the first label that is asked for."""
    asked = source.asked_labels or [""]
    return source.scale_set_id is not None and asked[0].lower() == name.lower()


def change(found: ScaleSet, wanted: DesiredSet, source: Source) -> Change:
    """What to do about the set.

    One with another name is replaced: jobs that were assigned under the old name are served to their end. Labels and group
    are changed in place, unless that was tried and GitHub did not do it. What GitHub was asked for and dropped is not asked
    for again: it would drop it again.
    """
    if found.name.lower() != wanted.name.lower():
        return Change.REPLACE
    if wanted.was_asked(source):
        return Change.NONE
    return Change.UPDATE if source.replacing_since is None else Change.REPLACE


def is_the_one_asked_for(found: ScaleSet, wanted: DesiredSet, source: Source, now: datetime) -> bool:
    """Whether a set without a label of ours is the one that we asked for and whose number we were not told, because the answer
    was lost and GitHub drops labels (GHES).

    The row says that we asked for just this name, labels and group within the hour, and has no set; the set has nothing but
    its name, no job and no runner. Another's set that fits all this was made in that very moment, and nobody uses it.
    """
    since = source.replacing_since
    if source.scale_set_id is not None or since is None or now - since > _ANSWER_LOST or not wanted.was_asked(source):
        return False
    bare = _lowered(found.labels) <= {wanted.name.lower()} and found.name.lower() == wanted.name.lower()
    return bare and unused(found.statistics) and found.statistics.total_registered_runners <= 0


def keeps_labels(found: ScaleSet, owner: str) -> bool:
    """Whether GitHub kept labels of ours when the set was made: one that does not, drops them from every set."""
    return owner_label(owner).lower() in _lowered(found.labels)


def unused(counts: ScaleSetStatistics) -> bool:
    """Whether GitHub knows of no job that is assigned to the set, and of no runner of it that works."""
    return counts.total_assigned_jobs <= 0 and counts.total_running_jobs <= 0 and counts.total_busy_runners <= 0


def differences(found: ScaleSet, wanted: DesiredSet, source: Source) -> str:
    """What of the pool changed, for people."""
    said: list[str] = []
    if found.name.lower() != wanted.name.lower():
        said.append(f"dispatchLabel from {found.name!r} to {wanted.name!r}")
    if (source.asked_group or wanted.group).lower() != wanted.group.lower():
        said.append(f"runnerGroup from {source.asked_group!r} to {wanted.group!r}")
    ours = {found.name.lower(), wanted.name.lower()}
    has = [label for label in found.labels if label.lower() not in ours]
    wants = [label for label in wanted.labels if label.lower() not in ours]
    lost = [label for label in has if label.lower() not in _lowered(wants)]
    new = [label for label in wants if label.lower() not in _lowered(has)]
    if lost or new:
        parts = [f"without {', '.join(lost)}"] * bool(lost) + [f"with {', '.join(new)}"] * bool(new)
        said.append(f"runnerLabels ({' and '.join(parts)})")
    return ", ".join(said) or "its scale set"


def replaced(found: ScaleSet, wanted: DesiredSet, source: Source, since: datetime, assigned: int) -> str:
    """What goes on while a set is replaced: what, why, since when, and what comes next."""
    left = (
        f"{assigned} assigned job{' is' if assigned == 1 else 's are'} served to the end"
        if assigned
        else "no job is left"
    )
    waits = ""
    if found.name.lower() not in _lowered(wanted.labels):
        waits = f"; jobs that ask for {found.name!r} wait at GitHub until a scale set offers it"
    return (
        f"the pool changed {differences(found, wanted, source)}: scale set {found.name!r} takes no new jobs since "
        f"{utc(since)}; {left}, then it is deleted and {wanted.name!r} is made{waits}"
    )


def _lowered(words: Iterable[str]) -> set[str]:
    return {word.lower() for word in words}
