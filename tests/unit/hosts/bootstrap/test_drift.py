from datetime import UTC, datetime, timedelta

import pytest

from paddock.hosts.api import MachineStatus
from paddock.hosts.bootstrap.drift import (
    DriftLimits,
    GaveUp,
    Update,
    UpToDate,
    Verdict,
    WaitUntil,
    after_failed_update,
    after_update,
    decide,
    given_up,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def verdict(
    applied: str = "old",
    desired: str = "new",
    failures: int = 0,
    failed: str = "",
    ago: float | None = None,
    limits: DriftLimits | None = None,
) -> Verdict:
    last = None if ago is None else NOW - timedelta(seconds=ago)
    return decide(
        applied=applied,
        desired=desired,
        failures=failures,
        failed=failed,
        last_failure=last,
        now=NOW,
        limits=limits or DriftLimits(),
    )


@pytest.mark.parametrize(("applied", "desired"), [("same", "same"), ("old", ""), ("", "")])
def test_a_host_with_the_desired_configuration_is_left_alone(applied: str, desired: str):
    assert verdict(applied, desired) == UpToDate()


def test_a_host_with_an_older_configuration_is_updated():
    assert isinstance(verdict(), Update)


def test_a_host_from_before_hashes_were_kept_is_updated_once():
    assert isinstance(verdict(applied=""), Update)


def test_after_a_failure_the_next_try_waits_a_minute():
    assert verdict(failures=2, failed="new", ago=10) == WaitUntil(
        NOW + timedelta(seconds=50), "the last update failed (2 of 5)"
    )
    assert verdict(failures=2, failed="new", ago=60) == Update("the last update failed", 2)


def test_five_failures_stop_it():
    stopped = verdict(failures=5, failed="new", ago=120)
    assert isinstance(stopped, GaveUp)
    assert stopped.rearms_at == NOW + timedelta(minutes=28)


def test_a_new_configuration_starts_it_again_at_once_and_counts_from_zero():
    assert verdict(desired="newer", failures=5, failed="new", ago=1) == Update(
        "a newer configuration than the one that failed is there", 0
    )


def test_the_failed_configuration_is_compared_and_not_the_applied_one():
    # Comparing with the applied one would find "new" at every pass and never stop.
    assert isinstance(verdict(applied="older still", failures=5, failed="new", ago=1), GaveUp)


@pytest.mark.parametrize("ago", [1800, 1801, 100_000])
def test_thirty_minutes_start_it_again_and_count_from_zero(ago: float):
    again = verdict(failures=5, failed="new", ago=ago)
    assert isinstance(again, Update)
    assert again.failures == 0


def test_a_record_without_a_time_counts_as_due():
    assert isinstance(verdict(failures=5, failed="new"), Update)


def test_zero_disables_the_cap_and_the_re_arming():
    assert isinstance(verdict(failures=50, failed="new", ago=100, limits=DriftLimits(max_failures=0)), Update)
    stopped = verdict(failures=5, failed="new", ago=10_000, limits=DriftLimits(rearm_after=timedelta(0)))
    assert stopped == GaveUp("5 updates in a row failed; only a new configuration starts them again", None)


class TestWhatBecomesOfTheMachine:
    BEFORE = MachineStatus(phase="Ready", host_config_hash="old")

    def test_a_failed_update_leaves_on_record_what_the_host_really_carries(self):
        failed = after_failed_update(self.BEFORE, "new", 2, NOW)
        assert (failed.host_config_hash, failed.failed_host_config_hash, failed.update_attempts) == ("old", "new", 3)
        verdict = decide(
            applied=failed.host_config_hash,
            desired="new",
            failures=failed.update_attempts,
            failed=failed.failed_host_config_hash,
            last_failure=failed.last_update_failure_time,
            now=NOW,
        )
        assert not isinstance(verdict, UpToDate)

    def test_a_machine_whose_updates_are_given_up_counts_as_failed_until_one_works(self):
        failed = given_up(self.BEFORE, "five in a row failed")
        assert (failed.phase, failed.failure_reason) == ("Failed", "UpdateExceededRetries")
        assert failed.failure_message == "five in a row failed"
        well = after_update(failed, "new")
        assert (well.phase, well.failure_reason, well.failure_message) == ("Ready", "", "")
        assert (well.host_config_hash, well.update_attempts, well.failed_host_config_hash) == ("new", 0, "")
