"""Looking after a host that runs: when its Node is silent, the cloud says that it is broken, or a MachineHealthCheck asks. Pure.

After waiting, five tiers, each once for each trouble, each with its pause: start the agent anew over SSH, reboot over SSH,
reboot by the cloud, reinstall in place, give the host back to be wiped. Before them all is the cap: when many hosts of a
fleet are in trouble at once, it is not the hosts; and only one of a fleet is disrupted at a time. What would end a job
passes the gate (`paddock.hosts.disruption`), unless the Mac is proven dead.

A Mac without a console session has one tier more, between the first and the reboots: its user is logged in anew, again and
again, because a Mac in a rack does not do so by itself after any start. Where nobody works that costs nothing, so no cap holds it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from paddock.base.explanation import utc
from paddock.base.failing_mac import jobs_fail
from paddock.clients.scaleway import HealthDetails
from paddock.hosts.api import Remediation, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node, NodeCondition

__all__ = [
    "AFTER",
    "DEAD_AFTER",
    "GIVE_BACK",
    "KICK_SESSION",
    "ORDER",
    "REBOOT",
    "REINSTALL",
    "RESTART",
    "SOFT_REBOOT",
    "STRATEGIES",
    "Asked",
    "GiveUp",
    "KickSession",
    "RebootHost",
    "ReinstallInPlace",
    "RemediationStep",
    "RestartAgent",
    "SoftReboot",
    "Trouble",
    "WaitForHost",
    "next_step",
    "proven_dead",
    "rank",
    "reboot_may_come",
    "told",
    "tried",
    "trouble_of",
    "with_power",
]

RESTART, SOFT_REBOOT, REBOOT, REINSTALL, GIVE_BACK, KICK_SESSION = 1, 2, 3, 4, 5, 6
"""Stored as `status.remediation.tier`, so that none is ever renumbered; which comes first says `ORDER` alone."""
ORDER: Final = (RESTART, KICK_SESSION, SOFT_REBOOT, REBOOT, REINSTALL, GIVE_BACK)
AFTER: Final = {
    RESTART: timedelta(minutes=5),
    KICK_SESSION: timedelta(seconds=30),
    SOFT_REBOOT: timedelta(minutes=15),
    REBOOT: timedelta(minutes=25),
    REINSTALL: timedelta(minutes=60),
    GIVE_BACK: timedelta(minutes=90),
}
"""Not before the trouble has lasted so long."""
PAUSE: Final = timedelta(minutes=10)
"""Between two tiers: a Mac that restarts needs some minutes, and so does its agent."""
PAUSE_AFTER_REINSTALL: Final = timedelta(minutes=30)
KICK_EVERY: Final = timedelta(minutes=5)
"""Also after any other tier: each start of the Mac loses the session again."""
REBOOT_SETTLES: Final = timedelta(minutes=3)
"""A reboot that was asked for may begin a minute later, and a request of a deposed leader arrive later still."""
DEAD_AFTER: Final = timedelta(minutes=30)
STRATEGIES: Final = {"RestartAgent": RESTART, "Reboot": REBOOT, "Reinstall": REINSTALL, "Replace": GIVE_BACK}
"""The last tier of each strategy of a `ScalewayAppleSiliconRemediation`."""
_LOOK_AGAIN: Final = 60.0
_BROKEN: Final = frozenset({"error", "locked", "locking"})
_NO_SESSION: Final = "NoSession"
_EGRESS_OPEN: Final = "EgressOpen"
_DID: Final = {
    RESTART: "its agent was started anew",
    KICK_SESSION: "its user was logged in anew",
    SOFT_REBOOT: "it was rebooted over SSH",
    REBOOT: "it was rebooted by the cloud",
    REINSTALL: "it was reinstalled in place",
    GIVE_BACK: "it was given back",
}
_WILL: Final = {
    RESTART: "its agent is started anew",
    KICK_SESSION: "its user is logged in anew",
    SOFT_REBOOT: "it is rebooted over SSH",
    REBOOT: "it is rebooted by the cloud",
    REINSTALL: "it is reinstalled in place",
    GIVE_BACK: "it is given back and wiped",
}

Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a host that runs, and since when. `locked` is the provider's own doing: nothing of ours helps.

    `first` and `last` are the tiers that can help. What is not `urgent` costs no job yet, so that the machine stays ready.
    Where its agent reports the trouble, or none (`heard`), no diagnosis proves the Mac dead. Where waiting cannot help (`at_once`),
    the first tier comes as soon as nobody works there.
    """

    what: str
    since: datetime
    locked: bool = False
    first: int = RESTART
    last: int = GIVE_BACK
    urgent: bool = True
    heard: bool = False
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """A MachineHealthCheck asks for remediation: since when, what it says, and how far the tiers may go."""

    since: datetime
    why: str = ""
    last: int = GIVE_BACK


@dataclass(frozen=True, slots=True)
class WaitForHost:
    """Nothing may be done now; `exhausted` says that nothing more is done by itself."""

    message: str
    seconds: float = _LOOK_AGAIN
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class RestartAgent:
    """Over SSH, and nothing else: safe under running VMs."""

    message: str


@dataclass(frozen=True, slots=True)
class KickSession:
    """Over SSH: the user is logged in anew, which would end every VM."""

    message: str


@dataclass(frozen=True, slots=True)
class SoftReboot:
    """Over SSH: macOS ends what runs in order. Only a Mac that answers can do it."""

    message: str


@dataclass(frozen=True, slots=True)
class RebootHost:
    """By the cloud, which needs no word of the Mac."""

    message: str


@dataclass(frozen=True, slots=True)
class ReinstallInPlace:
    """A new disk for the same machine: server, claim and name stay."""

    message: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Give the host back to be wiped, and claim another."""

    message: str


RemediationStep = WaitForHost | RestartAgent | KickSession | SoftReboot | RebootHost | ReinstallInPlace | GiveUp
_STEPS: Final = {
    RESTART: RestartAgent,
    SOFT_REBOOT: SoftReboot,
    REBOOT: RebootHost,
    REINSTALL: ReinstallInPlace,
    GIVE_BACK: GiveUp,
}


def trouble_of(
    node: Node | None,
    host: ScalewayAppleSiliconHost,
    known: Remediation | None,
    now: datetime,
    *,
    missing: bool = False,
    asked: Asked | None = None,
) -> Trouble | None:
    """What is wrong, or None. A Node that says nothing of its health is no trouble; nor is one that is not expected yet.

    `missing` says that there should be a Node, and has not been one for longer than a new start of an agent takes.
    What is `asked` for is one more trouble; what we see ourselves comes first, with the limit of what is asked. Alone it
    leaves the machine ready: it would otherwise keep alive the very condition by which a health check may judge it.
    """
    seen = _seen(node, host, known, now, missing=missing)
    if asked is None:
        return seen
    if seen is not None and seen.urgent:
        return replace(seen, last=min(seen.last, asked.last, key=rank))
    what = "a MachineHealthCheck asks for remediation" + (f" ({asked.why})" if asked.why else "")
    return Trouble(what, asked.since, last=asked.last, urgent=False, heard=True)


def _seen(
    node: Node | None, host: ScalewayAppleSiliconHost, known: Remediation | None, now: datetime, *, missing: bool
) -> Trouble | None:
    since = known.since if known is not None and known.since is not None else now
    status = host.status.cloud_status
    if status in _BROKEN:
        return Trouble(f"the cloud says {status}", since, locked=status != "error")
    if node is None:
        return Trouble("its Node is missing", since) if missing else None
    said = {each.type: each for each in node.status.conditions}
    ready = said.get("Ready")
    if ready is not None and ready.status != "True":
        # An agent that reports why no VM may start is well itself.
        first = {_NO_SESSION: KICK_SESSION, _EGRESS_OPEN: SOFT_REBOOT}.get(ready.reason, RESTART)
        what = f"its Node is not ready ({ready.reason or ready.status})"
        return Trouble(what, _turned(ready, since), first=first, heard=first != RESTART)
    if (leaked := said.get("VMSlotsLeaked")) is not None and leaked.status == "True":
        what = "macOS counts VMs there that are gone (VMSlotsLeaked)"
        # Only a boot gives a seat back, and a new disk gives back no more than that.
        return Trouble(what, _turned(leaked, since), first=SOFT_REBOOT, last=REBOOT, heard=True, at_once=True)
    if (mark := jobs_fail(node.metadata.annotations, node.status.node_info)) is not None:
        # The runners cannot do more than to keep jobs off; what breaks the network of all VMs of a Mac goes with a boot.
        what = f"jobs fail at once there: {mark.sentence}"
        return Trouble(what, mark.at, first=SOFT_REBOOT, last=REBOOT, heard=True, at_once=True)
    if (long := said.get("LongUptime")) is not None and long.status == "True":
        what = f"it has been up for too long (LongUptime: {long.message or long.reason})"
        return Trouble(what, _turned(long, since), first=SOFT_REBOOT, last=REBOOT, urgent=False, heard=True)
    return None


def proven_dead(trouble: Trouble, seen: HealthDetails | None, now: datetime) -> bool:
    """Whether nothing can run there: the Node has been silent for long, and the provider's own look found no live server.

    Silence alone proves nothing, for VMs outlive their agent; nor does a look that did not finish, nor one that an agent
    contradicts which reports.
    """
    return not trouble.heard and seen is not None and not seen.is_server_alive and now - trouble.since >= DEAD_AFTER


def with_power(tier: int, seen: HealthDetails | None) -> int:
    """The tier that is performed: a Mac whose SSH the provider's look found down cannot be asked to reboot itself."""
    return REBOOT if tier == SOFT_REBOOT and seen is not None and not seen.is_ssh_port_up else tier


def rank(tier: int) -> int:
    """How far along the tiers one is; before all of them where none was tried."""
    return ORDER.index(tier) if tier in ORDER else -1


def next_step(
    trouble: Trouble,
    machine: Machine,
    fleet: Iterable[Machine],
    now: datetime,
    *,
    halted: str = "",
    unwipeable: str = "",
) -> RemediationStep:
    """The next tier for one machine. `fleet` are the machines that share its fleet, itself included.

    `unwipeable` is why the cloud cannot wipe the host. `halted` is why the fleet's bootstraps are stopped: then no host is wiped either, for it could not be set up again.
    """
    done = machine.status.remediation or Remediation()
    said = told(trouble, done)
    if trouble.locked:
        return WaitForHost(f"{said}: the provider locked the server, so nothing is tried; ask the provider", 300.0)
    step = _climb(trouble, said, machine, done, fleet, now, halted=halted, unwipeable=unwipeable)
    kick = _next_kick(trouble, done)
    if kick is None or not isinstance(step, WaitForHost):
        return step
    if now >= kick:
        return KickSession(f"{said}: {_WILL[KICK_SESSION]}")
    seconds = min(_LOOK_AGAIN, max((kick - now).total_seconds(), 1.0))
    return WaitForHost(f"{said}; next: {_WILL[KICK_SESSION]} after {utc(kick)}, if that lasts", seconds)


def _next_kick(trouble: Trouble, done: Remediation) -> datetime | None:
    """When the user is logged in anew, between the other tiers; None where that cannot help, or must not be done."""
    if trouble.first != KICK_SESSION or rank(trouble.last) < rank(KICK_SESSION):
        return None
    before = [each.at for each in done.tried if each.at is not None and each.tier == KICK_SESSION]
    rest = [at + KICK_EVERY for at in (*before, done.at) if at is not None]
    return max((trouble.since + AFTER[KICK_SESSION], *rest))


def _climb(
    trouble: Trouble,
    said: str,
    machine: Machine,
    done: Remediation,
    fleet: Iterable[Machine],
    now: datetime,
    *,
    halted: str,
    unwipeable: str,
) -> RemediationStep:
    """The next of the tiers that happen once."""
    members = list(fleet)
    troubled = sum(member.status.remediation is not None for member in members)
    if len(members) >= 4 and 3 * troubled > len(members):
        return WaitForHost(
            f"{said}; {troubled} of {len(members)} machines of its fleet are in trouble, so it is not the hosts: "
            "nothing is rebooted or wiped; look at the network, the API server and the agent"
        )
    # The last one is repeated: it is over when the host is gone, and we may have died before that was recorded.
    least = max(rank(done.tier) + 1, rank(trouble.first))
    tier = next((each for each in ORDER[least:] if each != KICK_SESSION), GIVE_BACK)
    if rank(tier) >= rank(REINSTALL) and unwipeable:
        return WaitForHost(f"{said}; nothing more is tried by itself: {unwipeable}", 300.0, True)
    if tier == REINSTALL and machine.status.reinstalled_at is not None:
        tier = GIVE_BACK  # once for each claim: a disk that did not help once does not help twice
    if rank(tier) > rank(trouble.last):
        return WaitForHost(f"{said}; nothing more is tried by itself: a person has to look at the Mac", 300.0, True)
    due = trouble.since if trouble.at_once and tier == trouble.first else trouble.since + AFTER[tier]
    if done.at is not None:
        due = max(due, done.at + (PAUSE_AFTER_REINSTALL if done.tier == REINSTALL else PAUSE))
    if now < due:
        return WaitForHost(f"{said}; next: {_WILL[tier]} after {utc(due)}, if that lasts")
    if rank(tier) >= rank(REINSTALL) and halted:
        return WaitForHost(f"{said}; next: {_WILL[tier]}, which waits because the fleet is halted: {halted}")
    if rank(tier) >= rank(SOFT_REBOOT) and (other := _disrupted(machine, members, now)):
        return WaitForHost(f"{said}; next: {_WILL[tier]}, after machine {other} of its fleet: one at a time")
    return _STEPS[tier](f"{said}: {_WILL[tier]}")


def reboot_may_come(known: Remediation, now: datetime) -> bool:
    """Whether a reboot that was asked for may still come: until then a Mac that looks well takes no work."""
    return known.tier in (SOFT_REBOOT, REBOOT) and known.at is not None and now - known.at < REBOOT_SETTLES


def told(trouble: Trouble, done: Remediation) -> str:
    """What is wrong, since when, and what was tried."""
    return f"{trouble.what}, since {utc(trouble.since)}{tried(done)}"


def tried(done: Remediation) -> str:
    """The end of a sentence that says which tiers were tried, and when; empty where none was."""
    each = [
        f"{_DID[attempt.tier]} at {utc(attempt.at)}" + (f" ({attempt.note})" if attempt.note else "")
        for attempt in done.tried
        if attempt.at is not None and attempt.tier in _DID
    ]
    return f"; tried: {', '.join(each)}" if each else ""


def _disrupted(machine: Machine, members: Iterable[Machine], now: datetime) -> str:
    """The name of another machine of the fleet whose Mac is being rebooted or reinstalled now; empty where there is none."""
    for member in members:
        done, mine = member.status.remediation, member.metadata.uid == machine.metadata.uid
        if mine or done is None:
            continue
        rebooting = done.tier in (SOFT_REBOOT, REBOOT) and done.at is not None and now - done.at < PAUSE
        if rebooting or member.status.reinstall is not None:
            return member.metadata.name
    return ""


def _turned(said: NodeCondition, since: datetime) -> datetime:
    return said.last_transition_time or since
