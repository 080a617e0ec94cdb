"""Which webhooks never arrived, from GitHub's log of attempts alone."""

import random
from datetime import UTC, datetime, timedelta

from paddock.clients.github import HookDelivery
from paddock.runners.healing.redelivery import undelivered

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def _attempt(number: int, guid: str, status: int, second: int = 0, event: str = "workflow_job") -> HookDelivery:
    return HookDelivery(
        delivery_id=number,
        guid=guid,
        delivered_at=NOON + timedelta(seconds=second),
        redelivery=False,
        status_code=status,
        event=event,
    )


def test_an_empty_log_lacks_nothing():
    assert undelivered([]) == []


def test_a_later_attempt_that_arrived_counts_for_all_of_its_guid():
    assert undelivered([_attempt(2, "a", 200, 60), _attempt(1, "a", 502)]) == []
    assert undelivered([_attempt(2, "a", 502, 60), _attempt(1, "a", 200)]) == []


def test_of_several_failed_attempts_the_latest_is_repeated():
    attempts = [_attempt(1, "a", 502), _attempt(3, "a", 0, 120), _attempt(2, "a", 500, 60)]
    assert [one.delivery_id for one in undelivered(attempts)] == [3]


def test_other_events_are_not_ours_to_repeat():
    assert undelivered([_attempt(1, "a", 502, event="push")]) == []


def test_the_order_of_the_log_does_not_matter_and_the_oldest_comes_first():
    attempts = [_attempt(1, "a", 502, 5), _attempt(2, "b", 502, 1), _attempt(3, "c", 202, 3), _attempt(4, "a", 504, 9)]
    for seed in range(20):
        random.Random(seed).shuffle(attempts)
        assert [one.delivery_id for one in undelivered(attempts)] == [2, 4]
