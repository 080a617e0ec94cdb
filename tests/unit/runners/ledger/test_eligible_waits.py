"""How long jobs have waited that may run, without what their account's limit cost them."""

from datetime import UTC, datetime, timedelta

from paddock.runners.ledger.eligible_waits import EligibleWaits
from paddock.runners.ledger.waiting_load import InLine

START = datetime(2026, 11, 15, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def acme(queued_at: float, *, may_run: bool, pool: str = "macs") -> InLine:
    return InLine(pool, 1, "macos", at(queued_at), may_run)


def waited(timeout: EligibleWaits, seconds: float, pool: str | None = None) -> float:
    return timeout.longest(at(seconds), pool).total_seconds()


def test_a_job_that_was_never_held_back_counts_from_when_it_was_queued():
    timeout = EligibleWaits()
    timeout.look([acme(0, may_run=True)], at(600))
    assert waited(timeout, 600) == 600, "also for a process that has just begun to look"


def test_what_the_limit_held_back_counts_from_when_there_was_room():
    timeout = EligibleWaits()
    timeout.look([acme(0, may_run=False)], at(500))
    assert waited(timeout, 500) == 0
    timeout.look([acme(0, may_run=True)], at(510))
    assert waited(timeout, 510) == 0
    assert waited(timeout, 525) == 15
    timeout.look([acme(0, may_run=True)], at(530))
    assert waited(timeout, 530) == 20


def test_an_account_that_is_full_again_starts_anew_with_its_next_slot():
    timeout = EligibleWaits()
    for moment, may_run in ((0, False), (10, True), (20, False), (30, True)):
        timeout.look([acme(-100, may_run=may_run)], at(moment))
    assert waited(timeout, 30) == 0


def test_a_younger_head_of_the_line_has_not_waited_for_those_before_it():
    timeout = EligibleWaits()
    timeout.look([acme(0, may_run=True)], at(100))
    timeout.look([acme(90, may_run=True)], at(110))
    assert waited(timeout, 110) == 20


def test_each_pool_has_its_own_wait_and_the_longest_is_that_of_all():
    timeout = EligibleWaits()
    timeout.look([acme(0, may_run=True), acme(40, may_run=True, pool="linux")], at(50))
    assert (waited(timeout, 50, "macs"), waited(timeout, 50, "linux"), waited(timeout, 50)) == (50, 10, 50)
    assert waited(timeout, 50, "nobody's") == 0


def test_after_a_line_that_could_not_be_read_the_worst_is_assumed():
    timeout = EligibleWaits()
    timeout.look([acme(0, may_run=False)], at(500))
    timeout.forget()
    timeout.look([acme(0, may_run=True)], at(510))
    assert waited(timeout, 510) == 510
