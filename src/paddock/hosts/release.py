"""Giving a host back: the next step of a recorded release (`release_step`). Pure; see docs/design.

The invariant: the pool name is given only after the disk was wiped, and nothing is done to a host whose name, read just
now, is not one of ours. A release is recorded on the Host before its first effect, so that whoever leads next finishes it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid5

from paddock.base.explanation import utc
from paddock.clients.scaleway import Gone, Server, Unknown
from paddock.clients.scaleway.model import REINSTALLING
from paddock.hosts import names
from paddock.hosts.api import HostRelease, ScalewayAppleSiliconHost
from paddock.hosts.claim import claim_marker
from paddock.hosts.names import NameKind, Rename
from paddock.hosts.waits import pause_left, settling_left

__all__ = [
    "ASK_AGAIN_AFTER",
    "FAILED_WIPE_AGAIN_AFTER",
    "GIVEN_UP",
    "LIVES_TO_QUARANTINE",
    "RETIRED",
    "Abandon",
    "Delete",
    "Finish",
    "MarkStarted",
    "Reinstall",
    "ReleaseStep",
    "Remove",
    "Wait",
    "own_names",
    "release_marker",
    "release_step",
]

ASK_AGAIN_AFTER = timedelta(minutes=2)
"""How long the cloud may take to show `reinstalling` after it was asked to reinstall."""


RETIRED_SETTLES = timedelta(minutes=2)
RETIRED = "Retired"
GIVEN_UP = frozenset({"BootstrapExhausted", "HostInTrouble"})
"""Reasons of a release that speak against the host; any other is an ordinary end."""
LIVES_TO_QUARANTINE = 3
"""So many lives that were given up in a row, and the host is put aside for a person to look at."""
FAILED_WIPE_AGAIN_AFTER = timedelta(minutes=10)
"""A wipe that the cloud ended in an error is asked for again after this: nothing else brings such a host back."""
_FAILED = "error"


@dataclass(frozen=True, slots=True)
class Reinstall:
    """Record that the wipe is requested, then ask for it. No machine owns the host, so asking twice costs only time."""

    os_family: str


@dataclass(frozen=True, slots=True)
class MarkStarted:
    """The cloud was seen wiping: remember it, because it is half of the proof."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The disk is wiped and the name is the pool's: clear claim and release; claimable after it has settled."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Give the server back to the cloud for good; under a monthly commitment that takes effect at its anniversary (`then`)."""

    then: datetime | None = None


@dataclass(frozen=True, slots=True)
class Remove:
    """The server does not exist any more: the Host object may go."""


@dataclass(frozen=True, slots=True)
class Abandon:
    """The name is not ours: drop the release without touching the server."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now; `reason` says what is waited for."""

    reason: str
    seconds: float


ReleaseStep = Rename | Reinstall | MarkStarted | Finish | Delete | Remove | Abandon | Wait


def release_marker(host: ScalewayAppleSiliconHost) -> str:
    """The release-pending name of this very release: computed, so that whoever resumes knows it as its own."""
    return names.release_pending_name(str(uuid5(UUID(host.spec.server_id), f"release/{host.spec.epoch}")))


def fresh_pool_name(host: ScalewayAppleSiliconHost, release: HostRelease) -> str:
    """The pool name that ends this release; another one for every release of the host."""
    return names.pool_name(release.pool_prefix, str(uuid5(UUID(host.spec.server_id), f"pool/{host.spec.epoch}")))


def own_names(host: ScalewayAppleSiliconHost, release: HostRelease) -> frozenset[str]:
    """Every name that we may have given this host and that proves that no other user of the project took it since.

    Late renames of a deposed leader can bring an earlier one back, so all of them count, not only the marker.
    """
    ours = {release_marker(host)}
    if release.pool_prefix:
        ours.add(fresh_pool_name(host, release))
    if release.cloud_name:
        ours.add(release.cloud_name)
    if host.spec.claim is not None:
        ours |= {host.spec.claim.machine_name, claim_marker(host.spec.claim)}
    return frozenset(ours)


def release_step(host: ScalewayAppleSiliconHost, server: Server | Gone | Unknown, now: datetime) -> ReleaseStep | None:
    """The next step of the release that is recorded on `host`; None when none is recorded.

    `server` is what a GET showed just now: everything below rests on the name in it.
    """
    release = host.spec.release
    if release is None:
        return None
    if isinstance(server, Gone):
        return Remove()
    if isinstance(server, Unknown):
        return Wait(f"whether the server still exists is not known: {server.reason}", 30)
    pooled = bool(release.pool_prefix) and names.kind_of(server.name, release.pool_prefix) is NameKind.POOLED
    if server.name not in own_names(host, release) and not (pooled and host.spec.claim is not None):
        return Abandon(
            f"the cloud shows the name {server.name}, which is not one of ours: another user of the cloud project took the host"
        )
    if release.policy == "terminate":
        return _terminate(host, release, server, now)
    return _wipe(host, release, server, now)


def _terminate(host: ScalewayAppleSiliconHost, release: HostRelease, server: Server, now: datetime) -> ReleaseStep:
    if server.deletion_scheduled:
        if (end := server.committed_until(now)) is not None:
            return Wait(
                f"the cloud deletes the server by itself when its monthly commitment ends on {utc(end)}",
                3600,
            )
        when = f" on {utc(server.deletable_at)}" if server.deletable_at else ""
        return Wait(f"the cloud deletes the server by itself when its billing floor has passed{when}", 3600)
    if server.name != release_marker(host):
        return Rename(release_marker(host), server.name)
    if server.transient:
        return Wait(f"the cloud says {server.status}; it can be deleted after that", 30)
    if release.reason == RETIRED and (left := settling_left(release.requested_at or now, RETIRED_SETTLES, now)):
        # It lay in a pool that a rival may share: whatever the rival sent before our marker was there arrives before this.
        return Wait("it has our marker; its name is read once more before it is deleted", left.total_seconds())
    return Delete(server.committed_until(now))


def _wipe(host: ScalewayAppleSiliconHost, release: HostRelease, server: Server, now: datetime) -> ReleaseStep:
    wipe = release.wipe
    if server.status == REINSTALLING:
        # Only the operator reinstalls a host of ours, so this is our wipe even if the answer to our request was lost.
        return Wait("the disk is being wiped", 15) if wipe == "started" else MarkStarted()
    if wipe == "started":
        return _after_the_wipe(host, release, server, now)
    if server.transient:
        return Wait(f"the cloud says {server.status}; the wipe can be asked for after that", 15)
    if wipe == "requested" and release.wipe_requested_at is not None:
        pause = FAILED_WIPE_AGAIN_AFTER if server.status == _FAILED else ASK_AGAIN_AFTER
        if left := pause_left(release.wipe_requested_at, pause, now):
            return Wait("the wipe was asked for, and the cloud has not begun", left.total_seconds())
    if server.unwipeable:
        # Set up so after the release was recorded: the marker would not help, and the request would be refused.
        return Wait(server.unwipeable, 600)
    if server.name != release_marker(host):
        return Rename(release_marker(host), server.name)
    return Reinstall(release.os_family)


def _after_the_wipe(host: ScalewayAppleSiliconHost, release: HostRelease, server: Server, now: datetime) -> ReleaseStep:
    if server.status == _FAILED:
        # The host is still nobody's, so asking once more costs only time; never without our marker on it.
        if left := pause_left(release.wipe_requested_at or now, FAILED_WIPE_AGAIN_AFTER, now):
            message = f"the wipe ended in an error of the cloud; it is asked for again at {utc(now + left)}"
            return Wait(message, left.total_seconds())
        marker = release_marker(host)
        return Reinstall(release.os_family) if server.name == marker else Rename(marker, server.name)
    if not server.usable:
        return Wait(f"wiped; the cloud says {server.status}, and it becomes free when it is ready", 15)
    pool_name = fresh_pool_name(host, release)
    return Finish() if server.name == pool_name else Rename(pool_name, server.name)
