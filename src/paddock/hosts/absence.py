"""What follows when complete lists do not show a server that we know. Pure.

Lists alone prove nothing: a key of another project, or a cloud that errs, lists nobody. A server is gone when a read of
itself says so, and what its Host knows of it outlives it for a while, because a server can come back.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.explanation import utc
from paddock.clients.scaleway import Gone, StillThere, Unknown
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.conditions import get_condition

__all__ = ["GONE", "KEPT", "SERVER_GONE", "AbsenceStep", "MarkGone", "NotProven", "RemoveHost", "absence_step", "asks"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine
GONE: Final = "gone"
"""The state of a Host whose server does not exist any more."""
SERVER_GONE: Final = "ServerGone"
KEPT: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class NotProven:
    """The server may well exist: its Host stays as it was last seen, and so do the others that this list does not show."""

    message: str


@dataclass(frozen=True, slots=True)
class MarkGone:
    """Say on the Host that its server is gone, and keep it."""

    message: str


@dataclass(frozen=True, slots=True)
class RemoveHost:
    """The server is gone, and nothing that its Host knows is worth keeping."""


AbsenceStep = NotProven | MarkGone | RemoveHost


def asks(host: Host, claimant: Machine | None, now: datetime) -> bool:
    """Whether the cloud is asked about this host: not where it was answered already, and the Host is kept for now."""
    return host.status.state != GONE or _kept_until(host, claimant, now) is None


def absence_step(
    host: Host, claimant: Machine | None, found: Gone | StillThere | Unknown, now: datetime
) -> AbsenceStep:
    """What to do about a Host that two complete lists in a row did not show. `found` is what the cloud says of the server,
    `claimant` the machine of the claim on the Host, while it exists.
    """
    zone = host.spec.zone
    match found:
        case StillThere():
            return NotProven(
                f"zone {zone} does not list server {host.spec.server_id}, which exists: nothing is concluded from that list"
            )
        case Unknown(reason):
            return NotProven(
                f"zone {zone} does not list server {host.spec.server_id}; whether it exists is not known: {reason}"
            )
        case Gone(listed=0):
            # A deleted server and one that our key may not see are refused alike.
            return NotProven(
                f"zone {zone} shows no server at all, and refuses to show {host.spec.server_id}, as with a key of another "
                "project: nothing is concluded from it; if it was deleted, delete its machine, or its Host where it has none"
            )
        case Gone(evidence):
            until = _kept_until(host, claimant, now)
            if until is None:
                return RemoveHost()
            return MarkGone(f"the server does not exist any more: {evidence}; {until}")


def _kept_until(host: Host, claimant: Machine | None, now: datetime) -> str | None:
    """For what and until when the Host of a server that is gone is kept, as a clause; None where it may go."""
    spec = host.spec
    if claimant is not None and claimant.status.server_id in ("", spec.server_id):
        return f"its record goes when machine {claimant.metadata.name} has another, and it takes this one up should it come back"
    if spec.release is not None:
        return "its record goes with the release that is recorded"
    if spec.ended_jobs:
        return "its record is kept until dispatch has written down which jobs ended with it"
    said = get_condition(host.status.conditions, "Ready")
    marked = host.status.state == GONE and said is not None and said.reason == SERVER_GONE
    since = (said.last_transition_time if marked and said is not None else None) or now
    if spec.not_before is not None and now < spec.not_before:
        return f"its record is kept until {utc(spec.not_before)}, while late calls may arrive"
    remembers = spec.quarantine or spec.retire or host.status.history.failed_lives
    if not remembers or now >= since + KEPT:
        return None
    return f"what is on record of it is kept until {utc(since + KEPT)}, should it come back"
