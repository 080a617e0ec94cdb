"""`paddock get KIND`: lists of everything, in the words of the domain; `-w` goes on showing what changes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from paddock.cli.completion_values import complete_kinds, complete_names
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.kind import Kind
from paddock.cli.kinds import ALL_KINDS, kind_called, kinds
from paddock.cli.ledger_kinds import ENDED_JOBS
from paddock.cli.output import Column, Form, listed, output_flag, row_of, say
from paddock.cli.progress import showing

__all__ = ["command"]

_LOOK_EVERY = 1.0


@click.command("get", help=f"List things: {', '.join(ALL_KINDS)}.\n\nWith NAMES, only those. `-o wide` shows more columns; json, yaml and name are for scripts.")  # fmt: skip
@click.argument("kind", required=False, shell_complete=complete_kinds(ALL_KINDS))
@click.argument("names", nargs=-1, shell_complete=complete_names)
@click.option("--selector", "-l", default="", help="Only objects with these labels, such as tuist.dev/fleet=blue.")
@click.option("--watch", "-w", is_flag=True, help="Go on showing what changes, until Ctrl-C.")
@click.option("--ended", is_flag=True, help="Jobs that ended: how long they waited and ran, and what their Mac cost.")
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Of every namespace, as without -n.")
@output_flag
@reach_flags
def command(
    kind: str | None,
    names: tuple[str, ...],
    selector: str,
    watch: bool,
    ended: bool,
    everywhere: bool,
    output: str,
    reach: Reach,
) -> None:
    word, _, name = (kind or "").partition("/")
    known = {said for one in kinds() for said in (one.name, *one.aliases)}
    if word not in known:
        told = f"{word} is nothing that can be listed: say" if word else "say what to list:"
        raise click.UsageError(f"{told} one of {', '.join(ALL_KINDS)}")
    if ended and kind_called(word).name != "jobs":
        raise click.UsageError("--ended is for jobs: paddock get jobs --ended")
    wanted = (name, *names) if name else names
    run(_get(word, wanted, selector, output, reach, watch=watch, everywhere=everywhere, ended=ended))


async def _get(
    word: str,
    names: tuple[str, ...],
    selector: str,
    output: Form,
    reach: Reach,
    *,
    watch: bool,
    everywhere: bool,
    ended: bool = False,
) -> int:
    from paddock.base.clock import SystemClock
    from paddock.kube.errors import BadRequestError

    kind, clock = ENDED_JOBS if ended else kind_called(word), SystemClock()
    if selector and not kind.labelled:
        raise Problem(f"{kind.name} are kept in the ledger and have no labels: leave --selector out")
    async with connected(reach) as found:
        reached = replace(found, only="") if everywhere else found
        try:
            async with showing(f"listing {kind.name}"):
                items = await _read(kind, reached, names, selector)
        except BadRequestError as error:
            if not selector:
                raise
            raise Problem(f"--selector {selector!r} is none: {error}; such as tuist.dev/fleet=blue,zone!=x") from error
        if missing := [name for name in names if name not in {kind.title(item) for item in items}]:
            raise Problem(f"no {kind.name} called {', '.join(missing)}: `paddock get {kind.name}` lists what there is")
        if shown := _shown(kind, items, output, clock.now()):
            say(shown)
        before = {kind.title(item): _seen(kind, item, output, clock.now()) for item in items}
        while watch:
            await clock.sleep(_LOOK_EVERY)
            now = clock.now()
            items = await _read(kind, reached, names, selector)
            seen = {kind.title(item): _seen(kind, item, output, now) for item in items}
            changed = [item for item in items if before.get(kind.title(item)) != seen[kind.title(item)]]
            if changed:
                say(_again(kind, items, changed, output, now))
            if output in ("table", "wide"):
                for name in sorted(before.keys() - seen.keys()):
                    say(f"{kind.aliases[0]}/{name} is gone")
            before = seen
    return 0


async def _read(kind: Kind, reached: Reached, names: tuple[str, ...], selector: str) -> Sequence[Any]:
    items = await kind.read(reached, selector)
    return [item for item in items if kind.title(item) in names] if names else items


def _seen(kind: Kind, item: Any, output: Form, now: datetime) -> Any:
    """What must differ for an item to be shown again: what is on the screen, without what ticks by itself."""
    if output in ("json", "yaml"):
        return kind.plain(item)
    return row_of(item, [column for column in kind.columns(now) if not column.ticking], output)


def _again(kind: Kind, items: Sequence[Any], changed: Sequence[Any], output: Form, now: datetime) -> str:
    """Only what changed; in a table, in columns that fit the whole list, so that the rows stay below each other."""
    if output not in ("table", "wide"):
        return _shown(kind, changed, output, now)
    _, *rows = _shown(kind, items, output, now).splitlines()
    return "\n".join(row for row, item in zip(rows, items, strict=True) if item in changed)


def _columns(kind: Kind, items: Sequence[Any], now: datetime) -> Sequence[Column[Any]]:
    """The namespace is shown as soon as there is more than one."""
    if kind.labelled and len({item.metadata.namespace for item in items}) > 1:
        return (Column("NAMESPACE", lambda item: item.metadata.namespace), *kind.columns(now))
    return kind.columns(now)


def _shown(kind: Kind, items: Sequence[Any], output: Form, now: datetime) -> str:
    return listed(
        items,
        output,
        _columns(kind, items, now),
        name=lambda item: f"{kind.aliases[0]}/{kind.title(item)}",
        plain=kind.plain,
        nothing=f"No {kind.name}.",
    )
