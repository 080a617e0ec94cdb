"""How many Pods a pool should have: what its load asks for, what its fleet can give, and when less is believed. Pure.

Three steps, each with a sentence that says why: `desired` looks at one pool, `allocate` at all pools that share a fleet,
`settle` at the time. Only the last one makes a pool smaller, and only what was lower for the whole cooldown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from paddock.base.explanation import span
from paddock.runners.api import Autoscaling
from paddock.runners.pools.warm_windows import Schedule

if TYPE_CHECKING:
    from paddock.runners.ledger import PoolSignals

__all__ = [
    "Capacity",
    "Decision",
    "Demand",
    "Desired",
    "Grant",
    "Remembered",
    "allocate",
    "desired",
    "each_alone",
    "pinned",
    "settle",
    "warm_deficit",
]


@dataclass(frozen=True, slots=True)
class Desired:
    """What one pool would like, were it alone: `load` for jobs that exist, up to `warm` with its floor, `replicas` in all.

    `load <= warm <= replicas <= maxReplicas` always holds.
    """

    load: int
    warm: int
    replicas: int
    why: str


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a fleet can hold: VMs that its Macs may run, or bytes of memory. Only Nodes that can serve now are counted."""

    units: int
    unit: Literal["VMs", "bytes"]


@dataclass(frozen=True, slots=True)
class Demand:
    """One pool's part in sharing a fleet. `cost` is what a Pod takes of the fleet's units and is above zero."""

    pool: str
    desired: Desired
    cost: int = 1
    current: int = 0
    queued: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """What a pool gets of its fleet. `yields`: a sibling's waiting jobs need the room now, so the cooldown is not kept."""

    replicas: int
    why: str
    yields: bool = False


@dataclass(frozen=True, slots=True)
class Remembered:
    """What was granted lately, as far as it still keeps a pool large: (Pods, until when they were wanted), oldest first.

    Later entries are smaller. `current` is the replica count that was seen last.
    """

    wanted: tuple[tuple[int, float], ...] = ()
    current: int = -1


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write into `spec.replicas`; it may be what is there already. `memory` goes into the next `settle`."""

    replicas: int
    reason: Literal["AsWanted", "ScaledUp", "ScaledDown", "CoolingDown"]
    why: str
    memory: Remembered


_NO_WINDOW = Schedule()


def desired(signals: "PoolSignals", autoscaling: Autoscaling, windows: Schedule = _NO_WINDOW) -> Desired:
    """max(load, p95 of the last hour) + floor, at least what an open window asks for, at most `maxReplicas`.

    The load is Pods that are held or tear down, jobs that may run now, and one Pod for all jobs that their accounts' limits
    hold back: without it a blocked pool has no Pod to ask with when the limit allows again, and loses every race; with more
    than one, Pods would wait for jobs that may not run.
    """
    if autoscaling.max_replicas <= 0:
        return Desired(0, 0, 0, "maxReplicas is 0, so no Pod is kept")
    held = max(signals.occupied, signals.claimed)
    load = held + signals.queued + (1 if signals.withheld > 0 else 0)
    floor = max(autoscaling.min_warm_pool_floor, windows.floor)
    loaded = max(load, signals.p95_concurrent_last_hour) + floor
    wanted = max(loaded, windows.min_replicas)
    limit = autoscaling.max_replicas
    parts = [f"{held} busy", f"{signals.queued} queued"]
    if signals.withheld > 0:
        parts.append(f"1 for {signals.withheld} that their accounts' limits hold back")
    if signals.p95_concurrent_last_hour > load:
        parts.append(f"{signals.p95_concurrent_last_hour - load} more as in the last hour")
    by = f" ({windows.names})" if floor > autoscaling.min_warm_pool_floor else ""
    parts.append(f"{floor} to stay warm{by}")
    why = " + ".join(parts)
    if wanted > loaded:
        why += f" is {loaded}, and {windows.names} asks for at least {wanted}"
    if wanted > limit:
        why += f" is {wanted}, and maxReplicas is {limit}"
    return Desired(
        load=min(load, limit),
        warm=min(max(load + floor, windows.min_replicas), limit),
        replicas=min(wanted, limit),
        why=why,
    )


def pinned(replicas: int, why: str) -> Desired:
    """A pool whose size a person or another autoscaler decides: what it has counts as load, and it gets exactly that."""
    return Desired(replicas, replicas, replicas, why)


def each_alone(demands: Iterable[Demand], because: str) -> dict[str, Grant]:
    """What pools get when their fleet is not known: what they want. Not knowing never makes a pool smaller."""
    return {
        demand.pool: Grant(demand.desired.replicas, f"{demand.desired.why}; not shared with siblings: {because}")
        for demand in demands
    }


def allocate(demands: Sequence[Demand], capacity: Capacity | None) -> dict[str, Grant]:
    """Share a fleet between its pools: load before floors, floors before headroom.

    Load is always granted, even past the capacity: its Pods then wait, which is how people see that a host is missing. A
    tier that does not fit is split in proportion to what each pool asks of it, and the tiers below it get nothing. So an
    idle pool's warm Pods yield to another pool's jobs, below its own floor if need be. No healthy Node, or no way to
    count them (`capacity` None), is no reason to take anything from anybody.
    """
    if capacity is None or capacity.units <= 0:
        return each_alone(demands, "the fleet shows no healthy Node")
    granted = {demand.pool: demand.desired.load for demand in demands}
    left = max(0, capacity.units - sum(demand.desired.load * demand.cost for demand in demands))
    for tier in ("floor", "headroom"):
        asked = {each.pool: _asked(each.desired, tier) for each in demands}
        needed = sum(asked[each.pool] * each.cost for each in demands)
        if needed > left:
            for pool, share in _split(demands, asked, left).items():
                granted[pool] += share
            break
        left -= needed
        for pool, share in asked.items():
            granted[pool] += share
    crowded = sum(max(each.current, granted[each.pool]) * each.cost for each in demands) > capacity.units
    return {each.pool: _grant(each, granted[each.pool], demands, crowded=crowded) for each in demands}


def settle(granted: Grant, current: int, memory: Remembered, now: float, cooldown: float) -> Decision:
    """Up at once; down only to the most that was granted at any time within the cooldown.

    So a scale-up shortly before, by us or by hand, delays a scale-down; so does a start of this process, which remembers
    nothing and takes what it finds for wanted until now. A time without signals counts as the last that was heard. `now`
    is monotonic seconds. A pool that yields to a sibling's waiting jobs does not wait.
    """
    wanted = list(memory.wanted)
    if current > memory.current:
        wanted = _then(wanted, current, now)
    wanted = _then(wanted, granted.replicas, now)
    wanted = [each for index, each in enumerate(wanted) if index == len(wanted) - 1 or each[1] > now - cooldown]
    highest = wanted[0][0]
    if granted.replicas > current:
        return Decision(granted.replicas, "ScaledUp", granted.why, Remembered(tuple(wanted), granted.replicas))
    if granted.replicas == current:
        return Decision(current, "AsWanted", granted.why, Remembered(tuple(wanted), current))
    if granted.yields:
        forgotten = ((granted.replicas, now),)
        return Decision(granted.replicas, "ScaledDown", granted.why, Remembered(forgotten, granted.replicas))
    target = min(highest, current)
    kept = Remembered(tuple(wanted), target)
    why = f"{granted.why}; {granted.replicas} would do, and the pool shrinks to that once it has held for {span(cooldown)}"
    if target == current:
        return Decision(current, "CoolingDown", why, kept)
    return Decision(target, "ScaledDown", granted.why if target == granted.replicas else why, kept)


def warm_deficit(want: Desired, granted: int) -> int:
    """How many warm Pods the pool should have beyond its load, and is not given."""
    return max(0, min(want.warm, want.replicas) - max(granted, want.load))


def _asked(want: Desired, tier: str) -> int:
    return want.warm - want.load if tier == "floor" else want.replicas - want.warm


def _split(demands: Sequence[Demand], asked: Mapping[str, int], units: int) -> dict[str, int]:
    """`units` in proportion to what each asks for, rounded down; what rounding left over goes to whom it cost most."""
    needed = sum(asked[each.pool] * each.cost for each in demands)
    shares = {each.pool: asked[each.pool] * units // needed for each in demands}
    left = units - sum(shares[each.pool] * each.cost for each in demands)
    lost = {each.pool: asked[each.pool] * units % needed for each in demands}
    for each in sorted(demands, key=lambda each: (-lost[each.pool], each.pool)):
        if lost[each.pool] and each.cost <= left:
            shares[each.pool] += 1
            left -= each.cost
    return shares


def _grant(demand: Demand, replicas: int, demands: Sequence[Demand], *, crowded: bool) -> Grant:
    want = demand.desired
    if replicas == want.replicas:
        return Grant(replicas, want.why)
    others = [each for each in demands if each.pool != demand.pool]
    why = f"{want.why}; of these {want.replicas} the fleet has room for {replicas}"
    if loaded := sorted(each.pool for each in others if each.desired.load > 0):
        why += f" beside the load of {', '.join(loaded)}"
    yields = crowded and any(each.queued > 0 for each in others)
    return Grant(replicas, why, yields)


def _then(wanted: list[tuple[int, float]], replicas: int, now: float) -> list[tuple[int, float]]:
    """What was wanted last was wanted until now; from now on it is this. What a larger, later wish covers is forgotten."""
    if wanted:
        wanted[-1] = (wanted[-1][0], now)
    while wanted and wanted[-1][0] <= replicas:
        wanted.pop()
    return [*wanted, (replicas, now)]
