"""Labels, annotations, resources and taints that more than one room reads or writes, each in one place."""

from typing import Final

__all__ = [
    "ACCOUNT_LABEL",
    "FLEET_LABEL",
    "GOLDEN_LABEL",
    "MACOS_TAINT",
    "OWNER_LABEL",
    "PADDOCK_GROUP",
    "POOL_LABEL",
    "RUNNER_LABEL",
    "RUNTIME_LABEL",
    "SOFTNET_LABEL",
    "TART",
    "VM_RESOURCE",
]

PADDOCK_GROUP: Final = "tuist.dev"
"""The API group of our own kinds."""

VM_RESOURCE: Final = "tuist.dev/vm"
"""What a Mac's Node offers, and what each macOS Pod asks for: one of the VMs that the Mac may run at a time."""
MACOS_TAINT: Final = "tuist.dev/macos"
"""On the Node of every Mac: only what asks for a Mac comes there."""
RUNTIME_LABEL: Final = "tuist.dev/runtime"
TART: Final = "tart"
"""The value of the label on a Node whose Pods are VMs."""
SOFTNET_LABEL: Final = "tuist.dev/softnet"
"""Of a Mac's Node: `true` where all its VMs run behind Softnet. Dispatch puts two accounts beside each other nowhere else."""
GOLDEN_LABEL: Final = "tuist.dev/golden-"
"""How the labels of a Mac's Node begin that name, by a hash, the images that it holds."""
FLEET_LABEL: Final = "tuist.dev/fleet"
"""On the Nodes of a Mac fleet, and on its objects."""

RUNNER_LABEL: Final = "tuist.dev/runner"
"""`true` on every runner Pod."""
POOL_LABEL: Final = "tuist.dev/runner-pool"
"""The pool's name, on Pod and ServiceAccount. Dispatch trusts the one on the ServiceAccount."""
OWNER_LABEL: Final = "tuist.dev/runner-pool-owner"
"""The assignment: for whom the Pod was claimed. Says "busy" to people and to the pool controller; the ledger is the proof."""
ACCOUNT_LABEL: Final = "tuist.dev/runner-account"
"""The account's id, only after the dispatch was committed."""
