"""What can be listed: how it is read, what its columns show, how it is named."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from paddock.cli.connections import Problem, Reached
from paddock.cli.output import Column

__all__ = ["ALL_KINDS", "Kind", "kind_called", "kinds"]

ALL_KINDS = (
    "hosts", "machines", "fleets", "pools", "pods", "nodes", "jobs", "claims", "accounts", "heals",
)  # fmt: skip
"""The names, known without importing what they need, for help and completion."""


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


def kinds() -> tuple[Kind, ...]:
    """All of them, the cluster's first."""
    from paddock.cli.cluster_kinds import CLUSTER_KINDS
    from paddock.cli.ledger_kinds import LEDGER_KINDS

    return (*CLUSTER_KINDS, *LEDGER_KINDS)


def kind_called(word: str) -> Kind:
    """The kind by any of its names; Problem lists all of them."""
    found = next((kind for kind in kinds() if word in (kind.name, *kind.aliases)), None)
    if found is None:
        raise Problem(f"{word} is nothing that can be listed: use one of {', '.join(ALL_KINDS)}")
    return found
