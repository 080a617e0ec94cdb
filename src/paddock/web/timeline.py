"""What happened to an object, newest first: events of the cluster and lines of the ledger in one list. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.kube.builtin import Event
from paddock.kube.objects import Condition
from paddock.runners.ledger import Transition
from paddock.web.links import of_object
from paddock.web.parts.ledgers import event_moment

__all__ = ["TimelineEntry", "about", "of_conditions", "of_events", "of_transitions", "timeline"]

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    at: datetime
    source: str
    """Which ledger says so."""
    what: str
    text: str
    warning: bool = False


def timeline(*sources: Iterable[TimelineEntry]) -> tuple[TimelineEntry, ...]:
    lines = sorted({line for source in sources for line in source}, key=lambda line: (line.at, line.what), reverse=True)
    return tuple(lines[:_LONGEST])


def of_events(events: Sequence[Event], *names: str) -> Iterable[TimelineEntry]:
    """Events about the objects of those names; empty names name no object."""
    wanted = {name for name in names if name}
    for event in events:
        moment = event_moment(event)
        if event.involved_object.name in wanted and moment is not None:
            times = f" ({event.count} times)" if event.count > 1 else ""
            yield TimelineEntry(moment, "event", event.reason, f"{event.message}{times}", event.type == "Warning")


def about(events: Sequence[Event], name: str) -> Iterable[TimelineEntry]:
    """What is still said of a thing that is gone: its own events, and those of others that name it."""
    whole = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])") if name else None
    for event in events:
        if whole is not None and event.involved_object.name != name and whole.search(event.message):
            moment = event_moment(event)
            if moment is not None:
                said = f"{of_object(event.involved_object.kind, event.involved_object.name)[0]}: {event.message}"
                yield TimelineEntry(moment, "event", event.reason, said, event.type == "Warning")
    yield from of_events(events, name)


def of_transitions(lines: Sequence[Transition]) -> Iterable[TimelineEntry]:
    for line in lines:
        yield TimelineEntry(
            line.at, "ledger", f"{line.subject} {line.was or 'new'} → {line.became}", f"{line.by}: {line.why}"
        )


def of_conditions(conditions: Sequence[Condition]) -> Iterable[TimelineEntry]:
    for condition in conditions:
        if condition.last_transition_time is not None:
            yield TimelineEntry(
                condition.last_transition_time,
                "condition",
                f"{condition.type} {condition.status}",
                condition.message or condition.reason,
            )
