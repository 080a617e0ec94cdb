"""The merge patch between two values, judged by applying it as RFC 7386 says."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import NOW, later

from paddock.hosts.api import Address, HostHistory, HostStatus, MachineStatus, OperatingSystem
from paddock.kube.difference import merge_difference
from paddock.kube.objects import Condition


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, in its own words."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def test_nothing_changed_means_nothing_to_write():
    status = MachineStatus(ready=True, addresses=(Address(type="ExternalIP", address="198.18.0.1"),))
    assert merge_difference(status, status) == {}


def test_only_what_changed_is_sent():
    assert merge_difference(MachineStatus(phase="Adopting"), MachineStatus(phase="Ready", ready=True)) == {
        "phase": "Ready",
        "ready": True,
    }


def test_a_field_that_fell_back_to_its_default_is_removed():
    before = MachineStatus(server_id="x", bootstrap_attempts=3, bound_at=NOW)
    assert merge_difference(before, MachineStatus()) == {"serverID": None, "bootstrapAttempts": None, "boundAt": None}


def test_a_struct_inside_is_compared_field_by_field():
    before = HostStatus(history=HostHistory(releases=1, reboots=2), os=OperatingSystem(family="Tahoe"))
    after = HostStatus(history=HostHistory(releases=2), os=OperatingSystem(family="Tahoe"))
    assert merge_difference(before, after) == {"history": {"releases": 2, "reboots": None}}


def test_a_list_is_replaced_whole():
    one, two = (Condition(type=name, status="True", reason="r") for name in ("A", "B"))
    change = merge_difference(MachineStatus(conditions=(one,)), MachineStatus(conditions=(one, two)))
    assert [each["type"] for each in change["conditions"]] == ["A", "B"]


def test_from_nothing_everything_is_sent():
    assert merge_difference(None, MachineStatus(phase="Ready")) == {"phase": "Ready"}


statuses = st.builds(
    HostStatus,
    state=st.sampled_from(["", "pooled", "owned"]),
    ip=st.sampled_from(["", "198.18.0.1"]),
    delivered=st.booleans(),
    deletable_at=st.sampled_from([None, NOW, later(days=1)]),
    os=st.builds(OperatingSystem, family=st.sampled_from(["", "Tahoe"]), version=st.sampled_from(["", "26.3"])),
    history=st.builds(HostHistory, releases=st.integers(0, 2), reboots=st.integers(0, 2)),
    conditions=st.lists(
        st.builds(Condition, type=st.sampled_from(["A", "B"]), status=st.just("True"), reason=st.just("r")), max_size=2
    ).map(tuple),
)


@given(before=statuses, after=statuses)
def test_applied_to_the_first_the_patch_gives_the_second(before: HostStatus, after: HostStatus):
    patch = merge_difference(before, after)
    result = merged(msgspec.to_builtins(before), patch)
    assert msgspec.convert(result, HostStatus) == after
    assert (patch == {}) == (before == after)
