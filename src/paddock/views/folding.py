"""Many problems of one kind are told as one, by the one that has lasted longest; only what is told is explained. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from paddock.base.explanation import Explanation
from paddock.views.problem import Problem, Ties

__all__ = ["Found", "folded", "same"]

_FOLDED_FROM = 3
"""So many problems of one kind are told as one."""


@dataclass(frozen=True, slots=True)
class Found:
    """A problem that is explained only if it is told: a fleet without hosts has a thousand alike."""

    impact: int
    kind: str
    since: datetime | None
    why: Callable[[], Explanation]
    ask: str
    runbook: str = ""
    ties: Ties = field(default_factory=Ties)


def same(said: Explanation) -> Explanation:
    """For what is explained already."""
    return said


def folded(found: Iterable[Found], plural: str) -> Iterable[Problem]:
    """Many of one kind as one problem, told by the one that has lasted longest. Only what is told is explained."""
    kinds: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for one in found:
        kinds[one.kind, one.impact].append(one)
    for (kind, _), alike in kinds.items():
        if len(alike) < _FOLDED_FROM:
            yield from (_told(one) for one in alike)
            continue
        told = _told(min(alike, key=_age))
        yield replace(
            told,
            about=f"{len(alike)} {plural}",
            sentence=f"{kind or 'not ready'}, such as {told.about}: {told.sentence}",
            ties=_shared([one.ties for one in alike]),
        )


def _shared(ties: Sequence[Ties]) -> Ties:
    """What is true of many as of one: a name only where it is everybody's."""
    fleets = {each.fleet for each in ties}
    return Ties(
        fleet=fleets.pop() if len(fleets) == 1 else "",
        lacks_host=any(each.lacks_host for each in ties),
        was_in_service=all(each.was_in_service for each in ties),
    )


def _age(found: Found) -> tuple[bool, float]:
    return (found.since is None, found.since.timestamp() if found.since is not None else 0.0)


def _told(found: Found) -> Problem:
    said = found.why()
    commands = (found.ask, *(command for command in said.commands if command != found.ask))
    return Problem(found.impact, said.about, said.sentence, found.since, said.next, commands, found.runbook, found.ties)
