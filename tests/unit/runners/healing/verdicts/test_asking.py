"""GitHub is asked soon about jobs of which something speaks for their end, and seldom about those that are at work."""

from datetime import UTC, datetime, timedelta

import pytest

from paddock.runners.api.settings import HealingSettings
from paddock.runners.healing.facts import guest_of
from paddock.runners.healing.verdicts.asking import Asking, GuestSaid, due, urgency
from paddock.runners.healing.verdicts.job import PodSaid
from paddock.runners.ledger import ProgressMark

S = HealingSettings()
NOW = datetime(2026, 11, 18, tzinfo=UTC)
NEVER = timedelta(days=1000)
PASS = timedelta(seconds=30)
HOUR = timedelta(hours=1)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def asking(
    age: timedelta,
    guest: GuestSaid = GuestSaid.UNKNOWN,
    *,
    still_for: timedelta = timedelta(),
    unasked_for: timedelta = NEVER,
    executing: bool = True,
    pod: PodSaid = PodSaid.ALIVE,
) -> Asking:
    return Asking(age, pod, executing, unasked_for, guest, still_for)


def questions(guest: GuestSaid, *, over: timedelta, began: timedelta = HOUR) -> int:
    """How often GitHub is asked about one job in this time, a pass every half minute. It began `began` ago."""
    count, last, now = 0, -NEVER, timedelta()
    while now < over:
        still = now if guest is GuestSaid.STILL else timedelta()
        if due(asking(began + now, guest, still_for=still, unasked_for=now - last), S):
            count, last = count + 1, now
        now += PASS
    return count


@pytest.mark.parametrize(
    ("mark", "changed", "seen", "said"),
    [
        ("5 running", 10, 5, GuestSaid.WORKS),
        ("5 finishing", 10, 5, GuestSaid.UNKNOWN),
        ("5 listening", 10, 5, GuestSaid.UNKNOWN),
        ("5 finishing", 70, 5, GuestSaid.STILL),
        ("5 running", 70, 5, GuestSaid.STILL),
        ("anything else", 70, 5, GuestSaid.STILL),
        ("anything else", 10, 5, GuestSaid.UNKNOWN),
        ("5 running", 200, 61, GuestSaid.UNKNOWN),
        ("5 finishing", 200, 61, GuestSaid.UNKNOWN),
    ],
)
def test_a_mark_is_a_word_about_now_only_if_it_was_said_lately(
    mark: str, changed: float, seen: float, said: GuestSaid
) -> None:
    at = [NOW - timedelta(seconds=ago) for ago in (changed, seen)]
    assert guest_of(ProgressMark("uid", mark, *at), NOW, S)[0] is said


def test_a_runner_that_never_reported_says_nothing() -> None:
    assert guest_of(None, NOW, S) == (GuestSaid.UNKNOWN, timedelta())


def test_a_job_that_stands_still_is_asked_about_in_the_next_pass_whatever_was_answered_before() -> None:
    minute = S.still_asked
    assert due(asking(minutes(20), GuestSaid.STILL, still_for=minute, unasked_for=minute), S)
    assert due(asking(S.registration_deadline, GuestSaid.STILL, still_for=minute), S)
    assert not due(asking(minutes(20), GuestSaid.STILL, still_for=minutes(1), unasked_for=timedelta(seconds=30)), S)


def test_a_worker_that_lives_is_seldom_asked_about_and_one_that_says_nothing_as_before() -> None:
    assert not due(asking(minutes(29), GuestSaid.WORKS), S)
    assert due(asking(minutes(30), GuestSaid.WORKS), S)
    assert not due(asking(minutes(300), GuestSaid.WORKS, unasked_for=minutes(29)), S)
    assert not due(asking(minutes(4.9)), S)
    assert due(asking(minutes(5)), S)
    assert not due(asking(minutes(20), unasked_for=minutes(1.9)), S)


def test_a_job_that_was_never_heard_to_run_is_asked_about_as_before_whatever_its_mark() -> None:
    for guest in GuestSaid:
        young = asking(S.registration_deadline, guest, executing=False, still_for=minutes(1))
        assert due(young, S)
        assert due(asking(minutes(3), guest, executing=False, unasked_for=timedelta(seconds=18)), S)


def test_a_job_whose_pod_is_gone_is_asked_about_at_once_whatever_its_mark() -> None:
    for guest in GuestSaid:
        gone = asking(timedelta(), guest, unasked_for=timedelta(), pod=PodSaid.ENDED)
        assert due(gone, S)
        assert urgency(gone) == 0


def test_a_job_that_has_just_come_to_a_stand_goes_before_those_that_were_asked_about_since() -> None:
    news = asking(minutes(20), GuestSaid.STILL, still_for=minutes(1), unasked_for=minutes(4))
    old = asking(minutes(20), GuestSaid.STILL, still_for=minutes(9), unasked_for=minutes(4))
    assert urgency(news) < urgency(old) == urgency(asking(minutes(20)))


def test_a_thousand_busy_macs_cost_half_of_the_hours_questions_at_most() -> None:
    verifying = 4000  # what GitHub's smallest budget leaves for proofs, an hour
    assert 1000 * questions(GuestSaid.WORKS, over=HOUR) <= verifying / 2
    assert questions(GuestSaid.WORKS, over=minutes(29), began=timedelta()) == 0


def test_a_job_that_stands_still_for_hours_costs_no_more_than_one_that_says_nothing() -> None:
    silent = questions(GuestSaid.UNKNOWN, over=HOUR)
    assert questions(GuestSaid.STILL, over=HOUR) <= silent + 4
    assert questions(GuestSaid.STILL, over=10 * HOUR) <= questions(GuestSaid.UNKNOWN, over=10 * HOUR) + 4
