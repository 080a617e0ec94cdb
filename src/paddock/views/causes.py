"""Which problem is the cause of which: the root is told first, and what hangs on it below it.  (pure)

A problem hangs on another only where the second explains the first: a pool is short because Macs are not ready, jobs wait
because the pool is short. Where Pods are warm, waiting jobs are not the Macs' fault, and nothing is blamed on them. A Mac is
blamed only for its own fleet's pools and its own Pods, and a missing host only for machines that have none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paddock.views.problem import Problem

__all__ = ["Known", "by_cause"]


@dataclass(frozen=True, slots=True)
class Known:
    """What decides whether an explanation fits."""

    warm: int
    """Pods that wait for a job."""
    without_host: int
    """Machines that wait for a host to be free."""


_Fits = Callable[[Problem, Problem, Known], bool]
"""Whether the first may be the cause of the second, of one and the same fleet."""


def _always(_cause: Problem, _symptom: Problem, _known: Known) -> bool:
    return True


def _no_pod_is_warm(_cause: Problem, _symptom: Problem, known: Known) -> bool:
    return not known.warm


def _machines_lack_hosts(_cause: Problem, _symptom: Problem, known: Known) -> bool:
    return known.without_host > 0


def _it_lacks_a_host(_cause: Problem, symptom: Problem, _known: Known) -> bool:
    return symptom.ties.lacks_host


def _it_needs_the_cloud(_cause: Problem, symptom: Problem, _known: Known) -> bool:
    return not symptom.ties.was_in_service


# From a cause to its symptom, by what a problem is about. Nearer causes first: jobs hang on their pool, which hangs on Macs.
_EDGES: tuple[tuple[str, str, _Fits], ...] = (
    ("database", "queue", _always),
    ("database", "pool", _always),
    ("database", "pod", _always),
    ("operator", "pool", _always),
    ("operator", "fleet", _always),
    ("operator", "machine", _it_needs_the_cloud),
    ("dispatch", "queue", _always),
    ("dispatch", "pool", _always),
    ("dispatch", "pod", _always),
    ("pool", "queue", _no_pod_is_warm),
    ("pod", "queue", _no_pod_is_warm),
    ("pod", "pool", _no_pod_is_warm),
    ("machine", "pool", _always),
    ("machine", "pod", _always),
    ("machine", "jobs", _always),
    ("fleet", "pool", _always),
    ("machine", "queue", _no_pod_is_warm),
    ("fleet", "queue", _no_pod_is_warm),
    ("host", "machine", _it_lacks_a_host),
    ("host", "fleet", _machines_lack_hosts),
    ("paddock", "host", _always),
    ("paddock", "machine", _it_needs_the_cloud),
    ("paddock", "fleet", _always),
)


def by_cause(found: Sequence[Problem], known: Known, aside: int) -> tuple[Problem, ...]:
    """The roots, worst first, each with what hangs on it. A root weighs as much as the worst that hangs on it.

    Problems come sorted by impact. What a person set aside (`aside`) causes nothing and hangs on nothing.
    """
    live = [problem for problem in found if problem.impact > aside]
    above = {index: _cause_of(index, live, known) for index in range(len(live))}
    below: dict[int, list[Problem]] = {}
    for index, problem in enumerate(live):
        root = _root(index, above)
        if root != index:
            below.setdefault(root, []).append(problem)
    roots = [
        replace(
            problem,
            impact=max([problem.impact, *(one.impact for one in below.get(index, ()))]),
            symptoms=tuple(below.get(index, ())),
        )
        for index, problem in enumerate(live)
        if above[index] is None
    ]
    rest = [problem for problem in found if problem.impact <= aside]
    return (*sorted(roots, key=lambda one: -one.impact), *rest)


def _cause_of(index: int, live: Sequence[Problem], known: Known) -> int | None:
    symptom = live[index]
    if symptom.ties.by_itself:
        return None
    for cause, mine, fits in _EDGES:
        if mine == _subject(symptom):
            for other, problem in enumerate(live):
                if _subject(problem) == cause and _tied(problem, symptom) and fits(problem, symptom, known):
                    return other
    return None


def _tied(cause: Problem, symptom: Problem) -> bool:
    """Whether they are about the same fleet and the same Mac, as far as either says so."""
    of, about = cause.ties, symptom.ties
    same_fleet = not of.fleet or not about.fleet or of.fleet == about.fleet
    return same_fleet and (not of.node or not about.node or of.node == about.node)


def _root(index: int, above: dict[int, int | None]) -> int:
    """Edges lead from jobs towards the cloud and never back, so this ends."""
    while (cause := above[index]) is not None:
        index = cause
    return index


def _subject(problem: Problem) -> str:
    """What it is about: `machine` of `machine mac-1` and of `12 machines`."""
    first, _, second = problem.about.partition(" ")
    return second.removesuffix("s") if first.isdecimal() else first
