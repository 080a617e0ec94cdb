"""Fleets with too few machines."""

from collections.abc import Iterable, Sequence

from paddock.hosts.api import MacFleet
from paddock.views.problem import Problem, Ties
from paddock.views.problems.conditions import message_of, ready_since
from paddock.views.problems.impact import FAILED

__all__ = ["of_fleets"]


def of_fleets(fleets: Sequence[MacFleet]) -> Iterable[Problem]:
    """Only what their machines do not tell: that there are too few of them."""
    for fleet in fleets:
        missing = fleet.spec.replicas - fleet.status.replicas
        if missing > 0 and fleet.status.observed_generation == fleet.metadata.generation:
            name = fleet.metadata.name
            yield Problem(
                FAILED,
                f"fleet {name}",
                f"{missing} of its {fleet.spec.replicas} machines are not even made: {message_of(fleet.status.conditions)}",
                since=ready_since(fleet.status.conditions),
                commands=(f"paddock why fleet {name}",),
                runbook="PaddockFleetBelowSize",
                ties=Ties(fleet=name),
            )
