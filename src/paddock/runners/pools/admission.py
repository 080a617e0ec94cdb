"""How many Pods of a pool may be created now. Pure.

Starting is what hurts: dozens of VMs that boot at once took hosts, and the jobs on them, down. So what is counted is
Pods that are on their way, over all pools of one fleet, whether a Node has them yet or not: the scheduler may bind a
backlog at one stroke. On Macs the VMs that their agents offer come on top: two a host, for Apple's licence allows no more.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition
from paddock.runners.api import POOL_LABEL, RunnerPool
from paddock.runners.pools.nodes import closed, healthy, nodes_of, seatless, seats_of
from paddock.runners.pools.pod_predicates import alive, seats_asked, starting, terminal, unschedulable

__all__ = [
    "Admission",
    "Reservation",
    "admission",
    "fleet_of",
    "free_seats",
    "places",
    "refused",
    "share_a_fleet",
    "waiting_for_a_place",
]

_REFUSED_FOR: Final = timedelta(seconds=15)
"""The scheduler tries a Pod again at the latest ten seconds after something changed: a place that a Pod did not take for
longer than that is none that it could use."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """A Pod that was created, or may have been, and that no list shows yet. `until` is monotonic time."""

    pod: str
    pool: str
    until: float


@dataclass(frozen=True, slots=True)
class Admission:
    """How many may be created. If that is fewer than wanted, `reason` says so in one word and `why` in a sentence."""

    room: int
    reason: str = ""
    why: str = ""


def fleet_of(pool: RunnerPool) -> tuple[str, str]:
    """What decides which pools share Nodes."""
    return (pool.spec.os, pool.spec.fleet_selector)


def share_a_fleet(one: RunnerPool, other: RunnerPool) -> bool:
    return fleet_of(one) == fleet_of(other) and one.metadata.namespace == other.metadata.namespace


def admission(
    pool: RunnerPool,
    wanted: int,
    siblings: Sequence[RunnerPool],
    pods: Sequence[Pod],
    nodes: Mapping[str, Node],
    reserved: Sequence[Reservation],
    now: datetime,
) -> Admission:
    """How many of `wanted` Pods may be created.

    `siblings` are the other pools of the fleet, `pods` the Pods of all of them and of this pool, `reserved` what none of
    these lists shows yet. The lowest ceiling of all siblings holds. One place is kept for every sibling that lacks Pods and has none
    on the way, so that a large pool cannot starve a small one; a pool that is starved itself always gets the last place.
    Of Pods that the scheduler has refused for a while, one of each pool counts: they start nothing, and must keep no
    other Pod from starting.
    """
    fleet = nodes_of(pool, nodes)
    serving = [node for node in fleet if healthy(node)]
    if not serving:
        of = f"of the fleet {pool.spec.fleet_selector}"
        why = f"none of the {len(fleet)} Nodes {of} is healthy" if fleet else f"there is no Node {of}"
        return Admission(0, "NoHealthyNode", f"{why}, so no Pod is created until one is")
    os = pool.spec.os
    ceiling = min(each.spec.provisioning.max_concurrent_per_node for each in (pool, *siblings)) * len(serving)
    without = refused(pods, now)
    on_the_way = Counter(
        pod.metadata.labels.get(POOL_LABEL, "") for pod in pods if starting(pod, os) and pod.metadata.uid not in without
    )
    on_the_way.update({without[uid] for uid in without})
    on_the_way.update(reservation.pool for reservation in reserved)
    left = ceiling - on_the_way.total()
    living = Counter(pod.metadata.labels.get(POOL_LABEL, "") for pod in pods if alive(pod))
    starved = sum(
        each.metadata.deletion_timestamp is None
        and not _misconfigured(each)
        and on_the_way[each.metadata.name] == 0
        and living[each.metadata.name] < each.spec.replicas
        for each in siblings
    )
    own_share = left - starved
    if not on_the_way[pool.metadata.name]:
        own_share = max(own_share, min(1, left))
    verdict = Admission(max(0, own_share))
    if own_share < wanted:
        at_once = f"{on_the_way.total()} Pods of this fleet are starting and {ceiling} may at once"
        if left >= wanted:
            kept = f"{at_once}; {starved} places are kept for pools that have none on the way"
            verdict = Admission(max(0, own_share), "SharedCeiling", kept)
        else:
            verdict = Admission(max(0, own_share), "ProvisioningCeiling", at_once)
    if os == "darwin":
        offered = sum(seats_of(node) or 0 for node in serving)
        if not offered and (said := seatless(serving)):
            return Admission(0, "NoVMSeats", said)
        seats = max(0, places(pool, serving, pods, reserved, now))
        if seats < min(wanted, verdict.room):
            shut = sum(closed(node) for node in fleet)
            besides = f" ({shut} more {'is' if shut == 1 else 'are'} cordoned or leaving)" if shut else ""
            why = f"the {len(serving)} healthy Macs{besides} may run {offered} VMs in all, and {seats} places are free"
            return Admission(seats, "LicenceLimit", why)
    return verdict


def _misconfigured(pool: RunnerPool) -> bool:
    """A pool that cannot make Pods needs no place kept for it."""
    said = get_condition(pool.status.conditions, "Ready")
    return said is not None and said.reason == "InvalidConfiguration"


def refused(pods: Iterable[Pod], now: datetime) -> dict[str, str]:
    """Pods, by uid, for which the scheduler has found no Node for so long that they are not about to start; and their pools."""
    found: dict[str, str] = {}
    for pod in pods:
        if pod.spec.node_name:
            continue  # most have one, and are no question
        said = unschedulable(pod) if alive(pod) else None
        since = said.last_transition_time if said is not None else None
        if since is not None and now - since > _REFUSED_FOR:
            found[pod.metadata.uid] = pod.metadata.labels.get(POOL_LABEL, "")
    return found


def places(
    pool: RunnerPool, serving: Sequence[Node], pods: Sequence[Pod], reserved: Sequence[Reservation], now: datetime
) -> int:
    """Places for VMs on these Macs, less the Pods that wait for one; negative where more wait than fit.

    Every runner Pod on a Mac has a VM, whether it asked for a seat or was made before Pods did. One that is being deleted
    has its VM still. One of another pool that the scheduler has refused for a while is of a shape that does not fit, or
    lost the race before: it has no right to a place that it does not take. One of this pool fits wherever a new one
    would, so it goes first.
    """
    places = sum(left // pool.vm_seats for left in free_seats(serving, pods).values())
    return places - len(reserved) - waiting_for_a_place(pool, pods, now)


def free_seats(serving: Iterable[Node], pods: Iterable[Pod]) -> dict[str, int]:
    """Of each Mac the VM seats that no runner Pod has."""
    free = {node.metadata.name: seats_of(node) or 0 for node in serving}
    for pod in pods:
        if pod.spec.node_name in free and not terminal(pod):
            free[pod.spec.node_name] -= max(1, seats_asked(pod))
    return {name: max(0, left) for name, left in free.items()}


def waiting_for_a_place(pool: RunnerPool, pods: Sequence[Pod], now: datetime) -> int:
    """Pods that have no Node and take a place before a new one of this pool does."""
    without, mine = refused(pods, now), pool.metadata.name
    unplaced = (pod for pod in pods if not pod.spec.node_name and alive(pod))
    return sum(without.get(pod.metadata.uid, mine) == mine for pod in unplaced)
