"""How many machines a MacFleet should have, and which one goes first. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

__all__ = ["FLEET_LABEL", "Plan", "plan"]

FLEET_LABEL = "tuist.dev/fleet"


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, and the sentence that says so."""

    create: int
    delete: tuple[ScalewayAppleSiliconMachine, ...]
    message: str


def plan(
    fleet: MacFleet,
    machines: Sequence[ScalewayAppleSiliconMachine],
    hosts: Mapping[str, ScalewayAppleSiliconHost],
    now: datetime,
) -> Plan:
    """Machines to make or to delete. `machines` is a complete, fresh list; `hosts` are by name.

    A machine that is being deleted no longer counts: its host is on its way home without it. Scale-down prefers machines
    that are not ready, then those whose host is past its billing floor (it could be given back for good), then the newest.
    """
    living = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
    wanted = fleet.spec.replicas
    ready = sum(machine.status.ready for machine in living)
    if len(living) < wanted:
        missing = wanted - len(living)
        return Plan(missing, (), f"{ready} of {wanted} ready; {missing} more are being made")
    if len(living) > wanted:
        order = sorted(living, key=lambda machine: _goes_first(machine, hosts, now))
        going = tuple(order[: len(living) - wanted])
        return Plan(0, going, f"{ready} ready, {wanted} wanted; {len(going)} are being given back")
    return Plan(0, (), f"{ready} of {wanted} ready")


def _goes_first(
    machine: ScalewayAppleSiliconMachine, hosts: Mapping[str, ScalewayAppleSiliconHost], now: datetime
) -> tuple[bool, bool, float, str]:
    host = hosts.get(machine.status.host_name)
    floor = host.status.deletable_at if host is not None else None
    below_floor = floor is not None and now < floor
    made = machine.metadata.creation_timestamp
    return (machine.status.ready, below_floor, -(made.timestamp() if made else 0.0), machine.metadata.name)
