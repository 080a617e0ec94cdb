"""The words that processes and Pods of the runner subsystem agree on: labels, container names, the token's audience."""

from typing import Final

from paddock.base.names import (
    ACCOUNT_LABEL,
    FLEET_LABEL,
    OWNER_LABEL,
    POOL_LABEL,
    RUNNER_LABEL,
    SOFTNET_LABEL,
    VM_RESOURCE,
)

__all__ = [
    "ACCOUNT_LABEL",
    "AUDIENCE",
    "DRAIN_ELIGIBLE_LABEL",
    "FINALIZER",
    "FLEET_LABEL",
    "LINUX_POOL_LABEL",
    "OPERATOR_AUDIENCE",
    "OPERATOR_DRAIN_LABEL",
    "OWNER_LABEL",
    "POLLER",
    "POOL_LABEL",
    "PROFILE_OF_LABEL",
    "RUNNER",
    "RUNNER_LABEL",
    "SOFTNET_LABEL",
    "UNDISTURBED",
    "VM_RESOURCE",
]

AUDIENCE: Final = "tuist-runners-dispatch"
OPERATOR_AUDIENCE: Final = "paddock-dispatch-operator"
"""Of the token that the operator shows to dispatch: the API server does not accept it, so dispatch cannot act as the operator."""
"""Whom a Pod's token is meant for. A token for anybody else, the API server included, opens nothing here."""

ACCOUNTS_AUDIENCE: Final = "paddock-accounts"
"""Of the token that a change of the allow list shows: nothing else accepts it."""

UNDISTURBED: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations of a Pod that is assigned: whoever removes Nodes by themselves leaves this one alone until its Pod has ended.
The PodDisruptionBudget of the chart says the same to `kubectl drain`, by the assignment label."""
DRAIN_ELIGIBLE_LABEL: Final = "tuist.dev/drain-eligible"
"""`true` on an idle Pod of an older image whose turn in the roll has come: dispatch answers it 410."""
OPERATOR_DRAIN_LABEL: Final = "tuist.dev/runner-operator-drain"
"""`true`, by a person's hand: retire this Pod after its job, and give it none if it has none."""
LINUX_POOL_LABEL: Final = "node.cluster.x-k8s.io/pool"
"""On the Nodes of a Linux fleet."""
PROFILE_OF_LABEL: Final = "tuist.dev/profile-of"
"""On a pool that was made of a profile: the pool that lists it."""
FINALIZER: Final = "tuist.dev/runner-pool-drain"
"""Holds a deleted pool until its busy Pods are done."""
POLLER: Final = "poller"
"""The init container of a Linux Pod that waits for a job; the only one with a token."""
RUNNER: Final = "runner"
"""The container that runs the job."""
