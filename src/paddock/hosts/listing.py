"""Who says that a zone could not be listed, so that whoever reads the cluster knows it as the operator does."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.conditions import get_condition

__all__ = ["LISTED", "ZONE_NOT_LISTED", "UnlistedZone", "unlisted_zones"]

LISTED: Final = "Listed"
"""A condition that is there only while it is False: one Host of a zone carries it."""

ZONE_NOT_LISTED: Final = "ZoneNotListed"
"""The reason of that condition, and of `Ready` on a machine that waits for a host of such a zone."""


class UnlistedZone(NamedTuple):
    zone: str
    sentence: str
    since: datetime | None


def unlisted_zones(
    hosts: Iterable[ScalewayAppleSiliconHost], machines: Iterable[ScalewayAppleSiliconMachine]
) -> list[UnlistedZone]:
    """The zones of which nothing new is known, each once, with the operator's own words. Where no Host is known yet, as with
    a wrong key on the first day, the machines that wait for one say it.
    """
    found: dict[str, UnlistedZone] = {}
    for host in hosts:
        said = get_condition(host.status.conditions, LISTED)
        if said is not None and said.status == "False":
            zone = host.spec.zone
            found.setdefault(zone, UnlistedZone(zone, said.message, said.last_transition_time))
    for machine in machines:
        said = get_condition(machine.status.conditions, "Ready")
        if said is not None and said.reason == ZONE_NOT_LISTED:
            zone = machine.spec.zone
            found.setdefault(zone, UnlistedZone(zone, said.message, said.last_transition_time))
    return list(found.values())
