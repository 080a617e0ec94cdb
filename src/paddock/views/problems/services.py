"""Those who hand out jobs and heal Macs: the database, dispatch, the operator; and what could not be read of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paddock.runners.http.concern import Concern
from paddock.views.problem import Problem
from paddock.views.problems.impact import NO_SERVICE, TOLD

__all__ = ["DISPATCH", "LINE", "Unread", "of_services"]

DISPATCH = "the dispatch service"
LINE = "the line of jobs"


@dataclass(frozen=True, slots=True)
class Unread:
    """A read that failed: of what, and why."""

    what: str
    why: str


def of_services(
    concerns: Sequence[Concern], unread: Sequence[Unread], unread_line: bool, leaderless: str
) -> Iterable[Problem]:
    """`leaderless`: why no operator leads, empty where one does, or where nobody can say. `unread_line`: the line of jobs is
    missed, whether or not a read says why.
    """
    if leaderless:
        yield Problem(
            NO_SERVICE,
            "operator",
            f"no operator leads, so no Mac is claimed, healed or given back, and no Pod is made: {leaderless}",
            doing="the next one that starts takes the lease by itself",
            commands=("paddock doctor", "kubectl get pods -A -l app.kubernetes.io/component=operator"),
            runbook="PaddockOperatorAbsent",
        )
    stops = [concern for concern in concerns if concern.weight == "stops"]
    for concern in concerns:
        if concern.weight != "advice":
            impact = NO_SERVICE if concern.weight == "stops" else TOLD
            runbook = "PaddockDispatchAbsent" if concern.weight == "stops" else ""
            yield Problem(
                impact,
                concern.about,
                concern.found,
                since=concern.since,
                doing=concern.fix,
                commands=("paddock doctor",),
                runbook=runbook,
            )
    if stops:
        return  # what cannot be read beside it has that cause
    silent = list(unread) or ([Unread(LINE, "it was not asked for yet, or nobody says why")] if unread_line else [])
    worst = [one for one in silent if one.what in (DISPATCH, LINE)]
    for one in worst or silent:
        lost = ", so nobody can say here whether jobs are handed out" if worst else ""
        said = "does not answer" if one.what == DISPATCH else "cannot be read"
        yield Problem(
            NO_SERVICE if worst else TOLD,
            "dispatch",
            f"{one.what} {said}{lost}: {one.why}",
            doing="waiting Pods ask dispatch again by themselves" if one.what == DISPATCH else "",
            commands=("paddock doctor",),
            runbook="PaddockDispatchAbsent" if worst else "",
        )
