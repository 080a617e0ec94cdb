"""The names of Pods, of what marks them and of what marks Nodes for them."""

import hashlib
import random
from typing import Final

from paddock.base.names import GOLDEN_LABEL

__all__ = [
    "DRAIN_SINCE",
    "LONGEST_POOL_NAME",
    "POOL_UID",
    "REVISION",
    "golden_label",
    "runner_name",
]

REVISION: Final = "tuist.dev/runtime-class-revision"
"""Annotation on pool and Pod: what the RuntimeClass was like. A Pod with another one than its pool's is stale."""
POOL_UID: Final = "tuist.dev/runner-pool-uid"
"""Annotation: the uid of the Pod's pool. No owner reference says so, because garbage collection deletes dependents whatever
they are doing: with their owner, or before it (`--cascade=foreground`), past every finalizer."""
DRAIN_SINCE: Final = "tuist.dev/drain-eligible-since"
"""Annotation: when the Pod was told to drain."""
LONGEST_POOL_NAME: Final = 63
"""A pool's name is the value of a label."""


def runner_name(pool: str, rng: random.Random) -> str:
    """A new name for a Pod and its ServiceAccount: the pool's, and 32 random bits."""
    return f"{pool}-runner-{rng.getrandbits(32):08x}"


def golden_label(image: str) -> str:
    """The label of Nodes that hold this image."""
    return GOLDEN_LABEL + hashlib.sha256(image.encode()).hexdigest()[:16]
