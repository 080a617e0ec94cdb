"""What can be listed: how it is read, what its columns show, how it is named."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from paddock.cli.connections import Reached
from paddock.cli.output import Column

__all__ = ["Kind"]


@dataclass(frozen=True, slots=True)
class Kind:
    """Something that can be listed. `read` takes a label selector, which is empty for what lives in the ledger."""

    name: str
    aliases: tuple[str, ...]
    read: Callable[[Reached, str], Awaitable[Sequence[Any]]]
    columns: Callable[[datetime], Sequence[Column[Any]]]
    title: Callable[[Any], str]
    plain: Callable[[Any], Any]
    labelled: bool = True
    """Whether its items are objects of the cluster, with labels to select by."""
    struct: Callable[[], type[Any]] | None = None
    """The class of such an object, imported when it is asked for: with it a list can be watched."""
    called: str = ""
    """What one of them is called where a script reads it, for what the API server does not serve."""
