"""Nodes that are Ready and take no job."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial

from paddock.base.explanation import Explanation
from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.cluster_api import PAUSED
from paddock.hosts.node_health import troubles
from paddock.kube.builtin import Node
from paddock.views.folding import Found, same
from paddock.views.problem import Ties
from paddock.views.problems.impact import NOT_READY

__all__ = ["of_nodes"]


def of_nodes(machines: Sequence[ScalewayAppleSiliconMachine], nodes: Sequence[Node], now: datetime) -> Iterable[Found]:
    """Macs whose machine and Node are Ready, and which take no job all the same, such as for want of disk."""
    up = {
        node.metadata.name: node
        for node in nodes
        if any(said.type == "Ready" and said.status == "True" for said in node.status.conditions)
    }
    for machine in machines:
        name = machine.metadata.name
        if not machine.status.ready or name not in up or PAUSED in machine.metadata.annotations:
            continue
        if wrong := [trouble.sentence for trouble in troubles(up[name], now) if trouble.urgent]:
            said = Explanation(about=f"machine {name}", sentence="; ".join(wrong))
            ties = Ties(fleet=machine.spec.fleet_name, node=name, was_in_service=True)
            yield Found(NOT_READY, "", None, partial(same, said), f"paddock why machine {name}", ties=ties)
