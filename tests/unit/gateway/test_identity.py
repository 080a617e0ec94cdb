"""Whose key a request shows."""

import hashlib
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from paddock.gateway.identity import MacIdentity, identify, presented
from paddock.hosts.api import (
    HostClaim,
    HostRelease,
    HostSpec,
    ScalewayAppleSiliconHost,
    ScalewayAppleSiliconMachine,
)
from paddock.kube.objects import ObjectMeta

KEY = "k" * 43
OTHER = "o" * 43
CLAIM = HostClaim(
    machine_namespace="ci",
    machine_name="mac-1",
    machine_uid="u-1",
    key_hash=hashlib.sha256(KEY.encode()).hexdigest(),
    key_number=3,
)
HOST = ScalewayAppleSiliconHost(metadata=ObjectMeta(name="host-1"), spec=HostSpec(claim=CLAIM))
MACHINE = ScalewayAppleSiliconMachine(metadata=ObjectMeta(name="mac-1", namespace="ci", uid="u-1"))
GOOD = MacIdentity(
    namespace="ci",
    name="mac-1",
    machine_uid="u-1",
    host="host-1",
    key_number=3,
    key_digits=CLAIM.key_hash[:16],
    rights="all",
)


def who(
    key: str = KEY, *, machine: ScalewayAppleSiliconMachine | None = MACHINE, claim: HostClaim = CLAIM
) -> MacIdentity | None:
    shown = presented(f"Bearer ci/mac-1:{key}")
    assert shown is not None
    return identify(shown, machine, [replace(HOST, spec=HostSpec(claim=claim))])


def test_the_key_of_a_claim_proves_its_mac():
    assert who() == GOOD


def test_a_key_counts_before_and_after_the_mac_has_used_it_first():
    after = replace(CLAIM, next_key_hash=hashlib.sha256(OTHER.encode()).hexdigest(), next_key_number=4)
    assert who(claim=after) == GOOD
    assert who(OTHER, claim=after) == replace(GOOD, key_number=4, key_digits=after.next_key_hash[:16])


@pytest.mark.parametrize("claim", [replace(CLAIM, key_hash=""), replace(CLAIM, machine_name="mac-2")])
def test_no_key_counts_that_the_claim_of_this_name_does_not_hold(claim: HostClaim):
    assert who(claim=claim) is None
    assert who(OTHER, claim=claim) is None


def test_the_record_of_a_release_is_the_end_of_the_key():
    shown = presented(f"Bearer ci/mac-1:{KEY}")
    assert shown is not None
    released = replace(HOST, spec=HostSpec(claim=CLAIM, release=HostRelease()))
    assert identify(shown, MACHINE, [released]) is None
    assert identify(shown, MACHINE, [replace(HOST, spec=HostSpec())]) is None


@pytest.mark.parametrize("machine", [None, replace(MACHINE, metadata=replace(MACHINE.metadata, uid="u-2"))])
def test_without_its_machine_a_mac_says_how_its_pods_end_and_nothing_else(machine: ScalewayAppleSiliconMachine | None):
    assert who(machine=machine) == replace(GOOD, rights="ends")


def test_a_machine_that_is_being_deleted_is_named_as_leaving():
    leaving = replace(MACHINE, metadata=replace(MACHINE.metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    assert who(machine=leaving) == replace(GOOD, leaving=True)


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        f"Bearer {KEY}",
        f"Basic ci/mac-1:{KEY}",
        f"Bearer ci/mac-1:{KEY} ",
        f"Bearer ci/mac-1:{KEY}\n",
        f"Bearer CI/mac-1:{KEY}",
        f"Bearer ci/../mac-1:{KEY}",
        f"Bearer {'c' * 64}/mac-1:{KEY}",
        f"Bearer ci/mac-1:{'k' * 39}",
        f"Bearer ci/mac-1:{'k' * 129}",
        f"Bearer ci/mac-1:{'k' * 42}é",
    ],
)
def test_anything_else_is_no_key(authorization: str):
    assert presented(authorization) is None


def test_the_key_itself_goes_no_further():
    assert KEY not in repr(presented(f"Bearer ci/mac-1:{KEY}"))
