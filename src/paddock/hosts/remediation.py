"""Looking after a host that runs: when its Node is silent, or the cloud says that it is broken. Pure.

Five tiers, each once for each trouble, each with its pause: wait, start the agent anew over SSH, reboot, give the host back
to be wiped; and before them all the cap: when many hosts of a fleet are in trouble at once, it is not the hosts. What would
end a job passes the gate (`paddock.hosts.disruption`), unless the Mac is proven dead.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.clients.scaleway import HealthDetails
from paddock.hosts.api import MachineStatus, Remediation, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Node

__all__ = [
    "DEAD_AFTER",
    "GiveUp",
    "RebootHost",
    "RemediationStep",
    "RestartAgent",
    "Trouble",
    "WaitForHost",
    "next_step",
    "proven_dead",
    "trouble_of",
]

RESTART_AFTER: Final = timedelta(minutes=5)
REBOOT_AFTER: Final = timedelta(minutes=20)
GIVE_UP_AFTER: Final = timedelta(minutes=60)
PAUSE: Final = timedelta(minutes=10)
"""Between two tiers: a Mac that restarts needs some minutes, and so does its agent."""
DEAD_AFTER: Final = timedelta(minutes=30)
_LOOK_AGAIN: Final = 60.0
_BROKEN: Final = frozenset({"error", "locked", "locking"})

Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with a host that runs, and since when. `locked` is the provider's own doing: nothing of ours helps."""

    what: str
    since: datetime
    locked: bool = False


@dataclass(frozen=True, slots=True)
class WaitForHost:
    message: str
    seconds: float = _LOOK_AGAIN


@dataclass(frozen=True, slots=True)
class RestartAgent:
    """Over SSH, and nothing else: safe under running VMs."""

    message: str


@dataclass(frozen=True, slots=True)
class RebootHost:
    message: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Give the host back to be wiped, and claim another."""

    message: str


RemediationStep = WaitForHost | RestartAgent | RebootHost | GiveUp


def trouble_of(
    node: Node | None, host: ScalewayAppleSiliconHost, known: Remediation | None, now: datetime
) -> Trouble | None:
    """What is wrong, or None. A Node that says nothing of its health, or is missing, is no trouble of this kind."""
    status = host.status.cloud_status
    if status in _BROKEN:
        since = known.since if known is not None and known.since is not None else now
        return Trouble(f"the cloud says {status}", since, locked=status != "error")
    said = next((each for each in node.status.conditions if each.type == "Ready"), None) if node is not None else None
    if said is None or said.status == "True":
        return None
    since = said.last_transition_time or (known.since if known is not None else None) or now
    return Trouble(f"its Node is not ready ({said.reason or said.status})", since)


def proven_dead(trouble: Trouble, seen: HealthDetails | None, now: datetime) -> bool:
    """Whether nothing can run there: the Node has been silent for long, and the provider's own look found no live server.

    Silence alone proves nothing, for VMs outlive their agent; nor does a look that did not finish.
    """
    return seen is not None and not seen.is_server_alive and now - trouble.since >= DEAD_AFTER


def next_step(trouble: Trouble, status: MachineStatus, fleet: Iterable[Machine], now: datetime) -> RemediationStep:
    """The next tier for one machine. `fleet` are the machines that share its fleet, itself included."""
    done = status.remediation
    lasts = now - trouble.since
    since = f"since {trouble.since:%Y-%m-%d %H:%M} UTC"
    said = f"{trouble.what}, {since}"
    if trouble.locked:
        return WaitForHost(f"{said}: the provider locked the server, so nothing is tried; ask the provider", 300.0)
    members = list(fleet)
    troubled = sum(machine.status.remediation is not None for machine in members)
    if len(members) >= 4 and 3 * troubled > len(members):
        return WaitForHost(
            f"{said}; {troubled} of {len(members)} machines of its fleet are in trouble, so it is not the hosts: "
            "nothing is rebooted or wiped; look at the network, the API server and the agent"
        )
    tier = done.tier if done is not None else 0
    if done is not None and done.at is not None and now - done.at < PAUSE:
        return WaitForHost(
            f"{said}; {_DONE[tier]} at {done.at:%H:%M} UTC, and it has until {done.at + PAUSE:%H:%M} UTC"
        )
    if tier < 1 and lasts >= RESTART_AFTER:
        return RestartAgent(f"{said}: its agent is started anew, nothing else on the host is touched")
    if tier < 2 and lasts >= REBOOT_AFTER:
        return RebootHost(f"{said}, and a new start of its agent did not help: the host is rebooted once")
    if tier < 3 and lasts >= GIVE_UP_AFTER:
        return GiveUp(
            f"{said}, and neither a new start of its agent nor a reboot helped: the host is given back and wiped"
        )
    due = trouble.since + (RESTART_AFTER, REBOOT_AFTER, GIVE_UP_AFTER, GIVE_UP_AFTER)[tier]
    what = ("its agent is started anew", "it is rebooted", "it is given back", "it is given back")[tier]
    return WaitForHost(f"{said}; {what} after {due:%H:%M} UTC, if that lasts")


_DONE: Final = ("nothing was done", "its agent was started anew", "it was rebooted", "it was given back")
