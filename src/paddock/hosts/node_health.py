"""What a Mac's Node says is wrong with it, in sentences. Pure.

The agent writes these conditions, each with its remedy, and the operator the mark of a Mac on which jobs fail; a Machine that is Ready says nothing of them, so that whoever asks
why a Mac runs no job must be told here.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.base.explanation import ago
from paddock.base.failing_mac import jobs_fail
from paddock.base.names import VM_RESOURCE
from paddock.hosts.disruption import CORDON_REASON
from paddock.kube.builtin import Node, NodeCondition

__all__ = ["NodeTrouble", "cordoned", "troubles"]

_BAD_WHEN_TRUE: Final = {
    "DiskPressure": True,
    "VMSlotsLeaked": True,
    "VMSlotsLeakOften": False,
    "ClockSkewed": True,
    "JournalUnreadable": True,
    "OtherClusterVMs": False,
    "LongUptime": False,
}
"""Conditions of our agent, and whether they keep jobs from the Mac already; a long uptime only will, what
leaked and came back with a boot is there, and a job of another cluster is a job."""


_CERTIFICATE: Final = timedelta(hours=24)
"""How long an agent's certificate lasts; it renews it itself while it lives."""


class NodeTrouble(Struct, frozen=True):
    """One thing that is wrong, since when, and the remedy, in one sentence. `urgent`: it costs jobs now."""

    sentence: str
    urgent: bool = True


def troubles(node: Node, now: datetime) -> list[NodeTrouble]:
    """What is wrong with the Node, the most urgent first."""
    name, found = node.metadata.name, list[NodeTrouble]()
    said = {condition.type: condition for condition in node.status.conditions}
    ready = said.get("Ready")
    if ready is None or ready.status != "True":
        why = (ready.message or ready.reason) if ready is not None else "its agent has not reported yet"
        since = ago(ready.last_transition_time, now) if ready is not None else ""
        why += _certificate(ready, now)
        found.append(NodeTrouble(f"its Node {name} is not ready {since}".rstrip() + f": {why}"))
    elif VM_RESOURCE not in node.status.allocatable:
        found.append(
            NodeTrouble(
                f"its Node {name} offers no {VM_RESOURCE}, so that no VM fits there: its agent is older than this Paddock, or another one"
            )
        )
    if (mark := jobs_fail(node.metadata.annotations, node.status.node_info)) is not None:
        found.append(
            NodeTrouble(f"jobs fail at once on its Node {name} {ago(mark.at, now)}".rstrip() + f": {mark.sentence}")
        )
    for kind, urgent in _BAD_WHEN_TRUE.items():
        condition = said.get(kind)
        if condition is not None and condition.status == "True":
            since = ago(condition.last_transition_time, now)
            found.append(NodeTrouble(f"{kind} {since}".rstrip() + f": {condition.message or condition.reason}", urgent))
    return sorted(found, key=lambda each: not each.urgent)


def cordoned(node: Node) -> str:
    """Why a Mac that is well takes no new job: who closed its Node, in one sentence; empty where it is open."""
    if not node.spec.unschedulable:
        return ""
    reason = node.metadata.annotations.get(CORDON_REASON, "")
    who = f"for the {reason}" if reason else "by a person, or by what drains it"
    return f"its Node is cordoned {who}: it takes no new job, and the jobs that run there finish"


def _certificate(ready: NodeCondition | None, now: datetime) -> str:
    """An agent that has been silent for longer than its certificate lasts cannot come back by itself."""
    if ready is None or ready.status != "Unknown" or ready.last_transition_time is None:
        return ""
    if now - ready.last_transition_time < _CERTIFICATE:
        return ""
    return (
        "; its agent's certificate has expired meanwhile, and the operator brings a new one over SSH as soon as the Mac"
        " answers: reboot it, or release it"
    )
