"""How many machines a MacFleet should have, and which one goes first. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine

__all__ = ["FleetPlan", "outdated", "plan"]

_AT_A_TIME: Final = 10
"""Machines of a fleet that may be without a host at once: more would only wait in line, or be a slip of the finger."""
_ORDERED_AT_A_TIME: Final = 3
"""The same where each rents a Mac, which is paid for a day."""
_LONG: Final = timedelta(minutes=1)
"""A machine that waits for longer than this waits because there is no host for it."""
_LONG_ORDERED: Final = timedelta(hours=1)
"""The same where a Mac was ordered, which takes its time to be delivered."""


_OF_TEMPLATE: Final = (
    *("type", "zone", "os", "source", "adopt_pool_prefix", "host_cpu", "host_memory_mb", "drain_timeout_seconds"),
)


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What to do now, and the sentence that says so. `short` means that hosts are missing; `growing`, that more follows."""

    create: int
    delete: tuple[ScalewayAppleSiliconMachine, ...]
    message: str
    growing: bool = False
    short: bool = False


def plan(
    fleet: MacFleet,
    machines: Sequence[ScalewayAppleSiliconMachine],
    hosts: Mapping[str, ScalewayAppleSiliconHost],
    now: datetime,
    jobs: Mapping[str, int] | None = None,
    *,
    impossible: str = "",
) -> FleetPlan:
    """Machines to make or to delete. `machines` is a complete, fresh list; `hosts` and `jobs` are by name.

    A machine that is being deleted no longer counts: its host is on its way home without it. Scale-down takes no machine
    that works while there is one that does not, and of those that do the one with the fewest jobs. It prefers machines that
    are not ready, then those whose host is past its billing floor (it could be given back for good), then the newest.
    A changed template replaces machines only where the fleet says so, and then one at a time; none where it is
    `impossible`, which says why no machine of it could work.
    A fleet grows as its machines get hosts: a wrong number costs at most the free hosts and ten machines that wait.
    """
    living = [machine for machine in machines if machine.metadata.deletion_timestamp is None]
    wanted = fleet.spec.replicas
    ready = sum(machine.status.ready for machine in living)
    if len(living) < wanted:
        return _growth(fleet, living, f"{ready} of {wanted} ready", now)
    if len(living) > wanted:
        at_work = jobs or {}
        order = sorted(living, key=lambda machine: _goes_first(machine, hosts, at_work, now))
        going = tuple(order[: len(living) - wanted])
        busy = sum(at_work.get(machine.metadata.name, 0) > 0 for machine in going)
        after = f", {busy} of them when their jobs have ended" if busy else ""
        return FleetPlan(0, going, f"{ready} ready, {wanted} wanted; {len(going)} are being given back{after}")
    return _roll(fleet, machines, living, hosts, jobs or {}, now, f"{ready} of {wanted} ready", impossible)


def outdated(fleet: MacFleet, machine: ScalewayAppleSiliconMachine) -> bool:
    """Whether the machine was made from another template than the fleet has now."""
    template, spec = fleet.spec.template.spec, machine.spec
    return any(getattr(template, name) != getattr(spec, name) for name in _OF_TEMPLATE)


def _roll(
    fleet: MacFleet,
    machines: Sequence[ScalewayAppleSiliconMachine],
    living: Sequence[ScalewayAppleSiliconMachine],
    hosts: Mapping[str, ScalewayAppleSiliconHost],
    jobs: Mapping[str, int],
    now: datetime,
    said: str,
    impossible: str,
) -> FleetPlan:
    """The next step of a changed template: none but a word, or one machine, when all others are well and nobody is on the way.

    A template that cannot work costs nothing where that can be told from it, and otherwise one machine; the sentence says
    what is waited for.
    """
    old = [machine for machine in living if outdated(fleet, machine)]
    if not old:
        return FleetPlan(0, (), said)
    of_old = f"{said}; {len(old)} of an older template"
    if impossible:
        return FleetPlan(0, (), f"{of_old} stay as they are, because the template of now cannot work: {impossible}")
    if fleet.spec.strategy == "OnDelete":
        advice = "delete them when it suits, or set spec.strategy to RollingUpdate"
        return FleetPlan(0, (), f"{of_old} stay as they are: {advice}")
    leaving = len(machines) - len(living)
    unready = [machine for machine in living if not machine.status.ready and not outdated(fleet, machine)]
    if leaving or unready:
        waits = f"{leaving} to be given back" if leaving else f"{unready[0].metadata.name} to be ready"
        return FleetPlan(0, (), f"{of_old} are replaced one after the other; the next one waits for {waits}")
    first = min(old, key=lambda machine: _goes_first(machine, hosts, jobs, now))
    return FleetPlan(0, (first,), f"{of_old} are replaced one after the other, now {first.metadata.name}")


def _growth(fleet: MacFleet, living: Sequence[ScalewayAppleSiliconMachine], said: str, now: datetime) -> FleetPlan:
    """The next step towards more machines."""
    missing = fleet.spec.replicas - len(living)
    ordered = fleet.spec.template.spec.source == "Order"
    limit = _ORDERED_AT_A_TIME if ordered else _AT_A_TIME
    hostless = [machine for machine in living if not machine.status.server_id]
    create = max(0, min(missing, limit - len(hostless)))
    growing = create < missing
    short = growing and not create and any(_waits_long(machine, now) for machine in hostless)
    if not growing:
        return FleetPlan(create, (), f"{said}; {create} more are being made")
    made = f"{said}; {len(living)} are made, {len(hostless)} of them wait for a host"
    if short:
        advice = "add hosts, or ask for fewer replicas"
        return FleetPlan(
            0, (), f"{made} already; more are made when those have one: {advice}", growing=True, short=True
        )
    pace = f"{limit} at a time" + (", because each Mac that is ordered is paid for a day" if ordered else "")
    return FleetPlan(create, (), f"{made}; {missing} more follow in steps, {pace}", growing=True)


def _waits_long(machine: ScalewayAppleSiliconMachine, now: datetime) -> bool:
    made = machine.metadata.creation_timestamp
    return made is not None and now - made >= (_LONG_ORDERED if machine.status.ordering else _LONG)


def _goes_first(
    machine: ScalewayAppleSiliconMachine,
    hosts: Mapping[str, ScalewayAppleSiliconHost],
    jobs: Mapping[str, int],
    now: datetime,
) -> tuple[int, bool, bool, float, str]:
    host = hosts.get(machine.status.host_name)
    floor = host.status.deletable_at if host is not None else None
    below_floor = floor is not None and now < floor
    made = machine.metadata.creation_timestamp
    at_work = jobs.get(machine.metadata.name, 0)
    return (at_work, machine.status.ready, below_floor, -(made.timestamp() if made else 0.0), machine.metadata.name)
