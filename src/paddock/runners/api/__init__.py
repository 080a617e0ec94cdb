"""The kind of the runner subsystem, and every word that its processes and Pods have to agree on."""

from paddock.runners.api.labels import (
    ACCOUNT_LABEL,
    AUDIENCE,
    DRAIN_ELIGIBLE_LABEL,
    FINALIZER,
    FLEET_LABEL,
    LINUX_POOL_LABEL,
    OPERATOR_DRAIN_LABEL,
    OWNER_LABEL,
    POLLER,
    POOL_LABEL,
    RUNNER,
    RUNNER_LABEL,
)
from paddock.runners.api.runner_pool import (
    KINDS,
    Autoscaling,
    Platform,
    Provisioning,
    Rollout,
    RunnerPool,
    RunnerPoolSpec,
    RunnerPoolStatus,
)

__all__ = [
    "ACCOUNT_LABEL",
    "AUDIENCE",
    "DRAIN_ELIGIBLE_LABEL",
    "FINALIZER",
    "FLEET_LABEL",
    "KINDS",
    "LINUX_POOL_LABEL",
    "OPERATOR_DRAIN_LABEL",
    "OWNER_LABEL",
    "POLLER",
    "POOL_LABEL",
    "RUNNER",
    "RUNNER_LABEL",
    "Autoscaling",
    "Platform",
    "Provisioning",
    "Rollout",
    "RunnerPool",
    "RunnerPoolSpec",
    "RunnerPoolStatus",
]
