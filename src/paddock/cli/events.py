"""`paddock events`: what happened to hosts, machines, pools and Pods, newest last; `-w` goes on showing."""

from datetime import datetime
from typing import Any

import click

from paddock.cli.output import Column, listed, output_flag
from paddock.cli.progress import showing
from paddock.cli.reaching import Reach, Reached, connected, reach_flags, run

__all__ = ["command"]


@click.command("events")
@click.option("--watch", "-w", is_flag=True, help="Go on showing what happens, until Ctrl-C.")
@click.option("--for", "about", default="", metavar="KIND/NAME", help="Only about this, such as machine/mac-fleet-x2x.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1), help="How many of the past to show.")
@output_flag
@reach_flags
def command(watch: bool, about: str, limit: int, output: str, reach: Reach) -> None:
    """Show what happened, newest last."""
    run(_events(about, limit, output, reach, watch=watch))


async def _events(about: str, limit: int, output: str, reach: Reach, *, watch: bool) -> int:
    async with connected(reach) as reached:
        async with showing("reading events"):
            shown = await _read(reached, about)
        click.echo(_shown(shown[-limit:], output))
        seen = {(event.metadata.uid, event.count) for event in shown}
        while watch:
            from paddock.base.clock import SystemClock

            await SystemClock().sleep(1.0)
            for event in await _read(reached, about):
                if (event.metadata.uid, event.count) not in seen:
                    seen.add((event.metadata.uid, event.count))
                    click.echo(_line(event))
    return 0


async def _read(reached: Reached, about: str) -> list[Any]:
    from paddock.kube.builtin import Event

    kind, _, name = about.rpartition("/")
    events = [
        event
        for event in (await reached.client.list(Event)).items
        if (not name or event.involved_object.name == name) and (not kind or _short(event).startswith(kind.lower()))
    ]
    return sorted(events, key=_when)


def _when(event: Any) -> float:
    moment: datetime | None = event.last_timestamp or event.metadata.creation_timestamp
    return moment.timestamp() if moment is not None else 0.0


def _short(event: Any) -> str:
    return event.involved_object.kind.removeprefix("ScalewayAppleSilicon").lower()


def _time(event: Any) -> str:
    moment: datetime | None = event.last_timestamp or event.metadata.creation_timestamp
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment is not None else ""


def _line(event: Any) -> str:
    times = f" (×{event.count})" if event.count > 1 else ""
    mark = "!" if event.type == "Warning" else " "
    return f"{_time(event)} {mark} {_short(event)}/{event.involved_object.name}  {event.reason}: {event.message}{times}"


def _shown(events: list[Any], output: str) -> str:
    if output in ("table", "wide"):
        return "\n".join(_line(event) for event in events) or "No events."
    return listed(
        events,
        output,
        [Column("", _line)],
        name=lambda event: f"event/{event.metadata.name}",
        plain=lambda event: {
            "at": _time(event),
            "type": event.type,
            "about": f"{_short(event)}/{event.involved_object.name}",
            "reason": event.reason,
            "message": event.message,
            "count": event.count,
        },
        nothing="No events.",
    )
