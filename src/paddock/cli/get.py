"""`paddock get KIND`: lists of everything, in the words of the domain; `-w` goes on showing what changes."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from paddock.cli.completion_values import complete_kinds, complete_names
from paddock.cli.connections import Problem, Reach, Reached, connected, reach_flags, run
from paddock.cli.ended_jobs import Choice, Span, ended_kind
from paddock.cli.kind import Kind
from paddock.cli.kinds import ALL_KINDS, kind_called, kinds
from paddock.cli.near import did_you_mean
from paddock.cli.output import Column, Form, as_document, as_json, as_yaml, listed, row_of, say
from paddock.cli.progress import showing
from paddock.cli.watching import changes

if TYPE_CHECKING:
    from paddock.base.clock import Clock

__all__ = ["command"]

_FORMS = ("table", "wide", "json", "yaml", "name")


class _OutputForm(click.ParamType):
    """One of the five forms, or one of the two that take an expression."""

    name = "form"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Form:
        form, equals, expression = str(value).partition("=")
        if value not in _FORMS and not (form in ("jsonpath", "custom-columns") and equals and expression):
            said = f"{value!r} is none of {', '.join(_FORMS)}, jsonpath=TEMPLATE, custom-columns=TITLE:PATH"
            self.fail(said, param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        forms = (*_FORMS, "jsonpath=", "custom-columns=")
        return [CompletionItem(form) for form in forms if form.startswith(incomplete)]


@click.command("get", help=f"List things: {', '.join(ALL_KINDS)}.\n\nWith NAMES, only those. `-o wide` shows more columns; json, yaml, name, jsonpath=… and custom-columns=… are for scripts.")  # fmt: skip
@click.argument("kind", required=False, shell_complete=complete_kinds(ALL_KINDS))
@click.argument("names", nargs=-1, shell_complete=complete_names)
@click.option("--selector", "-l", default="", help="Only objects with these labels, such as tuist.dev/fleet=blue.")
@click.option("--watch", "-w", is_flag=True, help="Go on showing what changes, until Ctrl-C.")
@click.option("--ended", is_flag=True, help="Jobs that ended: how long they waited and ran, and what their Mac cost.")
@click.option(
    "--by",
    type=click.Choice(["account", "repository"]),
    help="With --ended: what they come to, by account or repository: results, waits, runs, Mac-minutes and euros.",
)
@click.option("--since", type=Span(), help="With --ended: how far back, such as 24h (as without it) or 7d.")
@click.option("--account", default="", metavar="LOGIN", help="With --ended: only jobs of this account.")
@click.option("--repository", default="", metavar="OWNER/NAME", help="With --ended: only jobs of this repository.")
@click.option("--all-namespaces", "-A", "everywhere", is_flag=True, help="Of every namespace.")
@click.option("--sort-by", default="", metavar="PATH", help="Sort by a field of the JSON, such as .status.phase.")
@click.option("--no-headers", is_flag=True, help="Leave the titles of the columns out.")
@click.option(
    "-o",
    "--output",
    type=_OutputForm(),
    default="table",
    show_default=True,
    help="How to show it: table, wide, json, yaml, name, jsonpath=TEMPLATE or custom-columns=TITLE:PATH,….",
)
@reach_flags
def command(
    kind: str | None,
    names: tuple[str, ...],
    selector: str,
    watch: bool,
    ended: bool,
    by: str | None,
    since: timedelta | None,
    account: str,
    repository: str,
    everywhere: bool,
    sort_by: str,
    no_headers: bool,
    output: str,
    reach: Reach,
) -> None:
    word, _, name = (kind or "").partition("/")
    known = {said for one in kinds() for said in (one.name, *one.aliases)}
    if word not in known:
        told = f"{word} is nothing that can be listed: say" if word else "say what to list:"
        meant = did_you_mean(word, ALL_KINDS)
        raise click.UsageError(f"{told} one of {', '.join(ALL_KINDS)}.{meant}")
    if ended and kind_called(word).name != "jobs":
        raise click.UsageError("--ended is for jobs: paddock get jobs --ended")
    if by and not ended:
        raise click.UsageError(f"--by sums jobs that ended: paddock get jobs --ended --by {by}")
    choice = Choice(since, account, repository)
    if choice != Choice() and not ended:
        raise click.UsageError("--since, --account and --repository are for jobs that ended: paddock get jobs --ended")
    if by and watch:
        raise click.UsageError("sums are not watched: leave --watch out, or leave --by out")
    asked = _Question((name, *names) if name else names, selector, output, sort_by, headers=not no_headers)
    listed = ended_kind(by, choice) if ended else kind_called(word)
    run(_get(listed, asked, reach, watch=watch, everywhere=everywhere))


@dataclass(frozen=True, slots=True)
class _Question:
    """Which items, and how to show them."""

    names: tuple[str, ...]
    selector: str
    output: Form
    sort_by: str
    headers: bool


async def _get(kind: Kind, asked: _Question, reach: Reach, *, watch: bool, everywhere: bool) -> int:
    from paddock.base.clock import SystemClock
    from paddock.cli.list_forms import FormError
    from paddock.kube.errors import BadRequestError

    clock = SystemClock()
    if asked.selector and not kind.labelled:
        raise Problem(f"{kind.name} are kept in the ledger and have no labels: leave --selector out")
    async with connected(reach) as found:
        # As kubectl does: the namespace that is said, else that of the kubeconfig's context; -A means all of them.
        reached = replace(found, only="" if everywhere else found.namespace)
        try:
            async with showing(f"listing {kind.name}"):
                items = _chosen(kind, asked, await kind.read(reached, asked.selector))
            if missing := [name for name in asked.names if name not in {kind.title(item) for item in items}]:
                raise Problem(
                    f"no {kind.name} called {', '.join(missing)}{_where(kind, reached)}: "
                    f"`paddock get {kind.name}{' -A' if reached.only and kind.labelled else ''}` lists what there is"
                )
            if shown := _shown(kind, items, asked, reached, clock.now()):
                say(shown)
            if watch:
                await _watch(kind, asked, reached, items, clock)
        except FormError as error:
            raise Problem(str(error)) from error
        except BadRequestError as error:
            if not asked.selector:
                raise
            told = f"--selector {asked.selector!r} is none: {error}; such as tuist.dev/fleet=blue,zone!=x"
            raise Problem(told) from error
    return 0


async def _watch(kind: Kind, asked: _Question, reached: Reached, items: Sequence[Any], clock: "Clock") -> None:
    """Show what changes, until cancelled: objects of the cluster by a watch, what the ledger keeps by looking again."""
    before = {kind.title(item): _seen(kind, item, asked.output, clock.now()) for item in items}
    async with aclosing(changes(kind, reached, asked.selector, clock)) as readings:
        async for reading in readings:
            now, items = clock.now(), _chosen(kind, asked, reading)
            seen = {kind.title(item): _seen(kind, item, asked.output, now) for item in items}
            if changed := [item for item in items if before.get(kind.title(item)) != seen[kind.title(item)]]:
                say(_again(kind, items, changed, asked, reached, now))
            if asked.output in ("table", "wide"):
                for name in sorted(before.keys() - seen.keys()):
                    say(f"{kind.aliases[0]}/{name} is gone")
            before = seen


def _chosen(kind: Kind, asked: _Question, items: Sequence[Any]) -> Sequence[Any]:
    if asked.names:
        items = [item for item in items if kind.title(item) in asked.names]
    if asked.sort_by:
        from paddock.cli.list_forms import by_path

        items = sorted(items, key=by_path(asked.sort_by, kind.plain))
    return items


def _where(kind: Kind, reached: Reached) -> str:
    return f" in namespace {reached.only}" if kind.labelled and reached.only and kind.name != "nodes" else ""


def _seen(kind: Kind, item: Any, output: Form, now: datetime) -> Any:
    """What must differ for an item to be shown again: what is on the screen, without what ticks by itself."""
    if output not in ("table", "wide", "name"):
        return kind.plain(item)
    return row_of(item, [column for column in kind.columns(now) if not column.ticking], output)


def _again(
    kind: Kind, items: Sequence[Any], changed: Sequence[Any], asked: _Question, reached: Reached, now: datetime
) -> str:
    """Only what changed; in a table, in columns that fit the whole list, so that the rows stay below each other."""
    if asked.output not in ("table", "wide"):
        return _shown(kind, changed, replace(asked, headers=False), reached, now)
    rows = _shown(kind, items, replace(asked, headers=True), reached, now).splitlines()[1:]
    return "\n".join(row for row, item in zip(rows, items, strict=True) if item in changed)


def _shown(kind: Kind, items: Sequence[Any], asked: _Question, reached: Reached, now: datetime) -> str:
    form, _, expression = asked.output.partition("=")
    if form in ("jsonpath", "custom-columns"):
        from paddock.cli.list_forms import custom_columns, jsonpath

        documents = [kind.plain(item) for item in items]
        if form == "custom-columns":
            return custom_columns(expression, documents, headers=asked.headers)
        one = kind.labelled and len(asked.names) == 1 and len(documents) == 1
        return jsonpath(expression, documents[0] if one else as_document(kind.called, documents))
    if form in ("json", "yaml") and kind.labelled and len(asked.names) == 1 and len(items) == 1:
        # As kubectl does: one object that was asked for by its name is shown as itself.
        return (as_json if form == "json" else as_yaml)(kind.plain(items[0]))
    columns = kind.columns(now)
    if kind.labelled and not reached.only and kind.name != "nodes":
        namespace: Column[Any] = Column("NAMESPACE", lambda item: item.metadata.namespace)
        columns = (namespace, *columns)
    more = "; -A looks in every namespace" if _where(kind, reached) else ""
    return listed(
        items,
        asked.output,
        columns,
        name=lambda item: f"{kind.aliases[0]}/{kind.title(item)}",
        plain=kind.plain,
        nothing=f"No {kind.name}{_where(kind, reached)}{more}.",
        kind=kind.called,
        headers=asked.headers,
    )
