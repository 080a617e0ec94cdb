"""What the sweep may do about a verdict, and what holds it back. Pure.

Report-only unless a claim-name prefix is set. A reclaim needs: a name of that prefix that this cluster itself gave the
host, the same verdict on two sightings in a row, no owner on an uncached read taken just before, owners that have not
vanished all at once, and room under the cap. When unsure, leak for one more cycle and say so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.names import CLAIM_PENDING, RELEASE_PENDING
from paddock.hosts.orphans import HostState, Verdict, VerdictReason

__all__ = [
    "RECLAIM",
    "HealLedger",
    "Leave",
    "OrphanHistory",
    "Reclaim",
    "confirmed",
    "counts_as_orphan",
    "judge",
    "ours",
    "owners_vanished",
]

RECLAIM: Final = "tuist.dev/reclaim"
"""`true` on a Host: a person has seen that its owner is gone for good, also where all owners vanished at once."""
_MANY: Final = 4
OBSERVATIONS_NEEDED = 2
_MARKERS: Final = (VerdictReason.CLAIM_PENDING, VerdictReason.RELEASE_PENDING)


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Record a release: the host is ours, no machine owns it, and both held on every look."""

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


def counts_as_orphan(verdict: Verdict, observations: int = 1) -> bool:
    """Whether the gauge counts it: everything that no machine owns and that is neither free nor on its way.

    A marker that this cluster has not recorded is a rival's, on its way; one that stays is a leak, whoever's it is.
    """
    if verdict.reason in _MARKERS:
        return observations >= OBSERVATIONS_NEEDED
    return verdict.state in (HostState.ORPHANED, HostState.FOREIGN)


def ours(host: ScalewayAppleSiliconHost | None, name: str) -> bool:
    """Whether this cluster's own ledger says that it gave the host the name which the cloud shows.

    A prefix proves nothing: another cluster of the project, or the one that a move left, gives names that begin alike. Nor
    does a claim of long ago: since then the host lay in a pool that others take from. A marker is another matter: nobody
    works on a host that carries one, and whoever put it there reads the name once more before that changes.
    """
    if host is None:
        return False
    claim = host.spec.claim
    if name.startswith((CLAIM_PENDING, RELEASE_PENDING)):
        return claim is not None or host.spec.epoch > 0 or bool(host.spec.last_machine)
    return bool(name) and name in (claim.machine_name if claim is not None else "", host.spec.last_machine)


def confirmed(host: ScalewayAppleSiliconHost | None) -> bool:
    """Whether a person said that this host may be reclaimed."""
    return host is not None and host.metadata.annotations.get(RECLAIM) == "true"


def owners_vanished(dead: int, held: int, machines: int) -> bool:
    """Whether the machines of claimed hosts are gone in such numbers that a cluster was emptied, moved or restored.

    `dead` are claims whose machine is gone, `held` are those whose machine is there: machines that a fleet made in place of
    vanished ones have no host, and prove nothing. `machines` are all that there are. All are read from what is stored, so that the
    answer is the same in every cycle and after every restart: it changes when machines come back, or when a person
    confirms the hosts one by one.
    """
    return dead > 0 and (machines == 0 or (dead >= _MANY and dead > held))


def judge(
    name: str, verdict: Verdict, observations: int, claim_name_prefix: str, *, given: bool, unwipeable: str = ""
) -> Reclaim | HealLedger | Leave:
    """What may be done about one host, brakes for the whole cycle aside. `given`: this cluster gave the name (`ours`). `unwipeable` is why the cloud cannot wipe it."""
    if verdict.reason is VerdictReason.DEAD_CLAIM:
        if observations < OBSERVATIONS_NEEDED:
            return Leave(f"seen once; the dead claim is taken back after {OBSERVATIONS_NEEDED} sightings")
        return HealLedger(verdict.message)
    if verdict.state is not HostState.ORPHANED and verdict.reason not in _MARKERS:
        return Leave(verdict.message)
    if not claim_name_prefix:
        return Leave("reported only: --orphan-reclaim-claim-name-prefix is not set")
    if unwipeable:
        return Leave(f"left as it is: {unwipeable}")
    if not name.startswith((claim_name_prefix, CLAIM_PENDING, RELEASE_PENDING)):
        return Leave(f"the name does not start with {claim_name_prefix}")
    if not given:
        return Leave(
            "this cluster has no record that it gave the host this name, so it may be another cluster's: "
            "see `paddock adopt --from-names`"
        )
    if observations < OBSERVATIONS_NEEDED:
        return Leave(f"seen {observations} of {OBSERVATIONS_NEEDED} times; reclaimed if the next look shows the same")
    return Reclaim(verdict.message)
