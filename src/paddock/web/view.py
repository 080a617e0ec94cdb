"""What a page shows: a plain picture of the fleet, taken from the caches at one moment. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from paddock.hosts.api import MacFleet, ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.kube.builtin import Event, Pod
from paddock.kube.objects import Condition
from paddock.runners.api import RunnerPool

__all__ = ["EventLine", "FleetView", "Tile", "picture"]

_SHOWN_EVENTS = 12


@dataclass(frozen=True, slots=True)
class Tile:
    """One Mac."""

    name: str
    zone: str
    state: str
    cloud_status: str
    machine: str
    type: str
    doing: str
    why: str
    floor: str


@dataclass(frozen=True, slots=True)
class EventLine:
    at: str
    reason: str
    about: str
    message: str
    warning: bool


@dataclass(frozen=True, slots=True)
class FleetView:
    """Everything that one look at the page shows."""

    tiles: Sequence[Tile] = ()
    machines: int = 0
    machines_ready: int = 0
    fleets: int = 0
    pools: int = 0
    pods: int = 0
    pods_running: int = 0
    states: Counter[str] = field(default_factory=Counter)
    events: Sequence[EventLine] = ()
    problems: Sequence[str] = ()


def picture(
    hosts: Sequence[ScalewayAppleSiliconHost],
    machines: Sequence[ScalewayAppleSiliconMachine],
    fleets: Sequence[MacFleet],
    pools: Sequence[RunnerPool],
    pods: Sequence[Pod],
    events: Sequence[Event],
    problems: Sequence[str],
    now: datetime,
) -> FleetView:
    """The picture of one moment."""
    owners = {machine.status.host_name: machine for machine in machines if machine.status.host_name}
    tiles = sorted(
        (_tile(host, owners.get(host.metadata.name), now) for host in hosts),
        key=lambda tile: (tile.zone, tile.state, tile.name),
    )
    return FleetView(
        tiles=tiles,
        machines=len(machines),
        machines_ready=sum(machine.status.ready for machine in machines),
        fleets=len(fleets),
        pools=len(pools),
        pods=len(pods),
        pods_running=sum(pod.status.phase == "Running" for pod in pods),
        states=Counter(tile.state or "unknown" for tile in tiles),
        events=[_line(event) for event in sorted(events, key=_when, reverse=True)[:_SHOWN_EVENTS]],
        problems=problems,
    )


def _tile(host: ScalewayAppleSiliconHost, machine: ScalewayAppleSiliconMachine | None, now: datetime) -> Tile:
    ready = _ready(machine.status.conditions if machine is not None else host.status.conditions)
    return Tile(
        name=host.metadata.name,
        zone=host.spec.zone,
        state=_state(host),
        cloud_status=host.status.cloud_status,
        machine=host.spec.claim.machine_name if host.spec.claim else "",
        type=host.status.type,
        doing=_doing(host, machine),
        why=ready.message if ready else "",
        floor=_floor(host.status.deletable_at, now),
    )


def _state(host: ScalewayAppleSiliconHost) -> str:
    """The state as the ledger has it, which is newer than the inventory's last look at the cloud."""
    if host.spec.release is not None:
        return "releasing"
    if host.spec.claim is not None and host.status.state == "pooled":
        return "claiming"
    return host.status.state


def _doing(host: ScalewayAppleSiliconHost, machine: ScalewayAppleSiliconMachine | None) -> str:
    """What happens on the host now, in a word or two."""
    if host.spec.release is not None:
        return {"requested": "wipe asked for", "started": "being wiped"}.get(host.spec.release.wipe, "being given back")
    if machine is None:
        return ""
    return machine.status.bootstrap_step or machine.status.phase.lower()


def _floor(deletable_at: datetime | None, now: datetime) -> str:
    """How long Apple's billing floor still holds, in words that fit on a tile."""
    if deletable_at is None or deletable_at <= now:
        return ""
    minutes = int((deletable_at - now).total_seconds() // 60)
    return f"floor {minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"floor {minutes} min"


def _ready(conditions: Sequence[Condition]) -> Condition | None:
    return next((condition for condition in conditions if condition.type == "Ready"), None)


def _when(event: Event) -> str:
    moment = event.last_timestamp or event.metadata.creation_timestamp
    return moment.isoformat() if moment else ""


def _line(event: Event) -> EventLine:
    about = event.involved_object
    return EventLine(
        at=_when(event)[11:19],
        reason=event.reason,
        about=f"{about.kind.removeprefix('ScalewayAppleSilicon').lower()}/{about.name}",
        message=event.message,
        warning=event.type == "Warning",
    )
