"""What is said of a host before its machine is deleted is what the operator then does."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from unit.hosts.made import OTHER_UID, SERVER_ID, claim, host, machine, release

from paddock.hosts.api import ScalewayAppleSiliconMachine
from paddock.hosts.delete import RELEASE_POLICY
from paddock.kube.objects import OwnerReference
from paddock.views.finding import Mac
from paddock.views.giving_back import fate, successor

MACHINE = machine(server_id=SERVER_ID, host_name=SERVER_ID)
HOST = host(spec={"claim": claim()}, cloud_name="m-1", state="owned")


def test_a_host_goes_back_to_the_pool_unless_somebody_says_otherwise() -> None:
    assert fate(Mac(HOST, MACHINE)).becomes == "pooled"
    assert fate(Mac(HOST, MACHINE), terminate=True).becomes == "terminated"


@pytest.mark.parametrize("how", [{"annotations": {RELEASE_POLICY: "terminate"}}, {"spec": {"source": "Order"}}])
def test_a_machine_of_such_a_policy_or_source_is_terminated(how: dict[str, dict[str, str]]) -> None:
    owner = machine(server_id=SERVER_ID, host_name=SERVER_ID, **how)  # pyright: ignore[reportArgumentType]
    told = fate(Mac(HOST, owner))
    assert told.becomes == "terminated"
    assert "is deleted at the cloud (its machine says so" in told.sentence


def test_a_release_that_is_recorded_goes_on_as_it_was_recorded() -> None:
    on_its_way = host(spec={"claim": claim(), "release": release(policy="pool")}, cloud_name="m-1")
    told = fate(Mac(on_its_way, MACHINE), terminate=True)
    assert told.becomes == "pooled"
    assert "on its way already: it is wiped and goes back to the pool" in told.sentence


def test_under_a_monthly_commitment_the_date_of_the_end_is_said_before_anybody_agrees() -> None:
    committed = host(
        spec={"claim": claim()},
        cloud_name="m-1",
        state="owned",
        committed_until=datetime(2026, 4, 5, 8, 30, tzinfo=UTC),
    )
    told = fate(Mac(committed, MACHINE), terminate=True)
    assert told.sentence.endswith(
        "when its monthly commitment ends on 2026-04-05 08:30 UTC, and is paid for until then"
    )
    assert "commitment" not in fate(Mac(committed, MACHINE)).sentence


def test_a_host_of_another_machine_is_not_touched() -> None:
    others = host(spec={"claim": claim(machine("m-2", uid=OTHER_UID))}, cloud_name="m-2", state="owned")
    told = fate(Mac(others, MACHINE), terminate=True)
    assert told.becomes == "kept"
    assert "is not touched: the host is not this machine's to give back" in told.sentence


def test_a_machine_without_a_host_gives_nothing_back() -> None:
    assert fate(Mac(None, machine())).becomes == "kept"


def of_a_fleet(**how: dict[str, str]) -> ScalewayAppleSiliconMachine:
    owner = OwnerReference(api_version="v1", kind="MacFleet", name="blue", uid="f")
    made = machine(server_id=SERVER_ID, host_name=SERVER_ID, **how)  # pyright: ignore[reportArgumentType]
    return replace(made, metadata=replace(made.metadata, owner_references=(owner,)))


def test_whoever_terminates_a_mac_of_a_fleet_is_told_that_the_fleet_still_wants_as_many() -> None:
    mac = Mac(HOST, of_a_fleet())
    assert successor(mac) == "MacFleet blue makes another machine in its place"
    assert successor(mac, terminate=True) == (
        "MacFleet blue makes another machine in its place, which waits until a host is free: to have a Mac less, "
        "lower spec.replicas of blue too"
    )
    assert successor(Mac(HOST, MACHINE), terminate=True) == ""


def test_a_fleet_that_orders_its_macs_waits_for_none() -> None:
    ordering = Mac(HOST, of_a_fleet(spec={"source": "Order"}))
    assert successor(ordering, terminate=True) == "MacFleet blue makes another machine in its place"
