"""A rate holds over time, a burst at once, and memory stays bounded."""

import pytest
from doubles.clocks import SteppedClock

from paddock.base.rate_limit import RateLimit, RateLimits


def test_a_burst_is_let_through_and_then_the_rate() -> None:
    clock = SteppedClock()
    limit = RateLimit(2.0, 5.0, clock)
    assert [limit.take() for _ in range(6)] == [True] * 5 + [False]
    clock.step(1.0)
    assert [limit.take() for _ in range(3)] == [True, True, False]
    clock.step(1000.0)
    assert [limit.take() for _ in range(6)] == [True] * 5 + [False]


def test_holders_have_limits_of_their_own() -> None:
    limits = RateLimits(1.0, 1.0, SteppedClock())
    assert [limits.take("a"), limits.take("a"), limits.take("b")] == [True, False, True]


def test_the_number_of_holders_is_bounded_and_those_who_rest_are_forgotten() -> None:
    clock = SteppedClock()
    limits = RateLimits(1.0, 2.0, clock, most=3)
    assert [limits.take(holder) for holder in range(4)] == [True, True, True, False]
    clock.step(10.0)
    assert limits.take(4)
    assert len(limits._limits) <= 3


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1.0), (-1.0, 1.0), (1.0, 0.5)])
def test_a_limit_that_lets_nothing_through_is_refused(rate: float, burst: float) -> None:
    with pytest.raises(ValueError, match="above zero"):
        RateLimit(rate, burst, SteppedClock())


def test_many_holders_at_once_do_not_decide_how_often_all_are_looked_at() -> None:
    clock = SteppedClock()
    limits = RateLimits(1.0, 2.0, clock, most=3)
    for holder in range(4):
        limits.take(holder)
    kept = limits._limits
    assert not any(limits.take(holder) for holder in range(4, 100))
    assert limits._limits is kept, "not looked through again within a second"
    clock.step(1.5)
    limits.take(100)
    assert limits._limits is not kept
