"""Everything that can be listed, by name."""

from paddock.cli.connections import Problem
from paddock.cli.kind import Kind
from paddock.cli.near import did_you_mean

__all__ = ["ALL_KINDS", "kind_called", "kinds"]

ALL_KINDS = (
    "hosts", "machines", "fleets", "pools", "pods", "nodes", "jobs", "claims", "accounts", "heals", "kills",
)  # fmt: skip
"""The names, known without importing what they need, for help and completion."""


def kinds() -> tuple[Kind, ...]:
    """All of them, the cluster's first."""
    from paddock.cli.cluster_kinds import CLUSTER_KINDS
    from paddock.cli.ledger_kinds import LEDGER_KINDS

    return (*CLUSTER_KINDS, *LEDGER_KINDS)


def kind_called(word: str) -> Kind:
    """The kind by any of its names; Problem lists all of them."""
    found = next((kind for kind in kinds() if word in (kind.name, *kind.aliases)), None)
    if found is None:
        meant = did_you_mean(word, ALL_KINDS)
        raise Problem(f"{word} is nothing that can be listed: use one of {', '.join(ALL_KINDS)}.{meant}")
    return found
