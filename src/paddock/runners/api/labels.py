"""The words that processes and Pods of the runner subsystem agree on: labels, container names, the token's audience."""

from typing import Final

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

RUNNER_LABEL: Final = "tuist.dev/runner"
"""`true` on every runner Pod."""
POOL_LABEL: Final = "tuist.dev/runner-pool"
"""The pool's name, on Pod and ServiceAccount. Dispatch trusts the one on the ServiceAccount."""
OWNER_LABEL: Final = "tuist.dev/runner-pool-owner"
"""The assignment: for whom the Pod was claimed. Says "busy" to people and to the pool controller; the ledger is the proof."""
ACCOUNT_LABEL: Final = "tuist.dev/runner-account"
"""The account's id, only after the dispatch was committed."""
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
FLEET_LABEL: Final = "tuist.dev/fleet"
"""On the Nodes of a Mac fleet."""
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
SOFTNET_LABEL: Final = "tuist.dev/softnet"
"""Of a Mac's Node: `true` where its agent runs VMs behind Softnet."""
VM_RESOURCE: Final = "tuist.dev/vm"
"""What the node agent of a Mac offers, and what each macOS Pod asks for: one of the VMs that the Mac may run at a time."""
