"""Claiming a host: which one (`choose`), and the next step towards it (`claim_step`). Pure; see docs/design.

The invariant: a host has at most one claim and a machine reaches for at most one host, because both are written under
the resourceVersion of the object that was judged. Every step below can be repeated by whoever leads next.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from paddock.clients.scaleway import Server
from paddock.clients.scaleway.os_family import family_key
from paddock.hosts import names
from paddock.hosts.absence import GONE
from paddock.hosts.api import HostClaim, MachineSpec, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.first_contact import Refuse, first_contact
from paddock.hosts.names import NameKind, Rename
from paddock.hosts.orphans import HostState

__all__ = [
    "BackOut",
    "Bind",
    "Candidate",
    "ClaimStep",
    "Forget",
    "NoneFits",
    "NotUsableYet",
    "WriteClaim",
    "already_claimed",
    "being_wiped",
    "choose",
    "claim_marker",
    "claim_step",
    "failed_lives",
    "order_marker",
]


_SETTLING: Final = "settling"
"""A host is not claimed at once after its last change, so that a late call of a deposed leader reaches no new tenant."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """The host to reach for."""

    host: ScalewayAppleSiliconHost


@dataclass(frozen=True, slots=True)
class NoneFits:
    """Why no host fits, with counts: "3 pooled: 2 wrong type, 1 reinstalling".

    With `coming` nobody need do anything: so many that fit are on their way into the pool.
    """

    message: str
    coming: int = 0


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """Write the claim on the Host, under the resourceVersion that was judged."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Bind:
    """The name is ours: persist the server's id and addresses on the machine at once."""

    server: Server


@dataclass(frozen=True, slots=True)
class BackOut:
    """Take the claim back without touching the server, and forget the intent."""

    reason: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the intent: the host is not ours and never was."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotUsableYet:
    """The host is ours but not ready: look again later."""

    reason: str


ClaimStep = WriteClaim | Rename | Bind | BackOut | Forget | NotUsableYet


def claim_marker(claim: HostClaim) -> str:
    """The claim-pending name of this very claim."""
    return names.marker_of(claim.machine_uid, claim.epoch)


def already_claimed(
    machine: ScalewayAppleSiliconMachine, hosts: Sequence[ScalewayAppleSiliconHost]
) -> Candidate | None:
    """The host whose claim names this machine already, should the machine have forgotten it.

    A status can be lost (restored from a backup, cleared by hand), and so can a host that only seemed to be gone. Taking
    the claim up again re-binds the host; reaching for another one would leave this one claimed, running and
    unused, which no sweep could tell from a host in use.
    """
    for host in hosts:
        claim = host.spec.claim
        mine = claim is not None and claim.machine_uid == machine.metadata.uid
        if mine and host.spec.release is None and host.status.state != GONE:
            return Candidate(host)
    return None


def order_marker(machine: ScalewayAppleSiliconMachine) -> str:
    """The name under which a machine orders a new server: that of the first claim which it will make on it.

    So a lost answer is found again by name, and the claim that follows knows the host as its own.
    """
    return names.marker_of(machine.metadata.uid, 1)


def choose(
    spec: MachineSpec,
    pool_prefix: str,
    hosts: Sequence[ScalewayAppleSiliconHost],
    intended: frozenset[str],
    now: datetime,
) -> Candidate | NoneFits:
    """The host to claim: the one with the best record, and of these the one that was free longest.

    Hosts that other machines already reach for are passed over. A host that failed before is chosen last, so that bad Macs
    do not rotate through a fleet while good ones lie idle; after all others comes one that showed no SSH key in time, with
    which its machine would wait for a person.
    """
    refusals: Counter[str] = Counter()
    fitting: list[ScalewayAppleSiliconHost] = []
    pooled = settling = 0
    for host in hosts:
        pooled_name = names.kind_of(host.status.cloud_name, pool_prefix) is NameKind.POOLED
        if not pooled_name or host.spec.zone != spec.zone or host.status.state == GONE:
            continue
        pooled += 1
        refusal = _refusal(spec, host, intended, now)
        if refusal:
            refusals[refusal] += 1
            settling += refusal == _SETTLING and not _misfit(spec, host)
        else:
            fitting.append(host)
    if fitting:
        return Candidate(min(fitting, key=lambda host: _comes_last(host, now)))
    wiped = len(being_wiped(spec, hosts))
    said = (
        f"wait: the disk of {wiped} of its type is being wiped, and the first in the pool is claimed" if wiped else ""
    )
    if pooled:
        counts = ", ".join(f"{count} {reason}" for reason, count in refusals.most_common())
        said = f"{pooled} pooled: {counts}"
    return NoneFits(
        said
        or f"no host in zone {spec.zone} has a name that starts with {pool_prefix}: it waits until one is released or rented, or until fewer machines are asked for",
        wiped + settling,
    )


def being_wiped(spec: MachineSpec, hosts: Sequence[ScalewayAppleSiliconHost]) -> list[ScalewayAppleSiliconHost]:
    """Those of its zone and type that a release brings into the pool."""
    return [
        host
        for host in hosts
        if host.spec.zone == spec.zone
        and host.status.type == spec.type
        and host.spec.release is not None
        and host.spec.release.policy == "pool"
        and not host.spec.quarantine
    ]


def failed_lives(host: ScalewayAppleSiliconHost) -> int:
    """In how many lives since its last success this host was given up: what its reputation is."""
    return host.status.history.failed_lives


def _comes_last(host: ScalewayAppleSiliconHost, now: datetime) -> tuple[bool, int, float, str]:
    unknown = isinstance(first_contact(host, now), Refuse)
    return unknown, failed_lives(host), _free_since(host), host.metadata.name


def _free_since(host: ScalewayAppleSiliconHost) -> float:
    return host.spec.not_before.timestamp() if host.spec.not_before else 0.0


def _refusal(spec: MachineSpec, host: ScalewayAppleSiliconHost, intended: frozenset[str], now: datetime) -> str | None:
    """Why this pooled host cannot be claimed by this machine now; None when it can."""
    return _unfree(host, now) or (
        "reached for by another machine" if host.metadata.name in intended else _misfit(spec, host)
    )


def _misfit(spec: MachineSpec, host: ScalewayAppleSiliconHost) -> str | None:
    return _unfit(spec, host.status.type, host.status.os.family, host.status.os.name)


def _unfree(host: ScalewayAppleSiliconHost, now: datetime) -> str | None:
    """Why a host is not free, by the ledger alone."""
    status = host.status
    if host.metadata.deletion_timestamp is not None:
        return "being removed"
    if host.spec.claim is not None:
        return "claimed"
    if host.spec.release is not None:
        return "being given back"
    if host.spec.quarantine:
        return "quarantined"
    if host.spec.retire:
        return "to be retired"
    if status.state != HostState.POOLED:
        return status.state or "not judged yet"
    if status.unwipeable:
        return "set up as Scaleway's own Runner"
    if status.deletion_scheduled:
        return "scheduled for deletion"
    if not status.delivered:
        return "not delivered"
    if status.cloud_status != "ready":
        return status.cloud_status or "without a status"
    if host.spec.not_before is not None and now < host.spec.not_before:
        return _SETTLING
    return None


def _unfit(spec: MachineSpec, server_type: str, os_family: str, os_name: str) -> str | None:
    if server_type != spec.type:
        return "wrong type"
    wanted = family_key(spec.os)
    if not wanted or wanted not in (family_key(os_family), family_key(os_name)):
        return "wrong OS"
    return None


def claim_step(
    machine: ScalewayAppleSiliconMachine,
    host: ScalewayAppleSiliconHost | None,
    server: Server | None,
    pool_prefix: str,
    now: datetime,
) -> ClaimStep | None:
    """The next step of a machine that intends to claim `host`; None means: read the server first, then ask again.

    `server` is what a GET showed just now, never a list or a cache: renaming rests on it.
    """
    if host is None:
        return Forget("the Host object is gone")
    claim = host.spec.claim
    if claim is None and machine.status.ordering and host.status.cloud_name == machine.status.ordering:
        return WriteClaim(host.spec.epoch + 1)  # ordered by this very machine: its name says so
    if claim is None:
        refusal = _unfree(host, now) or _unfit(
            machine.spec, host.status.type, host.status.os.family, host.status.os.name
        )
        return Forget(f"the host is {refusal}") if refusal else WriteClaim(host.spec.epoch + 1)
    if claim.machine_uid != machine.metadata.uid:
        return Forget(f"the host was claimed by {claim.machine_namespace}/{claim.machine_name}")
    if host.spec.release is not None:
        return Forget("the host is being given back")
    if server is None:
        return None
    return _towards(machine, claim, server, pool_prefix)


def _towards(machine: ScalewayAppleSiliconMachine, claim: HostClaim, server: Server, pool_prefix: str) -> ClaimStep:
    """The claim is ours: bring the name to the machine's own, from wherever it is on the way."""
    wanted, marker = machine.metadata.name, claim_marker(claim)
    if server.name == wanted:
        return Bind(server)
    if server.name == marker:
        return Rename(wanted, marker) if server.usable else NotUsableYet(f"the cloud says {server.status}")
    if names.kind_of(server.name, pool_prefix) is not NameKind.POOLED:
        return BackOut(f"the cloud shows the name {server.name}: another user of the cloud project took the host")
    if not server.usable:
        return BackOut(f"the cloud says {server.status}: it is no longer usable")
    if server.unwipeable:
        return BackOut(server.unwipeable)
    unfit = _unfit(
        machine.spec, server.type, server.os.family if server.os else "", server.os.name if server.os else ""
    )
    return BackOut(f"the host is of the {unfit}") if unfit else Rename(marker, server.name)
