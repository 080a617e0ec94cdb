"""What a Mac's Node says is wrong with it, in sentences. Pure.

The agent writes these conditions, each with its remedy; a Machine that is Ready says nothing of them, so that whoever asks
why a Mac runs no job must be told here.
"""

from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.base.explanation import ago
from paddock.base.names import VM_RESOURCE
from paddock.kube.builtin import Node, NodeCondition

__all__ = ["NodeTrouble", "troubles"]

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
    for kind, urgent in _BAD_WHEN_TRUE.items():
        condition = said.get(kind)
        if condition is not None and condition.status == "True":
            since = ago(condition.last_transition_time, now)
            found.append(NodeTrouble(f"{kind} {since}".rstrip() + f": {condition.message or condition.reason}", urgent))
    return sorted(found, key=lambda each: not each.urgent)


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
