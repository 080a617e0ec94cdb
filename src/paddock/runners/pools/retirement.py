"""What the pool controller asks of the ledger: the contract between the operator's process and the dispatch process.

The controller sees Pods, the ledger sees claims; neither alone knows that a Pod is idle. So the controller never deletes
a Pod that could still win a claim: it asks for a fence first, and deletes what was fenced. The ledger itself is used inside
`paddock up`; over HTTP they are the dispatch process's (`/api/internal/runners/...`).
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from paddock.runners.ledger import Pod, PoolSignals

__all__ = ["RetirementApi", "RetirementUnavailableError"]


class RetirementUnavailableError(Exception):
    """The ledger could not be asked. Nothing changed: keep every Pod and every replica count, and ask again."""


class RetirementApi(Protocol):
    async def signals(self, pool: str) -> PoolSignals:
        """The pool's load, as the autoscaler needs it. Zeros for a pool that nobody has heard of."""
        ...

    async def retire(self, pods: Sequence[Pod], *, why: str) -> frozenset[str]:
        """Fence these Pods; gives the uids that hold no claim and can win none any more, so that they may be deleted.

        A Pod that holds a claim, or was handed a runner and has not ended, is not among them. Repeatable.
        """
        ...

    async def stopped(self, pod: Pod, ended_at: datetime, *, why: str) -> None:
        """The Pod has ended, or is gone: its session, claim and fence end with it.

        Report an ended Pod before its delete, and a retired one only when it is gone: until then the fence is what keeps
        it from winning a job. Repeatable, and harmless for Pods that nobody has heard of.
        """
        ...
