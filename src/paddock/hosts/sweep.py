"""What the sweep may do about a verdict, and what holds it back. Pure.

Report-only unless a claim-name prefix is set. A reclaim needs: a name that is ours, the same verdict on two sightings in
a row, no owner on an uncached read taken just before, a set of owners that is not suddenly empty, and room under the cap.
When unsure, leak for one more cycle and say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from paddock.hosts.names import CLAIM_PENDING, RELEASE_PENDING
from paddock.hosts.orphans import HostState, Verdict, VerdictReason

__all__ = ["HealLedger", "Leave", "OrphanHistory", "Reclaim", "counts_as_orphan", "judge", "owners_vanished"]

OBSERVATIONS_NEEDED = 2


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Record a release: the host is ours, nobody's, and was so on every look."""

    reason: str


@dataclass(frozen=True, slots=True)
class HealLedger:
    """Take a dead claim off a host that never left the pool: the cloud is not touched."""

    reason: str


@dataclass(frozen=True, slots=True)
class Leave:
    """Do nothing, for this reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class OrphanHistory:
    """How often in a row each server was seen under the same name with the same verdict."""

    seen: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)

    def count(self, server_id: str, name: str, reason: str) -> int:
        before = self.seen.get(server_id)
        return before[2] + 1 if before is not None and before[:2] == (name, reason) else 1


def counts_as_orphan(verdict: Verdict) -> bool:
    """Whether the gauge counts it: everything that no machine owns and that is neither free nor on its way."""
    return verdict.state in (HostState.ORPHANED, HostState.FOREIGN)


def owners_vanished(before: int, now: int) -> bool:
    """Whether the set of owners is suddenly empty, which looks more like a failed read than like a deleted fleet."""
    return before > 0 and now == 0


def judge(name: str, verdict: Verdict, observations: int, claim_name_prefix: str) -> Reclaim | HealLedger | Leave:
    """What may be done about one host, brakes for the whole cycle aside."""
    if verdict.reason is VerdictReason.DEAD_CLAIM:
        if observations < OBSERVATIONS_NEEDED:
            return Leave(f"seen once; the dead claim is taken back after {OBSERVATIONS_NEEDED} sightings")
        return HealLedger(verdict.message)
    unrecorded = verdict.reason in (VerdictReason.CLAIM_PENDING, VerdictReason.RELEASE_PENDING)
    if verdict.state is not HostState.ORPHANED and not unrecorded:
        return Leave(verdict.message)
    if not claim_name_prefix:
        return Leave("reported only: --orphan-reclaim-claim-name-prefix is not set")
    if not name.startswith((claim_name_prefix, CLAIM_PENDING, RELEASE_PENDING)):
        return Leave(f"the name does not start with {claim_name_prefix}")
    if observations < OBSERVATIONS_NEEDED:
        return Leave(f"seen {observations} of {OBSERVATIONS_NEEDED} times; reclaimed if the next look shows the same")
    return Reclaim(verdict.message)
