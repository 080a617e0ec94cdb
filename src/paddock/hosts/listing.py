"""Who says that a zone could not be listed, so that whoever reads the cluster knows it as the operator does."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Lease
from paddock.kube.conditions import get_condition

__all__ = ["LISTED", "UNLISTED_ZONES", "ZONE_NOT_LISTED", "UnlistedZone", "unlisted_zones", "unlisted_zones_note"]

LISTED: Final = "Listed"
"""A condition that is there only while it is False: one Host of a zone carries it."""

ZONE_NOT_LISTED: Final = "ZoneNotListed"
"""The reason of that condition, and of `Ready` on a machine that waits for a host of such a zone."""


UNLISTED_ZONES: Final = "tuist.dev/unlisted-zones"
"""On the operator's Lease, which is there before any object of ours: zone → why it is not listed, as JSON."""
_LONGEST: Final = 500
_MOST: Final = 20


class UnlistedZone(NamedTuple):
    zone: str
    sentence: str
    since: datetime | None


def unlisted_zones_note(problems: Mapping[str, str]) -> str:
    """What stands on the Lease while zones are not listed; empty while all are."""
    shown = {zone: problems[zone][:_LONGEST] for zone in sorted(problems)[:_MOST]}
    return msgspec.json.encode(shown).decode() if shown else ""


def unlisted_zones(
    hosts: Iterable[ScalewayAppleSiliconHost],
    machines: Iterable[ScalewayAppleSiliconMachine],
    leases: Iterable[Lease],
) -> list[UnlistedZone]:
    """The zones of which nothing new is known, each once, with the operator's own words. Where no Host is known yet, as with
    a wrong key on the first day, the machines that wait for one carry it; where there is none of these either, the Lease of
    the operator that leads (`leases`).
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
    for lease in leases:
        for zone, sentence in _noted(lease).items():
            found.setdefault(zone, UnlistedZone(zone, sentence, None))
    return list(found.values())


def _noted(lease: Lease) -> dict[str, str]:
    try:
        return msgspec.json.decode(lease.metadata.annotations.get(UNLISTED_ZONES) or "{}", type=dict[str, str])
    except msgspec.DecodeError:
        return {}  # written by hand: a problem that cannot be read is none
