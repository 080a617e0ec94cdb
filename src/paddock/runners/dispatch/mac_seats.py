"""How many jobs one Mac may be given. A Mac that lies spoils its own jobs, and of the queue no more than this."""

from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Final

from paddock.runners.dispatch.neighbours import Neighbour

__all__ = ["LATELY", "SEATS", "crowded"]

SEATS: Final = 2
"""macOS runs two VMs; whatever a Mac says of itself, it has no more."""
LATELY: Final = timedelta(minutes=1)
_FULL: Final = 10.0
_HASTY: Final = 20.0


def crowded(node: str, at_work: AbstractSet[str], alive: AbstractSet[str], lately: int) -> Neighbour | None:
    """Why this Mac gets no job now; None where it may have one.

    `at_work` are the other Pods that it was given a job for, `alive` the Pods that a fresh list shows on it and that have not ended:
    one that is gone, or has ended, holds no seat. `lately` counts the jobs that it took within LATELY.
    """
    working = at_work & alive
    if len(working) >= SEATS:
        why = (
            f"Mac {node} has {len(working)} jobs, which is all that a Mac runs: this Pod asks again when one has ended"
        )
        return Neighbour(why, _FULL, "mac_full")
    if lately >= SEATS:
        why = f"the Mac took {lately} jobs within a minute, one for each of its VMs: this Pod asks again in {_HASTY:.0f} s"
        return Neighbour(why, _HASTY, "mac_hasty")
    return None
