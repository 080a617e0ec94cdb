"""What is to be done about a Mac's key, and what its claim says afterwards. The order of effects has a model of its own."""

import pytest
from msgspec.structs import replace

from paddock.hosts.api import HostClaim
from paddock.hosts.mac_key import (
    DIGITS,
    AwaitUse,
    EndFormerKey,
    GiveKey,
    KeyAnswer,
    NoKeyNeeded,
    claim_after,
    claim_knows,
    ended,
    key_step,
    number_for,
)

OLD, NEW, OTHER = "a" * 64, "b" * 64, "c" * 64
NONE = HostClaim(machine_namespace="default", machine_name="m", machine_uid="uid", epoch=1)
ONE = replace(NONE, key_hash=OLD, key_number=3, machine_id="mac")
TWO = replace(ONE, next_key_hash=NEW, next_key_number=4)


def held(number: int, proven: str = "") -> KeyAnswer:
    return KeyAnswer(False, number, proven[:DIGITS], "mac")


@pytest.mark.parametrize(
    ("claim", "used", "answer", "step"),
    [
        pytest.param(NONE, "", None, GiveKey, id="a claim without a key"),
        pytest.param(replace(NONE, key_number=7), "", None, GiveKey, id="one whose key has ended"),
        pytest.param(ONE, "", None, NoKeyNeeded, id="one key, and nobody doubts it"),
        pytest.param(ONE, "", held(3), NoKeyNeeded, id="the Mac has it, and has not used it"),
        pytest.param(ONE, "", held(9, OLD), NoKeyNeeded, id="a later key is half-way, and the one before is good"),
        pytest.param(ONE, "", held(5), GiveKey, id="the Mac has another one alone"),
        pytest.param(ONE, "", held(0), GiveKey, id="the Mac has none"),
        pytest.param(TWO, "", None, AwaitUse, id="two keys, and no use of the next is known"),
        pytest.param(TWO, OLD[:DIGITS], None, AwaitUse, id="the one before is still used"),
        pytest.param(TWO, NEW[:DIGITS], None, EndFormerKey, id="the next is used"),
        pytest.param(TWO, NEW[:DIGITS], held(9, OTHER), GiveKey, id="the next was used, and the Mac has neither"),
    ],
)
def test_the_step_that_a_claim_a_lease_and_a_mac_ask_for(
    claim: HostClaim, used: str, answer: KeyAnswer | None, step: type
) -> None:
    assert isinstance(key_step(claim, used, answer), step)


def test_a_key_that_the_mac_took_and_no_claim_has_is_replaced_whatever_the_claim_says() -> None:
    assert isinstance(key_step(ONE, "", replaced=True), GiveKey)


def test_a_claim_knows_no_key_by_a_number_that_it_has_without_a_hash() -> None:
    assert not claim_knows(ended(ONE), held(3))
    assert not claim_knows(NONE, held(0))
    assert not claim_knows(ONE, held(5, ""))


def test_a_number_is_higher_than_every_one_that_claim_or_mac_knows() -> None:
    assert [number_for(NONE, 0), number_for(ONE, 0), number_for(TWO, 0), number_for(TWO, 9)] == [1, 4, 5, 10]


def test_the_claim_names_the_mac_that_took_the_key_and_no_mac_once_the_key_has_ended() -> None:
    after = claim_after(ONE, NEW, 4, KeyAnswer(True, 4, OLD[:DIGITS], "another"))
    assert (after.machine_id, after.key_hash, after.next_key_hash) == ("another", OLD, NEW)
    gone = ended(after)
    assert (gone.machine_id, gone.key_hash, gone.next_key_hash, gone.key_number) == ("", "", "", 4)
