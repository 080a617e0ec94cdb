"""How many Pods of a pool may be created now. Pure.

Starting is what hurts: dozens of VMs that boot at once took hosts, and the jobs on them, down. So what is counted is
Pods that are on their way, over all pools of one fleet, whether a Node has them yet or not: the scheduler may bind a
backlog at one stroke. On Macs Apple's licence comes on top: two VMs a host, whatever the resources say.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from paddock.kube.builtin import Node, Pod
from paddock.kube.conditions import get_condition
from paddock.runners.api import POOL_LABEL, RunnerPool
from paddock.runners.pods.naming import SEAT_LABEL, SEATS
from paddock.runners.pods.nodes import healthy, nodes_of
from paddock.runners.pods.predicates import alive, starting, terminal

__all__ = ["Admission", "Reservation", "admission", "fleet_of", "seats_for", "share_a_fleet"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A Pod that was created, or may have been, and that no list shows yet. `until` is monotonic time."""

    pod: str
    pool: str
    seat: str
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
) -> Admission:
    """How many of `wanted` Pods may be created.

    `siblings` are the other pools of the fleet, `pods` the Pods of all of them and of this pool, `reserved` what none of
    these lists shows yet. The lowest ceiling of all siblings holds. One place is kept for every sibling that lacks Pods and has none
    on the way, so that a large pool cannot starve a small one; a pool that is starved itself always gets the last place.
    """
    fleet = nodes_of(pool, nodes)
    serving = [node for node in fleet if healthy(node)]
    if not serving:
        of = f"of the fleet {pool.spec.fleet_selector}"
        why = f"none of the {len(fleet)} Nodes {of} is healthy" if fleet else f"there is no Node {of}"
        return Admission(0, "NoHealthyNode", f"{why}, so no Pod is created until one is")
    os = pool.spec.os
    ceiling = min(each.spec.provisioning.max_concurrent_per_node for each in (pool, *siblings)) * len(serving)
    on_the_way = Counter(pod.metadata.labels.get(POOL_LABEL, "") for pod in pods if starting(pod, os))
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
        seats = _free_seats(serving, pods, reserved)
        if seats < min(wanted, verdict.room):
            why = (
                f"each of the {len(serving)} healthy Macs may run {len(SEATS)} VMs, and {max(0, seats)} places are free"
            )
            return Admission(max(0, seats), "LicenceLimit", why)
    return verdict


def _misconfigured(pool: RunnerPool) -> bool:
    """A pool that cannot make Pods needs no place kept for it."""
    said = get_condition(pool.status.conditions, "Ready")
    return said is not None and said.reason == "InvalidConfiguration"


def _free_seats(serving: Sequence[Node], pods: Iterable[Pod], reserved: Sequence[Reservation]) -> int:
    """Places for VMs. A Pod that is being deleted has its VM still; one that has no Node yet will need a place."""
    names = {node.metadata.name for node in serving}
    here: Counter[str] = Counter()
    unbound = len(reserved)
    for pod in pods:
        if terminal(pod):
            continue
        if not pod.spec.node_name:
            unbound += alive(pod)
        elif pod.spec.node_name in names:
            here[pod.spec.node_name] += 1
    return sum(max(0, len(SEATS) - here[name]) for name in names) - unbound


def seats_for(
    count: int, pods: Iterable[Pod], reserved: Sequence[Reservation], serving: Iterable[str]
) -> tuple[str, ...]:
    """The seats of new Pods: always the one that fewer have.

    As long as fewer than two VMs a Mac are counted, the rarer seat is free on some Mac; so a Pod that was admitted fits.
    """
    names = set(serving)
    taken: Counter[str] = Counter()
    taken.update(reservation.seat for reservation in reserved)
    for pod in pods:
        if not terminal(pod) and (not pod.spec.node_name or pod.spec.node_name in names):
            taken[pod.metadata.labels.get(SEAT_LABEL, SEATS[0])] += 1
    chosen: list[str] = []
    for _ in range(count):
        seat = min(SEATS, key=lambda each: (taken[each], each))
        taken[seat] += 1
        chosen.append(seat)
    return tuple(chosen)
