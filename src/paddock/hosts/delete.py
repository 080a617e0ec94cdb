"""What the deletion of a machine must do about its host. Pure."""

from dataclasses import dataclass

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

__all__ = [
    "RELEASE_POLICY",
    "Ending",
    "HostUnknown",
    "RecordRelease",
    "SkipRelease",
    "ending",
    "gives_back",
    "may_end_jobs",
    "pool_after",
    "terminates",
]

RELEASE_POLICY = "tuist.dev/release-policy"


@dataclass(frozen=True, slots=True)
class RecordRelease:
    """Record on the Host that it is given back; the Host controller does the rest."""

    policy: str
    pool_prefix: str


@dataclass(frozen=True, slots=True)
class HostUnknown:
    """The inventory does not show the host: it is unseen yet, or gone, and nothing is decided before that is known."""

    message: str


@dataclass(frozen=True, slots=True)
class SkipRelease:
    """There is nothing that this machine may give back."""

    reason: str
    message: str


Ending = RecordRelease | SkipRelease | HostUnknown | None


def pool_after(machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost, default_prefix: str) -> str:
    """The prefix of the pool that the machine's host can go back to; empty where none is set, or it cannot be wiped."""
    return "" if host.status.unwipeable else machine.spec.adopt_pool_prefix or default_prefix


def ending(machine: ScalewayAppleSiliconMachine, host: ScalewayAppleSiliconHost | None, default_prefix: str) -> Ending:
    """What happens to the host of a machine that is deleted; None when it has none.

    Only a host whose claim names this very machine, or which no machine claims while the machine names it, is given back.
    """
    if not machine.status.server_id and not machine.status.claiming:
        return None
    if host is None:
        return HostUnknown(f"server {machine.status.server_id or machine.status.claiming} is not in the inventory")
    claim = host.spec.claim
    named = machine.status.server_id or machine.status.ordering
    if claim is None and host.spec.release is None and named and not host.status.cloud_name:
        # The inventory makes a Host first and writes what it saw after it: a name that is not there yet is nobody else's.
        server = machine.status.server_id or machine.status.claiming
        return HostUnknown(f"the inventory has not said yet under which name the cloud shows server {server}")
    mine = claim is not None and claim.machine_uid == machine.metadata.uid
    legacy = claim is None and bool(machine.status.server_id) and host.status.cloud_name == machine.metadata.name
    ordered = claim is None and bool(machine.status.ordering) and host.status.cloud_name == machine.status.ordering
    if not mine and not legacy and not ordered:
        owner = (
            f"it belongs to {claim.machine_namespace}/{claim.machine_name}"
            if claim
            else f"the cloud shows it under the name {host.status.cloud_name or '(unknown)'}"
        )
        return SkipRelease("ReleaseSkipped", f"the host is not this machine's to give back: {owner}")
    if host.spec.release is not None:
        return SkipRelease("ReleaseRecorded", "the host is being given back already")
    prefix = pool_after(machine, host, default_prefix)
    if terminates(machine):
        return RecordRelease("terminate", prefix)
    if host.status.unwipeable:
        return SkipRelease(
            "ReleaseSkipped", f"the host cannot go back to a pool and keeps running: {host.status.unwipeable}"
        )
    if not prefix:
        return SkipRelease(
            "ReleaseSkipped",
            "neither spec.adoptPoolPrefix nor --default-adopt-pool-prefix is set, so the host cannot go back to a pool: "
            "it keeps running, and the sweep reports it",
        )
    return RecordRelease("pool", prefix)


def terminates(machine: ScalewayAppleSiliconMachine) -> bool:
    """Whether the host of this machine ends with it, however that comes: what was rented for one machine would lie in a pool
    that nobody claims from, and be paid for.
    """
    return machine.metadata.annotations.get(RELEASE_POLICY) == "terminate" or machine.spec.source == "Order"


def may_end_jobs(decided: Ending) -> bool:
    """Whether what was decided could end a job on the Mac, so that the machine must be drained before.

    A host that the operator does not give back loses its Node and its identity, which ends what runs there, too. A release that is
    recorded passed the gate before; a host that is unknown is left alone until it is proven to be gone.
    """
    match decided:
        case HostUnknown():
            return False
        case SkipRelease(reason, _):
            return reason != "ReleaseRecorded"
        case RecordRelease() | None:
            return True


def gives_back(decided: Ending) -> bool:
    """Whether the host is on its way home, so that its Node ends with its disk."""
    return isinstance(decided, RecordRelease) or (
        isinstance(decided, SkipRelease) and decided.reason == "ReleaseRecorded"
    )
