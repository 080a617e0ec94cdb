"""What a benchmark says, and how it is shown."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

__all__ = ["Part", "Row", "amount", "show"]


@dataclass(frozen=True, slots=True)
class Row:
    """One finding. `note` holds the ratio where there is one, and how it was measured."""

    bench: str
    what: str
    value: str
    unit: str
    note: str = ""


Part = Callable[[bool], Iterable[Row]]
"""Measures something and says so; True asks for the quick form. Each part has a process of its own."""


def amount(value: float) -> str:
    """Three significant figures, as people read them."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def show(rows: Sequence[Row]) -> None:
    """The table, wide enough for its notes wherever it goes."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("bench", "what"):
        table.add_column(name, no_wrap=True)
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("unit", no_wrap=True)
    table.add_column("ratio, note", overflow="fold")
    for row in rows:
        table.add_row(row.bench, row.what, row.value, row.unit, row.note)
    console = Console()
    Console(width=max(console.width, 170)).print(table)
