"""The binder counts what Pods ask for against what Nodes offer, VM seats of Macs included."""

from decimal import Decimal
from typing import Any

from paddock.embedded.api.scheduler import NodePlacement, Unschedulable, place

Json = dict[str, Any]


def _node(name: str, **offered: str) -> Json:
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"pods": "9"} | offered}
    return {"metadata": {"name": name}, "status": status}


def _vm() -> Json:
    resources = {"requests": {"tuist.dev/vm": "1"}, "limits": {"tuist.dev/vm": "1"}}
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "runner", "resources": resources}]},
        "status": {"phase": "Pending"},
    }


def test_a_mac_gets_as_many_vms_as_its_agent_offers() -> None:
    mac = _node("mac", **{"tuist.dev/vm": "2"})
    for running, decision in [
        (1, NodePlacement("mac")),
        (2, Unschedulable("0/1 nodes are available: 1 Insufficient tuist.dev/vm.")),
    ]:
        used = {"mac": {"tuist.dev/vm": Decimal(running), "pods": Decimal(running)}}
        assert place(_vm(), [mac], used) == decision


def test_a_mac_that_offers_no_vm_seats_gets_none() -> None:
    assert isinstance(place(_vm(), [_node("old")], {}), Unschedulable)


def test_a_mac_whose_word_about_its_seats_cannot_be_read_gets_none_and_the_others_get_theirs() -> None:
    good = _node("good", **{"tuist.dev/vm": "2"})
    for word in ("lots", "NaN", "1e999999999", "0" * 1000):
        assert place(_vm(), [_node("odd", **{"tuist.dev/vm": word}), good], {}) == NodePlacement("good")
