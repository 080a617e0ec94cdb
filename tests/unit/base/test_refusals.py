"""What a database refused of late, for those who must say so."""

from doubles.clocks import SteppedClock

from paddock.base.refusals import Refusals


def test_a_refusal_stands_until_nothing_was_refused_for_half_a_minute():
    clock = SteppedClock()
    refusals = Refusals(clock)
    refusals.refused("No space left on device")
    clock.step(20)
    refusals.refused("No space left on device")
    refusals.answered()  # a row that fits into its page is written on a full disk, too
    clock.step(29)
    standing = refusals.standing()
    assert standing is not None
    assert ((clock.now() - standing.since).total_seconds(), standing.count) == (49, 2)
    clock.step(2)
    assert refusals.standing() is None


def test_that_nobody_answers_ends_with_the_next_answer():
    clock = SteppedClock()
    refusals = Refusals(clock)
    refusals.refused("connection refused", away=True)
    clock.step(600)
    assert refusals.standing() is not None
    refusals.answered()
    assert refusals.standing() is None
