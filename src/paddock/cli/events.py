"""`paddock events`: what happened to hosts, machines, pools and Pods, newest last; `-w` goes on showing."""

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import click

from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.output import Column, listed, output_flag, say
from paddock.cli.progress import showing

__all__ = ["command"]

_CHANGES: Final = {"list": "ListChanged", "limit": "LimitChanged", "precedence": "PrecedenceChanged"}
_WORDS: Final = {
    word: said
    for said, words in {
        "host": ("hosts", "sash", "scalewayapplesiliconhost"),
        "machine": ("machines", "samm", "scalewayapplesiliconmachine"),
        "cluster": ("clusters", "sasc", "scalewayapplesiliconcluster"),
        "fleet": ("fleets", "macfleet", "macfleets"),
        "pool": ("pools", "rpool", "runnerpool", "runnerpools"),
        "pod": ("pods",),
        "node": ("nodes",),
        "account": ("accounts",),
    }.items()
    for word in (said, *words)
}
"""What the kinds of objects are called here, by every name they go by."""


@click.command("events")
@click.option("--watch", "-w", is_flag=True, help="Go on showing what happens, until Ctrl-C.")
@click.option("--for", "about", default="", metavar="KIND/NAME", help="Only about this, such as machine/mac-fleet-x2x.")
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Of every namespace.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="How many of the past to show.")
@output_flag
@reach_flags
def command(watch: bool, about: str, everywhere: bool, limit: int, output: str, reach: Reach) -> None:
    """Show what happened, newest last; times are UTC.

    Jobs and claims have no events: `paddock describe job NUMBER` shows what happened to one.
    """
    kind = about.rpartition("/")[0].lower()
    if kind and kind not in _WORDS:
        raise click.UsageError(
            f"--for {about}: there are events about {', '.join(dict.fromkeys(_WORDS.values()))} only"
        )
    run(_events(about, limit, output, reach, watch=watch, everywhere=everywhere))


async def _events(about: str, limit: int, output: str, reach: Reach, *, watch: bool, everywhere: bool) -> int:
    async with connected(reach) as found:
        reached = replace(found, only="" if everywhere else found.namespace)
        async with showing("reading events"):
            shown = await _read(reached, about)
        if shown or not watch:
            say(_shown(shown[-limit:], output, about))
        seen = {(event.metadata.uid, event.count) for event in shown}
        while watch:
            from paddock.base.clock import SystemClock

            await SystemClock().sleep(1.0)
            for event in await _read(reached, about):
                if (event.metadata.uid, event.count) not in seen:
                    seen.add((event.metadata.uid, event.count))
                    say(_shown([event], output, about))
    return 0


async def _read(reached: Reached, about: str) -> list[Any]:
    from paddock.kube.builtin import Event

    kind, _, name = about.rpartition("/")
    if _WORDS.get(kind.lower()) == "account":
        return await _changes(reached, name)
    events = [
        event
        for event in (await reached.client.list(Event, reached.only or None)).items
        if (not name or event.involved_object.name == name) and (not kind or _short(event) == _WORDS[kind.lower()])
    ]
    if not about:
        events += await _changes(reached, "")
    return sorted(events, key=_when)


async def _changes(reached: Reached, name: str) -> list[Any]:
    """Changes of the allow list and of limits, as events; none where dispatch cannot be asked: hosts have events without it."""
    from paddock.base.clock import parse_rfc3339
    from paddock.kube.builtin import Event, ObjectReference
    from paddock.kube.objects import ObjectMeta

    try:
        page = await reached.ledger.get("allow-list?changes=200")
    except Problem:
        if name:
            raise
        return []
    return [
        Event(
            metadata=ObjectMeta(name=f"account-{one['change_id']}", uid=f"account-{one['change_id']}"),
            involved_object=ObjectReference(kind="account", name=one["name"]),
            reason=_CHANGES.get(one["subject"], "AccountChanged"),
            message=f"{one['was'] or 'nothing'} → {one['became']}, by {one['by']}: {one['why']}",
            type="Normal",
            count=1,
            last_timestamp=parse_rfc3339(one["at"]),
        )
        for one in reversed((page or {}).get("changes", []))
        if not name or one["name"] == name
    ]


def _when(event: Any) -> float:
    moment: datetime | None = event.last_timestamp or event.metadata.creation_timestamp
    return moment.timestamp() if moment is not None else 0.0


def _short(event: Any) -> str:
    kind: str = event.involved_object.kind.lower()
    return _WORDS.get(kind, kind)


def _time(event: Any) -> str:
    moment: datetime | None = event.last_timestamp or event.metadata.creation_timestamp
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else ""


def _line(event: Any) -> str:
    times = f" (×{event.count})" if event.count > 1 else ""
    mark = "!" if event.type == "Warning" else " "
    return f"{_time(event)} {mark} {_short(event)}/{event.involved_object.name}  {event.reason}: {event.message}{times}"


def _shown(events: list[Any], output: str, about: str) -> str:
    if output in ("table", "wide"):
        return "\n".join(_line(event) for event in events) or f"No events{f' about {about}' if about else ''}."
    return listed(
        events,
        output,
        [Column("", _line)],
        name=lambda event: f"event/{event.metadata.name}",
        plain=lambda event: {
            "at": f"{_time(event).replace(' ', 'T')}Z",
            "type": event.type,
            "about": f"{_short(event)}/{event.involved_object.name}",
            "reason": event.reason,
            "message": event.message,
            "count": event.count,
        },
        nothing="No events.",
        kind="Event",
    )
