"""How lists are shown: the same five forms for every command, and one way to print a plan and to ask."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from paddock.base.readable import shown
from paddock.cli.colour import coloured, colours

__all__ = [
    "Column",
    "Form",
    "as_document",
    "as_json",
    "as_yaml",
    "confirmed",
    "dry_run_flag",
    "explained",
    "listed",
    "output_flag",
    "row_of",
    "say",
    "table",
]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Form = str
VERSION = "cli.tuist.dev/v1"
"""Of what the commands print for scripts and the API server does not serve."""
_FORMS = ("table", "wide", "json", "yaml", "name")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table; wide ones are shown by `-o wide` only, ticking ones change with the clock alone."""

    title: str
    cell: Callable[[T], object]
    wide: bool = False
    ticking: bool = False


def say(text: object = "", *, err: bool = False) -> None:
    """Print text that may hold words of strangers. A terminal obeys none of them: control characters and those that
    change the direction of writing are left out, newlines and tabs are not. Every command prints through here.
    """
    told = shown(str(text))
    click.echo(coloured(told) if colours(err=err) else told, err=err)


def output_flag(command: F) -> F:
    return click.option(
        "-o", "--output", type=click.Choice(_FORMS), default="table", show_default=True, help="How to show it."
    )(command)


def listed(
    items: Sequence[T],
    form: Form,
    columns: Sequence[Column[T]],
    *,
    name: Callable[[T], str],
    plain: Callable[[T], Any],
    nothing: str,
    kind: str,
    headers: bool = True,
) -> str:
    """The items in one of the five forms. `plain` gives what JSON and YAML show; `nothing` is said when there are none."""
    match form:
        case "json":
            return as_json(as_document(kind, [plain(item) for item in items]))
        case "yaml":
            return as_yaml(as_document(kind, [plain(item) for item in items]))
        case "name":
            return "\n".join(name(item) for item in items)
        case _:
            rows = [row_of(item, columns, form) for item in items]
            titles = [column.title for column in columns if form == "wide" or not column.wide]
            return table([titles, *rows] if headers else rows) if rows else nothing


def as_document(kind: str, items: list[Any]) -> dict[str, Any]:
    """A list as scripts get it: it says what it is, and in which version of this form. Objects of the cluster say it each."""
    if kind == "":
        return {"apiVersion": "v1", "kind": "List", "items": items}
    return {"apiVersion": VERSION, "kind": f"{kind}List", "items": items}


def as_json(plain: Any) -> str:
    """What a terminal would obey is escaped, so that a program that reads this gets every character."""
    text = json.dumps(plain, indent=2, ensure_ascii=False, default=str)
    return text if shown(text) == text else json.dumps(plain, indent=2, default=str)


def as_yaml(plain: Any) -> str:
    """Through JSON, so that both forms show the very same values."""
    import yaml

    return yaml.safe_dump(json.loads(as_json(plain)), sort_keys=False, allow_unicode=True).rstrip()


def row_of(item: T, columns: Sequence[Column[T]], form: Form) -> list[str]:
    """The cells that this form shows of an item."""
    return [_text(column.cell(item)) for column in columns if form == "wide" or not column.wide]


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of equal length, in columns as wide as they need to be."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shown(" ".join(str(value).splitlines()))


def explained(answer: Any) -> str:
    """An `Explanation` as people read it: the sentence, the evidence by ledger, what happens next, what to type."""
    lines = [f"{answer.about}: {answer.sentence}"]
    if answer.evidence:
        width = max(len(item.ledger) for item in answer.evidence)
        lines += ["", "evidence", *(f"  {item.ledger.ljust(width)}  {item.fact}" for item in answer.evidence)]
    if answer.next:
        lines += ["", "next", f"  {answer.next}"]
    if answer.commands:
        lines += ["", "you may", *(f"  {command}" for command in answer.commands)]
    if answer.runbook:
        lines += ["", f"runbook  docs/runbooks/{answer.runbook}.md"]
    return "\n".join(lines)


def dry_run_flag(command: F) -> F:
    return click.option("--dry-run", is_flag=True, help="Show what would be done, and change nothing.")(command)


def confirmed(
    plan: Sequence[str], question: str, *, yes: bool, afterwards: Sequence[str] = (), dry_run: bool = False
) -> bool:
    """Print the plan and how things are afterwards, and ask unless told not to. All that destroys goes through here.

    A dry run ends here, whoever says yes.
    """
    for number, step in enumerate(plan, 1):
        say(f"  {number}. {step}")
    for line in afterwards:
        say(f"  {line}")
    if dry_run:
        say("Nothing was changed, because of --dry-run.")
        return False
    try:
        if yes or click.confirm(question):
            return True
    except click.Abort:  # there is no terminal to answer from, or Ctrl-C was the answer
        say("")
    say("Nothing was changed.")
    return False
