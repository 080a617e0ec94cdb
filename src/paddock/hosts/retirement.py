"""When a Mac is given back to the cloud for good: on a person's request, or because it was quarantined too often. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.base.explanation import utc
from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.hosts.orphans import HostState
from paddock.hosts.release import RETIRED

__all__ = ["AT_ONCE", "RetireHost", "WaitToRetire", "policy_reason", "retire_step", "retiring", "set_aside"]

Host = ScalewayAppleSiliconHost
AT_ONCE: Final = 1
"""So many of a zone may be on their way to the cloud at once: a mistake costs one Mac, not a pool."""
APART: Final = timedelta(hours=1)
"""And so long after the last one began the next may: time to notice, and to take the request back."""


@dataclass(frozen=True, slots=True)
class RetireHost:
    """Record a release that terminates it."""

    message: str


@dataclass(frozen=True, slots=True)
class WaitToRetire:
    """It is to be retired, and stays for now; the message says for what it waits."""

    message: str


def policy_reason(quarantines: int, allowed: int) -> str:
    """Why the policy retires a host that was quarantined so often; empty where it does not. `allowed` 0 turns it off."""
    if not allowed or quarantines < allowed:
        return ""
    return f"it was quarantined {quarantines} times, and --retire-after-quarantines allows {allowed - 1}"


def retiring(host: Host) -> bool:
    """Whether the host is on its way to the cloud because it was retired."""
    return host.spec.release is not None and host.spec.release.reason == RETIRED


def set_aside(host: Host) -> str:
    """What a person, or a policy, decided about the host beside its life: `retiring` or `quarantined`; empty where nothing."""
    if host.spec.retire:
        return "retiring"
    return "quarantined" if host.spec.quarantine else ""


def retire_step(
    host: Host, others: Iterable[Host], last: datetime | None, now: datetime
) -> RetireHost | WaitToRetire | None:
    """What to do about a host that is to be retired; None where that is not asked, or it is on its way already.

    Only a host that is free and wiped goes by itself. One that a machine has is terminated when that gives it back: nobody
    is put out for it. `others` are all hosts that are known, `last` is when a retirement last began.
    """
    if not host.spec.retire or host.spec.release is not None:
        return None
    if host.spec.claim is not None:
        return WaitToRetire(f"it goes when machine {host.spec.claim.machine_name} gives it back")
    if host.status.state != HostState.POOLED:
        return WaitToRetire(
            f"it is {host.status.state or 'not judged yet'}: only a host that lies in the pool is retired"
        )
    floor = host.status.deletable_at
    if floor is None or now < floor:
        until = f"{utc(floor)}" if floor is not None else "a time that the cloud has not said yet"
        return WaitToRetire(f"its billing floor lasts until {until}: before that it would be paid for all the same")
    under_way = [each for each in others if each.spec.zone == host.spec.zone and retiring(each)]
    if len(under_way) >= AT_ONCE:
        return WaitToRetire(f"host {under_way[0].metadata.name} goes first: {AT_ONCE} at a time in a zone")
    if last is not None and now - last < APART:
        return WaitToRetire(f"the last one went at {utc(last)}, and they go an hour apart")
    return RetireHost(f"retired: {host.spec.retire}")
