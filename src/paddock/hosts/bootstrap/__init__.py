"""What we do to a Mac over SSH: turn a factory-fresh host into a node of the fleet, and keep it so."""

from paddock.hosts.bootstrap.config_hash import config_hash
from paddock.hosts.bootstrap.errors import BootstrapError, FailureKind, PlanError
from paddock.hosts.bootstrap.outcome import Failed, Outcome, ProgressCallback, Ready, StepProgress
from paddock.hosts.bootstrap.plan import (
    CarveOut,
    EgressFirewall,
    FleetConfig,
    IngressGuard,
    LaunchdJob,
    Payload,
    PerHost,
    VirtualMachines,
)
from paddock.hosts.bootstrap.run import Bootstrap
from paddock.hosts.bootstrap.sequencing import Sequencing

__all__ = [
    "Bootstrap",
    "BootstrapError",
    "CarveOut",
    "EgressFirewall",
    "Failed",
    "FailureKind",
    "FleetConfig",
    "IngressGuard",
    "LaunchdJob",
    "Outcome",
    "Payload",
    "PerHost",
    "PlanError",
    "ProgressCallback",
    "Ready",
    "Sequencing",
    "StepProgress",
    "VirtualMachines",
    "config_hash",
]
