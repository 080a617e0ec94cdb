"""How lists are shown: the same five forms for every command, and one way to print a plan and to ask."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

__all__ = ["Column", "Form", "confirmed", "explained", "listed", "output_flag"]

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
Form = str
_FORMS = ("table", "wide", "json", "yaml", "name")


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a table; wide ones are shown by `-o wide` only."""

    title: str
    cell: Callable[[T], object]
    wide: bool = False


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
) -> str:
    """The items in one of the five forms. `plain` gives what JSON and YAML show; `nothing` is said when there are none."""
    match form:
        case "json":
            return json.dumps([plain(item) for item in items], indent=2, ensure_ascii=False, default=str)
        case "yaml":
            import yaml

            # Through JSON, so that both forms show the very same values.
            same = json.loads(json.dumps([plain(item) for item in items], default=str))
            return yaml.safe_dump(same, sort_keys=False, allow_unicode=True).rstrip()
        case "name":
            return "\n".join(name(item) for item in items)
        case _:
            return _table(items, [column for column in columns if form == "wide" or not column.wide], nothing)


def _table(items: Sequence[T], columns: Sequence[Column[T]], nothing: str) -> str:
    if not items:
        return nothing
    rows = [[column.title for column in columns]]
    rows += [[_text(column.cell(item)) for column in columns] for item in items]
    widths = [max(len(row[place]) for row in rows) for place in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


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


def confirmed(plan: Sequence[str], question: str, *, yes: bool) -> bool:
    """Print the plan, and ask unless told not to. Everything that destroys goes through here."""
    for number, step in enumerate(plan, 1):
        click.echo(f"  {number}. {step}")
    if yes or click.confirm(question):
        return True
    click.echo("Nothing was changed.")
    return False
