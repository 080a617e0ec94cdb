"""Whether requests may come to a dispatch process, and whether it lives. Pure."""

from collections.abc import Sequence
from typing import Final

from paddock.kube.manager import HealthProbes
from paddock.runners.http.concern import Concern

__all__ = ["READY_WITHOUT_STORE_AFTER", "liveness", "readiness"]

READY_WITHOUT_STORE_AFTER: Final = 60.0
"""Seconds. GitHub does not deliver again by itself what is answered 503, so a new replica leaves webhooks to the others for as
long as a database usually takes; longer it may not, because what needs no store is served by this process, too."""


def readiness(*, stopping: bool, caches: Sequence[str], unopened: bool, alive_for: float) -> HealthProbes:
    """`caches`: those that are not complete; `unopened`: the store was not open yet; `alive_for`: seconds since the start.

    Once ready, a process stays so without a store: what needs one answers 503. Not ready any more once it is told to stop, so
    that Pods ask elsewhere.
    """
    if stopping:
        return HealthProbes(False, "stopping")
    if caches:
        return HealthProbes(False, "\n".join(caches))
    if not unopened:
        return HealthProbes(True)
    if alive_for < READY_WITHOUT_STORE_AFTER:
        left = READY_WITHOUT_STORE_AFTER - alive_for
        return HealthProbes(False, f"the ledger is not open yet; ready without it in {left:.0f} s")
    return HealthProbes(True, "ok, without the ledger: what needs it answers 503")


def liveness(concerns: Sequence[Concern]) -> HealthProbes:
    """What stops claims is named, and is no reason to start the process again: that would not mend it."""
    return HealthProbes(True, "\n".join(one.found for one in concerns if one.weight == "stops") or "ok")
