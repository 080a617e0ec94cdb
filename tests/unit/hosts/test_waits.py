"""No wait that began at a moment which is written down is longer than its period, whichever way the clock was set meanwhile."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from unit.hosts.made import NOW

from paddock.hosts.bootstrap.drift import DriftLimits, Update, WaitUntil, decide
from paddock.hosts.recovery import Tiers, seconds_until_retry
from paddock.hosts.waits import pause_left, settling_left

MINUTE = timedelta(minutes=1)
_TIMES = st.timedeltas(timedelta(days=-400), timedelta(days=400))
_PERIODS = st.timedeltas(timedelta(0), timedelta(days=1))


def test_what_is_left_is_the_period_less_what_has_passed() -> None:
    for left in (pause_left, settling_left):
        assert left(NOW - timedelta(seconds=20), MINUTE, NOW) == timedelta(seconds=40)
        assert left(NOW - MINUTE, MINUTE, NOW) == timedelta(0)
        assert left(NOW - timedelta(days=9), MINUTE, NOW) == timedelta(0)


def test_after_a_clock_was_set_back_a_pause_is_over_and_what_settles_is_looked_at_again_after_its_period() -> None:
    hours_ahead = NOW + timedelta(hours=5)
    assert pause_left(hours_ahead, MINUTE, NOW) == timedelta(0)
    assert settling_left(hours_ahead, MINUTE, NOW) == MINUTE


def test_clocks_of_two_operators_that_differ_by_seconds_shorten_nothing() -> None:
    assert pause_left(NOW + timedelta(seconds=5), MINUTE, NOW) == MINUTE


@given(_TIMES, _PERIODS)
def test_no_wait_is_longer_than_its_period_and_none_is_negative(ahead: timedelta, period: timedelta) -> None:
    pause, settling = pause_left(NOW + ahead, period, NOW), settling_left(NOW + ahead, period, NOW)
    assert timedelta(0) <= pause <= settling <= period
    if ahead <= timedelta(0):
        assert pause == settling == max(timedelta(0), period + ahead)


def test_a_bootstrap_and_an_update_that_failed_in_the_future_are_tried_again() -> None:
    ahead = NOW + timedelta(hours=5)
    assert seconds_until_retry(ahead, NOW, Tiers()) == 0.0
    assert 0 < seconds_until_retry(NOW, NOW, Tiers()) == Tiers().retry_seconds
    after = {"applied": "a", "desired": "b", "failed": "b", "now": NOW, "limits": DriftLimits()}
    assert isinstance(decide(failures=1, last_failure=NOW, **after), WaitUntil)
    assert isinstance(decide(failures=1, last_failure=ahead, **after), Update)
    assert isinstance(decide(failures=99, last_failure=ahead, **after), Update)
