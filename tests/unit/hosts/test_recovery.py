"""When a bootstrap keeps failing: wait, reboot once, give the host back."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import NOW, host, later, machine

from paddock.hosts.api import BOOTSTRAPPED
from paddock.hosts.breaker import Halt
from paddock.hosts.recovery import (
    GiveBack,
    Reboot,
    Retry,
    Tiers,
    after_failure,
    sealed_for_too_long,
    seconds_until_retry,
    wiped_for_its_key,
)

TIERS = Tiers()


def after(attempts: int, *, issued: bool = False, can_release: bool = True, tiers: Tiers = TIERS) -> object:
    return after_failure(attempts, reboot_issued=issued, can_release=can_release, tiers=tiers)


def test_the_defaults_are_those_of_the_flags():
    assert (TIERS.reboot_after, TIERS.max_attempts) == (3, 8)
    assert TIERS.retry_seconds == 60


def test_the_life_of_a_host_that_never_comes_up():
    issued, story = False, []
    for attempts in range(1, 9):
        decision = after(attempts, issued=issued)
        issued = issued or isinstance(decision, Reboot)
        story.append(type(decision).__name__)
    assert story == ["Retry", "Retry", "Reboot", "Retry", "Retry", "Retry", "Retry", "GiveBack"]


def test_a_reboot_that_failed_is_tried_again_at_every_later_failure():
    assert all(isinstance(after(attempts), Reboot) for attempts in range(3, 8))


def test_giving_back_wins_over_a_reboot_that_never_succeeded():
    assert isinstance(after(8), GiveBack)


def test_giving_back_is_tried_at_every_failure_beyond_the_threshold():
    assert isinstance(after(30, issued=True), GiveBack)


def test_without_a_pool_the_host_is_never_given_back_but_still_rebooted():
    assert isinstance(after(30, issued=True, can_release=False), Retry)
    assert isinstance(after(30, can_release=False), Reboot)


def test_zero_disables_the_reboot():
    tiers = Tiers(reboot_after=0)
    assert isinstance(after(7, tiers=tiers), Retry)
    assert isinstance(after(8, tiers=tiers), GiveBack)


def test_zero_disables_the_giving_back():
    tiers = Tiers(max_attempts=0)
    assert isinstance(after(100, tiers=tiers), Reboot)
    assert isinstance(after(100, issued=True, tiers=tiers), Retry)


def test_with_both_tiers_disabled_it_is_tried_for_ever_and_says_so():
    decision = after(1000, tiers=Tiers(reboot_after=0, max_attempts=0))
    assert isinstance(decision, Retry)
    assert "for ever" in decision.message


def test_the_message_says_what_will_happen_by_itself():
    first, rebooted = after(1), after(4, issued=True)
    assert isinstance(first, Retry)
    assert isinstance(rebooted, Retry)
    assert "rebooted after 3 and given back after 8 failures" in first.message
    assert "next is in 60 s" in first.message
    assert "rebooted" not in rebooted.message
    assert "given back after 8" in rebooted.message


@given(
    attempts=st.integers(0, 1000),
    issued=st.booleans(),
    can_release=st.booleans(),
    reboot_after=st.integers(0, 20),
    max_attempts=st.integers(0, 20),
)
def test_every_failure_has_an_answer_that_keeps_the_thresholds(
    attempts: int, issued: bool, can_release: bool, reboot_after: int, max_attempts: int
):
    tiers = Tiers(reboot_after=reboot_after, max_attempts=max_attempts)
    decision = after(attempts, issued=issued, can_release=can_release, tiers=tiers)
    match decision:
        case GiveBack():
            assert can_release
            assert 0 < max_attempts <= attempts
        case Reboot():
            assert not issued
            assert 0 < reboot_after <= attempts
        case Retry(seconds, message):
            assert seconds > 0
            assert message
        case _:
            pytest.fail(f"{decision} is no recovery")


def test_a_sealed_password_is_waited_for_and_then_counts_as_a_failure():
    patient = Tiers(sealed_timeout=timedelta(minutes=15))
    assert not sealed_for_too_long(None, NOW, patient)
    assert not sealed_for_too_long(NOW, later(minutes=14, seconds=59), patient)
    assert sealed_for_too_long(NOW, later(minutes=15), patient)


def test_a_bootstrap_keeps_its_distance_from_the_last_failure_whoever_leads():
    assert seconds_until_retry(None, NOW, TIERS) == 0
    assert seconds_until_retry(NOW, NOW, TIERS) == 60
    assert seconds_until_retry(NOW, later(seconds=45), TIERS) == 15
    assert seconds_until_retry(NOW, later(minutes=5), TIERS) == 0


def test_a_host_that_refuses_the_key_is_wiped_at_once_only_where_nothing_ran_on_it_and_only_once():
    refused = "SSHAuthRefused"
    assert "refuses it" in wiped_for_its_key(machine(), host(), None, refused)
    assert not wiped_for_its_key(machine(), host(), None, "SSHTimedOut")
    assert not wiped_for_its_key(machine(host_config_hash="x"), host(), None, refused)
    assert not wiped_for_its_key(machine(annotations={BOOTSTRAPPED: "s/x"}), host(), None, refused)
    assert not wiped_for_its_key(machine(), host(), Halt("reach-ssh", (), NOW, "", "halted"), refused)
    assert not wiped_for_its_key(machine(reinstalled_at=NOW), host(), None, refused)
    assert not wiped_for_its_key(machine(), host(unwipeable="why"), None, refused)
