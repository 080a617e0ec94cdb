"""When a Mac is given back to the cloud for good: the table of the decision."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from unit.hosts.made import NOW, host, later

from paddock.hosts.api import HostClaim, HostRelease
from paddock.hosts.retirement import RetireHost, WaitToRetire, policy_reason, retire_step
from paddock.hosts.why import why_host

WHY = "its fan is loud"
CLAIM = HostClaim(machine_name="m-1", machine_namespace="default", machine_uid="u", epoch=1)


def _host(name: str = "h-1", **changes):
    made = host(state="pooled", deletable_at=changes.pop("deletable_at", later(hours=-1)))
    made = replace(made, metadata=replace(made.metadata, name=name))
    status = replace(made.status, state=changes.pop("state", "pooled"))
    return replace(made, status=status, spec=replace(made.spec, **({"retire": WHY, "claim": None} | changes)))


def test_a_free_host_past_its_floor_is_retired() -> None:
    assert retire_step(_host(), [], None, NOW) == RetireHost(f"retired: {WHY}")


@pytest.mark.parametrize(
    ("changes", "waits"),
    [
        ({"claim": CLAIM}, "when machine m-1 gives it back"),
        ({"state": "stranded"}, "it is stranded"),
        ({"deletable_at": later(hours=3)}, "billing floor lasts until"),
        ({"deletable_at": None}, "has not said yet"),
    ],
)
def test_what_it_waits_for_is_said(changes: dict, waits: str) -> None:
    step = retire_step(_host(**changes), [], None, NOW)
    assert isinstance(step, WaitToRetire)
    assert waits in step.message


def test_nothing_is_done_that_was_not_asked_or_is_under_way() -> None:
    assert retire_step(_host(retire=""), [], None, NOW) is None
    assert retire_step(_host(release=HostRelease(policy="terminate", reason="Retired")), [], None, NOW) is None


def test_one_goes_at_a_time_in_a_zone_and_an_hour_apart() -> None:
    leaving = _host("h-2", release=HostRelease(policy="terminate", reason="Retired"))
    step = retire_step(_host(), [leaving], None, NOW)
    assert isinstance(step, WaitToRetire)
    assert "h-2 goes first" in step.message
    elsewhere = replace(leaving, spec=replace(leaving.spec, zone="fr-par-3"))
    ordinary = _host("h-3", release=HostRelease(policy="terminate", reason="MachineDeleted"))
    assert isinstance(retire_step(_host(), [elsewhere, ordinary], None, NOW), RetireHost)
    assert isinstance(retire_step(_host(), [], NOW - timedelta(minutes=59), NOW), WaitToRetire)
    assert isinstance(retire_step(_host(), [], NOW - timedelta(minutes=60), NOW), RetireHost)


@pytest.mark.parametrize(
    ("quarantines", "allowed", "retires"), [(9, 0, False), (1, 2, False), (2, 2, True), (3, 2, True)]
)
def test_the_policy_counts_quarantines(quarantines: int, allowed: int, retires: bool) -> None:
    assert bool(policy_reason(quarantines, allowed)) is retires


def test_why_says_that_it_is_to_be_retired_and_how_to_keep_it() -> None:
    answer = why_host(_host(), [], NOW)
    assert answer.sentence.startswith(f"to be retired: {WHY}")
    assert answer.commands == ("paddock retire h-1 --undo",)
