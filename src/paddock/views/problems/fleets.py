"""Fleets with too few machines."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from paddock.hosts.api import MacFleet
from paddock.hosts.fleet import TEMPLATE_VALID
from paddock.kube.conditions import get_condition
from paddock.views.problem import Problem, Ties
from paddock.views.problems.conditions import message_of, ready_since
from paddock.views.problems.impact import FAILED, NOT_READY
from paddock.views.under_way import being_made

__all__ = ["of_fleets"]


def of_fleets(fleets: Sequence[MacFleet], now: datetime) -> Iterable[Problem]:
    """Only what their machines do not tell: that there are too few of them, and that no more are being made."""
    for fleet in fleets:
        valid = get_condition(fleet.status.conditions, TEMPLATE_VALID)
        if valid is not None and valid.status == "False":
            yield Problem(
                NOT_READY,
                f"fleet {fleet.metadata.name}",
                valid.message,
                since=valid.last_transition_time,
                doing="machines that exist stay, and none is made or replaced until the template is corrected",
                commands=(f"paddock why fleet {fleet.metadata.name}",),
                runbook="conditions",
                ties=Ties(by_itself=True),
            )
            continue
        missing = fleet.spec.replicas - fleet.status.replicas
        if missing > being_made(fleet, now) and fleet.status.observed_generation == fleet.metadata.generation:
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
