"""The conditions of a Mac's Node that are stated of it: by its agent, and by the gateway where the Mac has no say. Pure."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from paddock.clients.gateway.messages import Stated
from paddock.gateway.bounds import Accepted
from paddock.gateway.jobs_without_pods import OTHER_CLUSTER_VMS, other_cluster_vms
from paddock.kube.builtin import NodeCondition

__all__ = ["CLOCK_SKEWED", "stated_of"]

CLOCK_SKEWED: Final = "ClockSkewed"
_WRONG: Final = 30.0
_RIGHT_AGAIN: Final = 20.0
"""Seconds between the clocks. Two thresholds, so that a clock near one of them does not flap."""
_SKEWED: Final = Stated(
    True,
    "ClockIsWrong",
    "the Mac's clock and the gateway's are more than 30 s apart, so that GitHub may refuse its runners: "
    "set it with `sudo sntp -sS time.apple.com` on the Mac",
)
_AGREES: Final = Stated(False, "ClockIsRight", "the Mac's clock agrees with the gateway's")
_NOT_STATED: Final = Stated(False, "NotStated", "the Mac's agent did not say whether VMs can start")


def stated_of(accepted: Accepted, bound: AbstractSet[str], before: Iterable[NodeCondition]) -> dict[str, Stated]:
    """What the report says, and what follows from it. `bound`: uids of the Pods that are bound here; `before`: the Node's conditions."""
    return {
        "Ready": _NOT_STATED,
        **accepted.report.conditions,
        CLOCK_SKEWED: _clock(accepted, before),
        OTHER_CLUSTER_VMS: other_cluster_vms(accepted, bound),
    }


def _clock(accepted: Accepted, before: Iterable[NodeCondition]) -> Stated:
    was_wrong = any(each.type == CLOCK_SKEWED and each.status == "True" for each in before)
    apart = abs((accepted.report.mac.clock - accepted.at).total_seconds())
    return _SKEWED if apart > (_RIGHT_AGAIN if was_wrong else _WRONG) else _AGREES
