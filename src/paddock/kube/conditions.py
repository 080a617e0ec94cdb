"""Conditions as values: a tuple in, a tuple out."""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from paddock.kube.objects import Condition

__all__ = ["changed_conditions", "get_condition", "is_true", "merge_conditions", "set_condition", "without_condition"]


def get_condition(conditions: Sequence[Condition], kind: str) -> Condition | None:
    """The condition of that type, if there is one."""
    for each in conditions:  # written out: this is asked thousands of times a second
        if each.type == kind:
            return each
    return None


def is_true(conditions: Sequence[Condition], kind: str) -> bool:
    found = get_condition(conditions, kind)
    return found is not None and found.status == "True"


def set_condition(conditions: Sequence[Condition], condition: Condition, now: datetime) -> tuple[Condition, ...]:
    """The conditions with this one in place of the one of its type.

    `lastTransitionTime` is when the *status* last changed: it stays while only reason or message do. It is kept to whole
    seconds, as the server stores it, so that setting the same condition twice gives an equal tuple and no write.
    """
    old = get_condition(conditions, condition.type)
    if old is not None and old.status == condition.status and old.last_transition_time is not None:
        since = old.last_transition_time
    else:
        since = condition.last_transition_time or now
    new = msgspec.structs.replace(condition, last_transition_time=since.replace(microsecond=0))
    if old is None:
        return (*conditions, new)
    return tuple(new if each.type == condition.type else each for each in conditions)


def changed_conditions(before: Sequence[Condition], after: Sequence[Condition]) -> frozenset[str]:
    """The types of those that were set, changed or taken away between the two."""
    old, new = {each.type: each for each in before}, {each.type: each for each in after}
    return frozenset(kind for kind in old.keys() | new.keys() if old.get(kind) != new.get(kind))


def merge_conditions(
    current: Sequence[Condition], wanted: Sequence[Condition], types: Collection[str]
) -> tuple[Condition, ...]:
    """The current conditions with those of these types as they are wanted: set, changed, or taken away."""
    ours = {each.type: each for each in wanted if each.type in types}
    kept = tuple(ours.pop(each.type, each) for each in current if each.type not in types or each.type in ours)
    return (*kept, *ours.values())


def without_condition(conditions: Sequence[Condition], kind: str) -> tuple[Condition, ...]:
    return tuple(each for each in conditions if each.type != kind)
