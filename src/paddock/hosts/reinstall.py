"""Reinstalling a Mac in place: a new disk for the machine that has it. Pure; see docs/design/disruption.md.

The invariant: the cloud is asked only while the server, read just now, has the machine's own name, and its disk counts as
new only after the cloud was seen installing it. Server, claim and name stay; what was on the old disk (host key,
password, identity, Node) ends with it.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.explanation import utc
from paddock.clients.scaleway import Gone, Server, Unknown
from paddock.clients.scaleway.model import REINSTALLING
from paddock.hosts.api import Reinstall, ScalewayAppleSiliconMachine
from paddock.hosts.release import ASK_AGAIN_AFTER, FAILED_WIPE_AGAIN_AFTER
from paddock.hosts.waits import pause_left, settling_left

__all__ = [
    "ASK_AT_MOST",
    "AskForReinstall",
    "GiveHostBack",
    "HostIsNew",
    "InstallBegan",
    "ProveAgain",
    "ReinstallStep",
    "WaitForInstall",
    "reinstall_step",
]

ASK_AT_MOST: Final = 3
_ERROR: Final = "error"

Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class AskForReinstall:
    """Record that the cloud is asked, then ask it. `again` where nothing came of an earlier request."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class InstallBegan:
    """The cloud was seen installing: the old disk is gone, and with it the Node."""


@dataclass(frozen=True, slots=True)
class HostIsNew:
    """The install ended: forget the old disk, and bootstrap."""


@dataclass(frozen=True, slots=True)
class ProveAgain:
    """The name is not the machine's own: nothing is done before the claim is proven anew."""

    message: str


@dataclass(frozen=True, slots=True)
class GiveHostBack:
    """The cloud cannot do it: the host is given back."""

    message: str


@dataclass(frozen=True, slots=True)
class WaitForInstall:
    message: str
    seconds: float


ReinstallStep = AskForReinstall | InstallBegan | HostIsNew | ProveAgain | GiveHostBack | WaitForInstall


def reinstall_step(
    machine: Machine, server: Server | Gone | Unknown, now: datetime, settle: timedelta
) -> ReinstallStep | None:
    """The next step of the reinstall that is recorded on `machine`; None when none is.

    `server` is what a GET showed just now: everything below rests on the name in it. The disk counts as new no sooner than
    `settle` after the last request was decided on: until then a request of a deposed leader can arrive, and wipe it again.
    """
    work = machine.status.reinstall
    if work is None:
        return None
    if isinstance(server, Gone):
        return WaitForInstall("the server does not exist any more: the inventory lets go of it", 30)
    if isinstance(server, Unknown):
        return WaitForInstall(f"whether the server still exists is not known: {server.reason}", 30)
    if server.name != machine.metadata.name:
        return ProveAgain(f"the cloud shows the name {server.name}, which is not this machine's: it is not reinstalled")
    if server.status == REINSTALLING:
        # Only we reinstall a host that has our name, so this is ours even if the answer to our request was lost.
        return WaitForInstall("the cloud installs its new disk", 15) if work.wipe == "started" else InstallBegan()
    if work.wipe == "started" and server.status != _ERROR:
        if not server.usable:
            return WaitForInstall(f"installed; the cloud says {server.status}, and it is set up when it is ready", 15)
        if left := settling_left(work.asked_at or now, settle, now):
            return WaitForInstall("installed; set up when no late request can arrive any more", left.total_seconds())
        return HostIsNew()
    if server.transient:
        return WaitForInstall(f"the cloud says {server.status}; it can be asked after that", 15)
    return _ask(work, server, now)


def _ask(work: Reinstall, server: Server, now: datetime) -> ReinstallStep:
    if not work.wipe:
        return AskForReinstall()
    left = pause_left(work.asked_at or now, _patience(work, server), now)
    failed = work.wipe == "started"
    what = "the install ended in an error of the cloud" if failed else "the cloud was asked, and has not begun"
    if left:
        return WaitForInstall(f"{what}; it is asked again at {utc(now + left)}", left.total_seconds())
    if work.asked >= ASK_AT_MOST:
        return GiveHostBack(f"{what}, after {work.asked} requests")
    return AskForReinstall(again=True)


def _patience(work: Reinstall, server: Server) -> timedelta:
    return FAILED_WIPE_AGAIN_AFTER if work.wipe == "started" or server.status == _ERROR else ASK_AGAIN_AFTER
