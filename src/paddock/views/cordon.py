"""The cordon that a person sets or takes away, beside the one that the operator sets before it disturbs a Mac. Pure."""

from typing import Any

from paddock.hosts.disruption import CORDON_REASON, CORDONED_AT
from paddock.kube.builtin import Node

__all__ = ["cordon_change", "operators_cordon"]


def operators_cordon(node: Node) -> str:
    """What the operator closed it for, and opens it again after; empty where it is open, or closed by somebody else."""
    return node.metadata.annotations.get(CORDON_REASON, "") if node.spec.unschedulable else ""


def cordon_change(node: Node, *, on: bool) -> dict[str, Any]:
    """The patch by which a person's word counts.

    A drain takes the operator's reason off: with it, the operator would open the Node when it is done, against what the
    person was told. Whoever opens it takes all marks off: left behind, they would make the next person's cordon look as
    the operator's, and a new fence as one that has held for long.
    """
    marks = {CORDON_REASON: None} if on else {CORDON_REASON: None, CORDONED_AT: None}
    return {"metadata": {"uid": node.metadata.uid, "annotations": marks}, "spec": {"unschedulable": on or None}}
