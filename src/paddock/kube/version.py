"""The one Kubernetes version that Paddock names: what its embedded API says it is, and what its Nodes say of their kubelet.

A kubelet may not be newer than its API server, so the two cannot be chosen apart.
"""

from typing import Final

__all__ = ["KUBERNETES"]

KUBERNETES: Final = "v1.34.0"
