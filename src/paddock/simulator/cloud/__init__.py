"""A simulator of Scaleway's Apple-silicon API: the same paths, shapes, delays and bad habits, on an injected clock."""

from paddock.simulator.cloud.cloud import SimulatedCloud
from paddock.simulator.cloud.faults import Fault, FaultKind
from paddock.simulator.cloud.front import AuditEntry
from paddock.simulator.cloud.network import InProcessTransport
from paddock.simulator.cloud.state import CloudBehaviour, Host, Image, ServerHealth

__all__ = [
    "AuditEntry",
    "CloudBehaviour",
    "Fault",
    "FaultKind",
    "Host",
    "Image",
    "InProcessTransport",
    "ServerHealth",
    "SimulatedCloud",
]
