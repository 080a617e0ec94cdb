"""Pods that neither start nor end."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

from paddock.base.explanation import Explanation, span
from paddock.kube.builtin import Pod
from paddock.runners.api import RUNNER_LABEL
from paddock.views.folding import Found, same
from paddock.views.problem import Ties
from paddock.views.problems.impact import POD

__all__ = ["of_pods"]

_POD_STARTS = timedelta(minutes=5)
_POD_ENDS = timedelta(minutes=10)


def of_pods(pods: Sequence[Pod], now: datetime) -> Iterable[Found]:
    for pod in pods:
        meta = pod.metadata
        if meta.labels.get(RUNNER_LABEL) != "true":
            continue
        gone, made = meta.deletion_timestamp, meta.creation_timestamp
        if gone is None and pod.status.phase != "Pending":
            continue  # as nearly all of thousands are: nothing is made for them
        about, ask, ties = f"pod {meta.name}", f"paddock why pod {meta.name}", Ties(node=pod.spec.node_name)
        if gone is not None and now - gone > _POD_ENDS:
            said = Explanation(about=about, sentence=f"has been deleting for {span(now - gone)}")
            yield Found(POD, "deleting", gone, partial(same, said), ask, ties=ties)
        elif gone is None and pod.status.phase == "Pending" and made is not None and now - made > _POD_STARTS:
            where = f"on {pod.spec.node_name}" if pod.spec.node_name else "and has no Node"
            why = next(
                (f": {each.message}" for each in pod.status.conditions if each.type == "Ready" and each.message), ""
            )
            said = Explanation(about=about, sentence=f"has been starting for {span(now - made)} {where}{why}")
            yield Found(POD, "starting", made, partial(same, said), ask, ties=ties)
