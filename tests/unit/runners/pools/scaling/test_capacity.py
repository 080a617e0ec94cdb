"""What a fleet of Macs can hold, and what a Pod takes of it."""

import pytest
from msgspec.structs import replace
from unit.runners.pools.built import node, pool

from paddock.kube.builtin import Node
from paddock.runners.pools.capacity import capacity_of, seats_taken
from paddock.runners.pools.scaling import Capacity

SMALL = {"pod_cpu_milli": 4000, "pod_memory_mb": 7168}


def _mac(name: str = "n1", **offered: str) -> Node:
    made = node(name)
    return replace(
        made, status=replace(made.status, allocatable={"cpu": "8", "memory": "14336Mi", "tuist.dev/vm": "2"} | offered)
    )


def test_a_mac_counts_as_many_vms_as_it_offers() -> None:
    fleet = [_mac("a"), _mac("b", **{"tuist.dev/vm": "1"}), node("old", seats=None), node("gone", ready="Unknown")]
    assert capacity_of(pool(), fleet) == Capacity(3, "VMs")


@pytest.mark.parametrize(
    ("shape", "offered", "taken"),
    [
        (SMALL, {}, 1),
        ({"pod_cpu_milli": 4000, "pod_memory_mb": 14336}, {}, 2),  # the memory is enough for one
        ({"pod_cpu_milli": 6000, "pod_memory_mb": 7168}, {}, 2),  # so are the CPUs
        ({"pod_cpu_milli": 9000, "pod_memory_mb": 7168}, {}, 2),  # fits nowhere, and takes no more than a Mac
        (SMALL, {"tuist.dev/vm": "1"}, 1),
        (SMALL, {"memory": "plenty"}, 1),
    ],
)
def test_a_vm_that_fills_a_mac_takes_both_of_its_seats(shape, offered, taken) -> None:
    assert seats_taken(pool(**shape), [_mac(**offered)]) == taken


def test_without_a_mac_a_vm_takes_one_seat() -> None:
    assert seats_taken(pool(), []) == 1
