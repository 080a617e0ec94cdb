"""How a Host says that its zone could not be listed, so that whoever reads the cluster knows it as the operator does."""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

from paddock.hosts.api import ScalewayAppleSiliconHost
from paddock.kube.conditions import get_condition

__all__ = ["LISTED", "UnlistedZone", "unlisted_zones"]

LISTED: Final = "Listed"
"""A condition that is there only while it is False: one Host of a zone carries it."""


class UnlistedZone(NamedTuple):
    zone: str
    sentence: str
    since: datetime | None


def unlisted_zones(hosts: Iterable[ScalewayAppleSiliconHost]) -> list[UnlistedZone]:
    """The zones whose Hosts are old news, each once, with the operator's own words."""
    found: dict[str, UnlistedZone] = {}
    for host in hosts:
        said = get_condition(host.status.conditions, LISTED)
        if said is not None and said.status == "False":
            zone = host.spec.zone
            found.setdefault(zone, UnlistedZone(zone, said.message, said.last_transition_time))
    return list(found.values())
