"""What processes say about themselves."""

from collections.abc import Iterable, Sequence

from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.listing import unlisted_zones
from paddock.kube.builtin import Lease
from paddock.views.problem import Problem
from paddock.views.problems.impact import TOLD

__all__ = ["of_processes"]


def of_processes(
    told: Sequence[str],
    hosts: Sequence[ScalewayAppleSiliconHost],
    machines: Sequence[ScalewayAppleSiliconMachine],
    leases: Sequence[Lease],
) -> Iterable[Problem]:
    """What processes say about themselves; of zones that are not listed, what the cluster says where nobody else does."""
    zones = {one.zone: one for one in unlisted_zones(hosts, machines, leases)}
    for sentence in told:
        zone = next((zone for zone in zones if sentence.startswith(f"zone {zone} ")), None)
        yield Problem(TOLD, "paddock", sentence, since=zones.pop(zone).since if zone is not None else None)
    for one in zones.values():
        yield Problem(TOLD, "paddock", one.sentence, since=one.since, commands=("paddock doctor",))
