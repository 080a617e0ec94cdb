"""The life of one machine: what its spec gets wrong, whether its host is still its own, what a deletion must do. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from paddock.clients.scaleway import Server
from paddock.clients.scaleway.os_family import OSPinNotFamily, family_key, require_family
from paddock.hosts import names
from paddock.hosts.api import HostClaim, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.claim import claim_marker

__all__ = [
    "KNOWN_ZONES",
    "RELEASE_POLICY",
    "BadInput",
    "KeepBinding",
    "LetGo",
    "NotVerifiedYet",
    "Ownership",
    "RecordRelease",
    "RenameAgain",
    "SkipRelease",
    "Verified",
    "WaitForInventory",
    "WriteMissingClaim",
    "bad_input",
    "ending",
    "ownership",
    "provider_id",
    "server_in",
    "verification",
]

RELEASE_POLICY = "tuist.dev/release-policy"
KNOWN_ZONES = ("fr-par-1", "fr-par-3")
_PROVIDER = "scw-applesilicon://"


@dataclass(frozen=True, slots=True)
class BadInput:
    """Something in the spec that no retry can mend: what it is, and what to write instead."""

    reason: str
    message: str


def bad_input(
    machine: ScalewayAppleSiliconMachine,
    pool_prefix: str,
    *,
    zones: Collection[str],
    types: Collection[str] | None = None,
    families: Mapping[str, str] | None = None,
) -> BadInput | None:
    """What is wrong with a machine's spec, before any call to the cloud.

    `types` and `families` (by their comparable form) are None while they are not known.
    """
    spec = machine.spec
    if len(machine.metadata.name) > names.LONGEST_NAME:
        return BadInput(
            "NameTooLong",
            f"metadata.name has {len(machine.metadata.name)} characters and becomes the host's name, which may have "
            f"{names.LONGEST_NAME}: use a shorter name for the fleet",
        )
    if names.kind_of(machine.metadata.name, pool_prefix) is not names.NameKind.OTHER:
        return BadInput(
            "NameReserved", f"metadata.name {machine.metadata.name} starts like a pool or marker name: use another name"
        )
    if spec.zone not in zones:
        return BadInput("UnknownZone", f"spec.zone {spec.zone!r} has no Macs: use one of {', '.join(sorted(zones))}")
    try:
        require_family(spec.os)
    except OSPinNotFamily as problem:
        return BadInput("InvalidOSPin", f"spec.os: {problem}")
    if families is not None and family_key(spec.os) not in families:
        known = ", ".join(sorted(set(families.values())))
        return BadInput("UnknownOS", f"spec.os {spec.os!r} is not published in {spec.zone}: use one of {known}")
    if types is not None and spec.type not in types:
        return BadInput(
            "UnknownType",
            f"spec.type {spec.type!r} is not rented out in {spec.zone}: use one of {', '.join(sorted(types))}",
        )
    problem = names.problem_with_prefix(pool_prefix)
    if problem:
        return BadInput("InvalidPoolPrefix", f"spec.adoptPoolPrefix: {problem}")
    if not pool_prefix and spec.source == "Pool":
        return BadInput(
            "NoAdoptPoolPrefix",
            "neither spec.adoptPoolPrefix nor --default-adopt-pool-prefix is set: set one, such as tuist-pool-",
        )
    return None


# Is the host still ours?


@dataclass(frozen=True, slots=True)
class KeepBinding:
    """The host is ours, by its claim."""


@dataclass(frozen=True, slots=True)
class WaitForInventory:
    """The Host object is not there yet: the next look at the cloud makes it."""

    message: str


@dataclass(frozen=True, slots=True)
class WriteMissingClaim:
    """The machine names this server and the server has its name, but the Host holds no claim: write it down."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LetGo:
    """The host is not this machine's (any more): forget it without touching it."""

    reason: str
    message: str


Ownership = KeepBinding | WaitForInventory | WriteMissingClaim | LetGo


def provider_id(zone: str, server_id: str) -> str:
    """How a server is named in `spec.providerID` of a machine and of its Node."""
    return f"{_PROVIDER}{zone}/{server_id}"


def server_in(provider: str) -> str:
    """The server that a provider id names; empty where it names none."""
    return provider.rpartition("/")[2] if provider.startswith(_PROVIDER) else ""


def _moved(machine: ScalewayAppleSiliconMachine, claim: HostClaim) -> bool:
    """Whether the claim is this machine's under an earlier uid: clusterctl move and restores make new uids.

    Two objects cannot have one name in one namespace, so the earlier one is gone; and only the machine that was bound to
    the server carries its provider id.
    """
    same = (claim.machine_namespace, claim.machine_name) == (machine.metadata.namespace, machine.metadata.name)
    return same and server_in(machine.spec.provider_id) == machine.status.server_id


def ownership(
    machine: ScalewayAppleSiliconMachine,
    host: ScalewayAppleSiliconHost | None,
    rivals: Sequence[ScalewayAppleSiliconMachine],
) -> Ownership:
    """Whose the server is that this machine names. `rivals` are other machines that name the same server.

    Two machines that name one server cannot come from us, but from hands and backups they can: the one whose name the
    cloud shows keeps it, the other lets go.
    """
    server = machine.status.server_id
    if host is None:
        return WaitForInventory(f"the inventory has not seen server {server} yet")
    if host.status.state == "gone":
        return LetGo("HostGone", f"server {server} does not exist any more: another host is claimed")
    claim = host.spec.claim
    if host.spec.release is not None:
        return LetGo(
            "HostReleased", f"the host is being given back: {host.spec.release.message or host.spec.release.reason}"
        )
    if claim is not None and claim.machine_uid == machine.metadata.uid:
        return KeepBinding()
    if claim is not None and _moved(machine, claim):
        return WriteMissingClaim(host.spec.epoch + 1)
    if claim is not None:
        return LetGo(
            "DuplicateClaim",
            f"server {server} belongs to {claim.machine_namespace}/{claim.machine_name}: another host is claimed",
        )
    named = {rival.metadata.name for rival in rivals}
    if host.status.cloud_name != machine.metadata.name:
        if host.status.cloud_name in named:
            return LetGo(
                "DuplicateClaim",
                f"the cloud shows server {server} under the name {host.status.cloud_name}, which is another machine that names it too: another host is claimed",
            )
        return LetGo(
            "HostRenamed",
            f"the cloud shows server {server} under the name {host.status.cloud_name}, which is not ours: another host is claimed",
        )
    return WriteMissingClaim(host.spec.epoch + 1)


@dataclass(frozen=True, slots=True)
class Verified:
    """The name is still ours, and nothing that was sent before can change it any more."""


@dataclass(frozen=True, slots=True)
class NotVerifiedYet:
    """Too early to tell: a rival's late rename can still arrive."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RenameAgain:
    """A late rename of our own brought the claim marker back: give the machine's name again."""

    to: str
    expected: str


def verification(
    machine: ScalewayAppleSiliconMachine, claim: HostClaim, server: Server | None, now: datetime, settle: timedelta
) -> Verified | NotVerifiedYet | RenameAgain | LetGo | None:
    """Whether the claim is proven by the name, read no sooner than `settle` after the last rename.

    None means: it is time, read the server and ask again.
    """
    due = (machine.status.bound_at or now) + settle
    if now < due:
        return NotVerifiedYet((due - now).total_seconds())
    if server is None:
        return None
    if server.name == machine.metadata.name:
        return Verified()
    if server.name == claim_marker(claim):
        return RenameAgain(machine.metadata.name, server.name)
    return LetGo(
        "RivalTookHost",
        f"the cloud shows the name {server.name}: somebody who shares the project took the host, it is not touched",
    )


# What a deletion must do


@dataclass(frozen=True, slots=True)
class RecordRelease:
    """Record on the Host that it is given back; the Host controller does the rest."""

    policy: str
    pool_prefix: str


@dataclass(frozen=True, slots=True)
class SkipRelease:
    """There is nothing that this machine may give back."""

    reason: str
    message: str


def ending(
    machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost | None, default_prefix: str
) -> RecordRelease | SkipRelease | None:
    """What happens to the host of a machine that is deleted; None when it has none.

    Only a host whose claim names this very machine, or which nobody claims while the machine names it, is given back.
    """
    if not machine.status.server_id and not machine.status.claiming:
        return None
    if host is None:
        return SkipRelease(
            "HostUnknown", f"server {machine.status.server_id or machine.status.claiming} is not in the inventory"
        )
    claim = host.spec.claim
    mine = claim is not None and claim.machine_uid == machine.metadata.uid
    legacy = claim is None and bool(machine.status.server_id) and host.status.cloud_name == machine.metadata.name
    ordered = claim is None and bool(machine.status.ordering) and host.status.cloud_name == machine.status.ordering
    if not mine and not legacy and not ordered:
        owner = (
            f"it belongs to {claim.machine_namespace}/{claim.machine_name}"
            if claim
            else f"the cloud shows it under the name {host.status.cloud_name or 'nobody knows'}"
        )
        return SkipRelease("ReleaseSkipped", f"the host is not this machine's to give back: {owner}")
    if host.spec.release is not None:
        return SkipRelease("ReleaseRecorded", "the host is being given back already")
    prefix = machine.spec.adopt_pool_prefix or default_prefix
    terminate = machine.metadata.annotations.get(RELEASE_POLICY) == "terminate" or machine.spec.source == "Order"
    if terminate:
        return RecordRelease("terminate", prefix)
    if not prefix:
        return SkipRelease(
            "ReleaseSkipped",
            "neither spec.adoptPoolPrefix nor --default-adopt-pool-prefix is set, so the host cannot go back to a pool: "
            "it keeps running, and the sweep reports it",
        )
    return RecordRelease("pool", prefix)
