"""Objects that no controller can bring forward, by the condition that says so."""

from collections.abc import Iterable, Sequence

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.conditions import get_condition
from paddock.kube.stalled_condition import STALLED
from paddock.runners.api import RunnerPool
from paddock.views.problem import Problem, Ties
from paddock.views.problems.impact import FAILED

__all__ = ["of_stalled"]

Stallable = ScalewayAppleSiliconHost | ScalewayAppleSiliconMachine | MacFleet | RunnerPool


def of_stalled(objects: Iterable[tuple[str, Sequence[Stallable]]]) -> Iterable[Problem]:
    """`objects` are kinds, as people type them, each with its objects."""
    for kind, several in objects:
        for one in several:
            found = get_condition(one.status.conditions, STALLED)
            if found is None or found.status != "True":
                continue
            name = one.metadata.name
            yield Problem(
                FAILED,
                f"{kind} {name}",
                found.message,
                since=found.last_transition_time,
                commands=(f"paddock describe {kind} {name}", f"paddock why {kind} {name}"),
                runbook="PaddockReconcileErrors",
                ties=Ties(by_itself=True),
            )
