"""What `paddock describe` shows of a thing, as a value; how it is read from the ledgers is in `describe`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from paddock.cli.output import explained, table

if TYPE_CHECKING:
    from paddock.base.explanation import Explanation
    from paddock.kube.builtin import Event
    from paddock.kube.objects import KubeObject

__all__ = ["Description", "drawn", "events_of", "facts_of", "plain"]

_HISTORY = 20


@dataclass(frozen=True, slots=True)
class Description:
    """`facts` are of the spec, `related` the things beside it, `history` the last lines of its log, newest last."""

    about: str
    facts: Sequence[tuple[str, str]]
    conditions: Sequence[Any]
    related: Sequence[str]
    history: Sequence[str]
    explanation: "Explanation | None"
    equivalent: Sequence[str]
    """What shows the same without Paddock."""


def facts_of(spec: Any) -> list[tuple[str, str]]:
    """What a spec says, one level flat: `claim.machineName` beside its value. Defaults are left out."""
    import msgspec

    def flat(prefix: str, value: Any) -> list[tuple[str, str]]:
        if isinstance(value, dict):
            return [fact for key, below in value.items() for fact in flat(f"{prefix}.{key}" if prefix else key, below)]
        if isinstance(value, list | tuple):
            return [(prefix, ", ".join(_short(one) for one in value))]
        return [(prefix, str(value))]

    return flat("", msgspec.to_builtins(spec))


def _short(item: Any) -> str:
    """An item of a list: by its name, where it has one."""
    return str(item.get("name") or item.get("key") or "…") if isinstance(item, dict) else str(item)


def events_of(obj: "KubeObject", events: "Sequence[Event]") -> list[str]:
    """The last events about an object, newest last."""
    own = [e for e in events if e.involved_object.uid == obj.metadata.uid or _named(e, obj)]
    own.sort(key=lambda e: (str(e.last_timestamp or e.metadata.creation_timestamp or ""), _written(e)))
    return [
        f"{at:%Y-%m-%d %H:%M:%S} {'!' if event.type == 'Warning' else ' '} {event.reason}: {event.message}"
        + (f" (×{event.count})" if event.count > 1 else "")
        for event in own[-_HISTORY:]
        if (at := event.last_timestamp or event.metadata.creation_timestamp) is not None
    ]


def _written(event: "Event") -> int:
    """The order in which events of one second were written, as far as the server tells."""
    version = event.metadata.resource_version
    return int(version) if version.isdecimal() else 0


def _named(event: "Event", obj: "KubeObject") -> bool:
    about = event.involved_object
    same = (about.kind, about.namespace, about.name) == (obj.RESOURCE.kind, obj.metadata.namespace, obj.metadata.name)
    return same and not about.uid


def drawn(said: Description, now: datetime) -> str:
    from paddock.base.explanation import ago

    blocks = [said.about]
    if said.facts:
        width = max(len(label) for label, _ in said.facts)
        blocks.append(_block("spec", [f"{label.ljust(width)}  {value}" for label, value in said.facts]))
    if said.conditions:
        rows = [
            (c.type, c.status, c.reason or "-", ago(c.last_transition_time, now), c.message) for c in said.conditions
        ]
        blocks.append(_block("conditions", table(rows).splitlines()))
    if said.related:
        blocks.append(_block("related", said.related))
    if said.history:
        blocks.append(_block("what happened", said.history))
    if said.explanation is not None:
        blocks.append("why\n" + "\n".join(f"  {line}".rstrip() for line in explained(said.explanation).splitlines()))
    blocks.append(_block("the same without paddock", said.equivalent))
    return "\n\n".join(blocks)


def _block(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def plain(said: Description) -> dict[str, Any]:
    import msgspec

    return {
        "about": said.about,
        "spec": dict(said.facts),
        "conditions": [msgspec.to_builtins(condition) for condition in said.conditions],
        "related": list(said.related),
        "history": list(said.history),
        "why": msgspec.to_builtins(said.explanation) if said.explanation is not None else None,
        "equivalent": list(said.equivalent),
    }
