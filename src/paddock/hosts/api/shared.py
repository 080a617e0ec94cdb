"""What the kinds of the host subsystem share: groups, the finalizer, labels of the contract, printed columns."""

from typing import Final

from paddock.base.names import PADDOCK_GROUP
from paddock.kube.resource import Column

__all__ = [
    "AGE",
    "BOOTSTRAPPED",
    "CLUSTER_API_GROUP",
    "CONTRACT_LABELS",
    "FINALIZER",
    "IDENTITY_SINCE",
    "MESSAGE",
    "PADDOCK_GROUP",
    "REASON",
]

CLUSTER_API_GROUP: Final = "infrastructure.cluster.x-k8s.io"
IDENTITY_SINCE: Final = "tuist.dev/node-identity-since"
"""On a Machine: certificates of its node from before this moment belonged to another Mac."""
BOOTSTRAPPED: Final = "tuist.dev/bootstrapped"
"""On a Machine: `<server id>/<configuration>` of its last success. Moves and restores keep it, which lose the status."""
FINALIZER: Final = "scalewayapplesilicon.cluster.x-k8s.io/finalizer"

# Cluster API core looks these up to know which of our versions speaks which contract; clusterctl to know what to move.
CONTRACT_LABELS: Final = {
    "cluster.x-k8s.io/v1beta1": "v1alpha1",
    "cluster.x-k8s.io/v1beta2": "v1alpha1",
    "clusterctl.cluster.x-k8s.io": "",
}
AGE: Final = Column("Age", ".metadata.creationTimestamp", "date", "How long the object exists")
REASON: Final = Column(
    "Why", '.status.conditions[?(@.type=="Ready")].reason', description="Why it is, or is not, ready"
)
MESSAGE: Final = Column(
    "Message", '.status.conditions[?(@.type=="Ready")].message', description="The reason in one sentence", priority=1
)
