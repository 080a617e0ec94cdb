"""One tile a Mac: what it is in one word, what runs on it, how far it is. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct

from paddock.base.readable import shown
from paddock.hosts.api import ScalewayAppleSiliconHost, ScalewayAppleSiliconMachine
from paddock.hosts.bootstrap import FleetConfig
from paddock.hosts.bootstrap.steps import all_steps
from paddock.hosts.retirement import set_aside
from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition
from paddock.runners.api import OWNER_LABEL, RUNNER_LABEL
from paddock.runners.ledger.views import RunningJob
from paddock.runners.pools.pod_predicates import alive, warm
from paddock.web.page_data import PageData

__all__ = ["STATES", "Group", "Tile", "TileState", "groups_of", "tile_states"]

Host = ScalewayAppleSiliconHost
Machine = ScalewayAppleSiliconMachine


@dataclass(frozen=True, slots=True)
class TileState:
    """A state of a Mac as people are shown it: a word, and a letter for where there is no room for words."""

    name: str
    word: str
    letter: str
    meaning: str


STATES: Final[Mapping[str, TileState]] = {
    state.name: state
    for state in (
        TileState("busy", "busy", "B", "a job runs on it"),
        TileState("ready", "ready", "R", "up, and no job is running on it"),
        TileState("setup", "setting up", "S", "claimed, and being bootstrapped"),
        TileState("claiming", "claiming", "C", "being claimed by a machine"),
        TileState("free", "free", "F", "pooled: the next machine takes it"),
        TileState("wiping", "reinstalling", "W", "given back: its disk is wiped before anybody else gets it"),
        TileState("draining", "draining", "D", "takes no more jobs; what runs finishes"),
        TileState("failing", "recovering", "!", "its bootstrap failed, or its Node is quiet; it is being brought back"),
        TileState("quarantined", "quarantined", "Q", "set aside by a person; no machine claims it"),
        TileState("stranded", "stranded", "X", "orphaned: no machine owns it, and it bills"),
        TileState("foreign", "foreign", "\u2013", "not ours; never touched"),
        TileState("gone", "gone", "✕", "the cloud does not show it any more"),
        TileState("unknown", "unknown", "?", "not judged yet"),
    )
}
"""In the order in which the legend tells them."""

_RECOVERING = frozenset({"BootstrapFailed", "RebootingForRecovery", "NodeMissing"})
_STEPS: Final = tuple(step.name for step in all_steps(FleetConfig()))


class Tile(Struct, frozen=True, kw_only=True, gc=False):
    """One Mac. Values only, so that equal tiles render alike and are rendered once. A struct, because a thousand are made
    at every look, and then only compared.
    """

    name: str
    title: str
    """What people call it: its machine, or the end of its cloud id while it has none."""
    state: str
    zone: str
    fleet: str
    doing: str = ""
    job: str = ""
    step: int = 0
    steps: int = 0
    floor: str = ""
    price: float = 0.0
    afterwards: str = ""
    """What becomes of it when its machine has left: `quarantined`, `retiring`, or empty."""
    since: datetime | None = None
    """Since when it is so, where that is known."""


@dataclass(frozen=True, slots=True)
class Group:
    """The Macs of one fleet in one zone, by name; free ones are in a group of the zone's own."""

    zone: str
    fleet: str
    tiles: tuple[Tile, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Around:
    """What stands around hosts, by what leads to it."""

    machines: Mapping[str, Machine]
    nodes: Mapping[str, Node]
    busy: Mapping[str, Pod]
    idle: Mapping[str, str]
    """By Node: what its runners without a job do."""
    jobs: Mapping[str, RunningJob]


def groups_of(seen: PageData) -> tuple[Group, ...]:
    """Every Mac, by zone and fleet. The order depends on names alone, so that tiles stay where they are."""
    around = _Around(
        machines={machine.metadata.uid: machine for machine in seen.machines},
        nodes={node.metadata.name: node for node in seen.nodes},
        busy={pod.spec.node_name: pod for pod in seen.pods if _works(pod)},
        idle=_idle(seen.pods),
        jobs={job.pod_uid: job for job in (seen.ledger.running if seen.ledger else ()) if job.pod_uid},
    )
    by_group: dict[tuple[str, str], list[Tile]] = {}
    for host in seen.hosts:
        tile = _tile(host, around, seen.now)
        by_group.setdefault((tile.zone, tile.fleet), []).append(tile)
    return tuple(
        Group(
            zone, fleet, tuple(sorted(tiles, key=lambda tile: (tile.title, tile.name))), Counter(t.state for t in tiles)
        )
        for (zone, fleet), tiles in sorted(by_group.items(), key=lambda item: (item[0][0], not item[0][1], item[0][1]))
    )


def tile_states(groups: Sequence[Group]) -> Counter[str]:
    return sum((Counter(group.counts) for group in groups), Counter())


def _tile(host: Host, around: _Around, now: datetime) -> Tile:
    claim = host.spec.claim
    machine = around.machines.get(claim.machine_uid) if claim is not None else None
    title = claim.machine_name if claim is not None else _short(host)
    node = around.nodes.get(machine.metadata.name) if machine is not None else None
    pod = around.busy.get(machine.metadata.name) if machine is not None else None
    job = around.jobs.get(pod.metadata.uid) if pod is not None else None
    state = _state(host, machine, node, pod)
    step = machine.status.bootstrap_step if machine is not None and state in ("setup", "failing") else ""
    return Tile(
        name=host.metadata.name,
        title=title,
        state=state,
        zone=host.spec.zone or "no zone",
        fleet=_fleet(machine) if machine is not None else "",
        doing=_doing(state, host, machine, pod, around.idle),
        job=shown(f"{job.repository} · {job.job_name or job.workflow_name}") if job is not None else "",
        step=_STEPS.index(step) + 1 if step in _STEPS else 0,
        steps=len(_STEPS) if step else 0,
        floor=_floor(host.status.paid_until, now),
        price=_price(host.status.price_per_hour),
        afterwards=set_aside(host),
        since=_since(state, host, machine, job),
    )


def _state(host: Host, machine: Machine | None, node: Node | None, pod: Pod | None) -> str:
    """The state as the newest ledger has it: what we intend with a host is newer than the last look at the cloud."""
    if host.spec.release is not None:
        return "wiping"
    if host.status.state == "stranded":
        return "stranded"
    if host.spec.claim is None:
        if host.status.state == "pooled":
            return "quarantined" if set_aside(host) else "free"
        # The cloud was seen before the ledger moved on: the claim is gone, and the next look will say so.
        meant = {"releasing": "wiping", "owned": "claiming"}.get(host.status.state, host.status.state)
        return meant if meant in STATES else "unknown"
    if host.status.state == "gone":
        return "gone"
    if machine is None:
        return "claiming"
    ready = get_condition(machine.status.conditions, "Ready")
    if machine.status.ready:
        if node is not None and node.spec.unschedulable:
            return "draining"
        return "busy" if pod is not None else "ready"
    if machine.status.failure_reason or (ready is not None and ready.reason in _RECOVERING):
        return "failing"
    return "setup" if machine.status.phase == "Bootstrapping" else "claiming"


def _doing(state: str, host: Host, machine: Machine | None, pod: Pod | None, idle: Mapping[str, str]) -> str:
    match state:
        case "ready" if machine is not None and not host.spec.quarantine:
            return idle.get(machine.metadata.name, "no runner is on it")
        case "wiping":
            wipe = host.spec.release.wipe if host.spec.release is not None else ""
            return {"requested": "wipe asked for", "started": "being wiped"}.get(wipe, "being given back")
        case "busy" | "draining" if pod is not None:
            return f"for {pod.metadata.labels.get(OWNER_LABEL, '?')}"
        case "setup" | "claiming" | "failing" if machine is not None:
            return machine.status.bootstrap_step or machine.status.phase.lower()
        case "quarantined":
            return f"to be retired: {host.spec.retire}" if host.spec.retire else host.spec.quarantine
        case "stranded" | "foreign" | "gone":
            return host.status.cloud_name
        case _:
            return ""


def _since(state: str, host: Host, machine: Machine | None, job: RunningJob | None) -> datetime | None:
    match state:
        case "busy" if job is not None:
            return job.executing_since or job.started_at
        case "wiping":
            return host.spec.release.requested_at if host.spec.release is not None else None
        case "ready" | "setup" | "claiming" | "failing" if machine is not None:
            ready = get_condition(machine.status.conditions, "Ready")
        case "stranded" | "gone":  # since when it is set aside is written nowhere
            ready = get_condition(host.status.conditions, "Ready")
        case _:
            return None
    return ready.last_transition_time if ready is not None else None


def _idle(pods: Sequence[Pod]) -> dict[str, str]:
    """By Node, of Pods that are there: a Mac with two of them waits for a job as soon as one does."""
    said: dict[str, str] = {}
    for pod in pods:
        node = pod.spec.node_name
        if not node or pod.metadata.labels.get(RUNNER_LABEL) != "true" or not alive(pod):
            continue
        if warm(pod, "darwin"):
            said[node] = "waits for a job"
        else:
            said.setdefault(node, "a runner starts")
    return said


def _works(pod: Pod) -> bool:
    labels = pod.metadata.labels
    return bool(
        labels.get(RUNNER_LABEL) == "true"
        and labels.get(OWNER_LABEL)
        and pod.spec.node_name
        and pod.status.phase not in ("Succeeded", "Failed")
        and pod.metadata.deletion_timestamp is None
    )


def _fleet(machine: Machine) -> str:
    if machine.spec.fleet_name:
        return machine.spec.fleet_name
    owners = [owner for owner in machine.metadata.owner_references if owner.kind in ("MacFleet", "Machine")]
    return owners[0].name if owners and owners[0].kind == "MacFleet" else "machines"


def _short(host: Host) -> str:
    name = host.status.cloud_name or host.metadata.name
    return f"{host.status.type or 'Mac'} {name[-6:]}"


def _floor(paid_until: datetime | None, now: datetime) -> str:
    """How long Apple's billing floor or its commitment still holds, in words that fit on a tile and change at most once a minute."""
    left = paid_until - now if paid_until is not None else timedelta(0)
    if left <= timedelta(0):
        return ""
    hours = left // timedelta(hours=1)
    return f"{hours} h" if hours >= 2 else f"{left // timedelta(minutes=1)} min"


def _price(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
