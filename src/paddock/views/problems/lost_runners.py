"""Jobs on Macs that are gone or silent."""

from collections.abc import Iterable, Sequence

from paddock.kube.builtin import Node, Pod
from paddock.views.idle_capacity import lost_runners
from paddock.views.problem import Problem
from paddock.views.problems.impact import LOST

__all__ = ["of_lost_runners"]


def of_lost_runners(pods: Sequence[Pod], nodes: Sequence[Node] | None) -> Iterable[Problem]:
    """Pods with a job on Macs that are gone or silent: what they ran does not run any more, or nobody can tell."""
    lost = list(lost_runners(pods, nodes)) if nodes is not None else []
    if not lost:
        return
    first = min(lost, key=lambda one: (not one.gone, one.pod))
    gone = sum(one.gone for one in lost)
    what = f"{gone} of their Nodes are gone" if gone else "their Nodes are not Ready"
    jobs = "a Pod with a job is" if len(lost) == 1 else f"{len(lost)} Pods with a job are"
    yield Problem(
        LOST,
        "jobs",
        f"{jobs} on Macs that are gone or silent, such as {first.pod} on {first.node}; {what}",
        since=min((one.since for one in lost if one.since is not None), default=None),
        doing="GitHub fails such a job ten minutes after it last heard of its runner; the Pods are let go once that is proven",
        commands=("paddock get pods", f"paddock why pod {first.pod}"),
    )
