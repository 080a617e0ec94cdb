"""How long jobs have waited that may run, without what their account's limit cost them."""

from datetime import UTC, datetime, timedelta

from paddock.runners.ledger.signals import InLine
from paddock.runners.patience import Patience

START = datetime(2026, 11, 15, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def acme(queued_at: float, *, may_run: bool, pool: str = "macs") -> InLine:
    return InLine(pool, 1, "macos", at(queued_at), may_run)


def waited(patience: Patience, seconds: float, pool: str | None = None) -> float:
    return patience.longest(at(seconds), pool).total_seconds()


def test_a_job_that_was_never_held_back_counts_from_when_it_was_queued():
    patience = Patience()
    patience.look([acme(0, may_run=True)], at(600))
    assert waited(patience, 600) == 600, "also for a process that has just begun to look"


def test_what_the_limit_held_back_counts_from_when_there_was_room():
    patience = Patience()
    patience.look([acme(0, may_run=False)], at(500))
    assert waited(patience, 500) == 0
    patience.look([acme(0, may_run=True)], at(510))
    assert waited(patience, 510) == 0
    assert waited(patience, 525) == 15
    patience.look([acme(0, may_run=True)], at(530))
    assert waited(patience, 530) == 20


def test_an_account_that_is_full_again_starts_anew_with_its_next_slot():
    patience = Patience()
    for moment, may_run in ((0, False), (10, True), (20, False), (30, True)):
        patience.look([acme(-100, may_run=may_run)], at(moment))
    assert waited(patience, 30) == 0


def test_a_younger_head_of_the_line_has_not_waited_for_those_before_it():
    patience = Patience()
    patience.look([acme(0, may_run=True)], at(100))
    patience.look([acme(90, may_run=True)], at(110))
    assert waited(patience, 110) == 20


def test_each_pool_has_its_own_wait_and_the_longest_is_that_of_all():
    patience = Patience()
    patience.look([acme(0, may_run=True), acme(40, may_run=True, pool="linux")], at(50))
    assert (waited(patience, 50, "macs"), waited(patience, 50, "linux"), waited(patience, 50)) == (50, 10, 50)
    assert waited(patience, 50, "nobody's") == 0


def test_after_a_line_that_could_not_be_read_the_worst_is_assumed():
    patience = Patience()
    patience.look([acme(0, may_run=False)], at(500))
    patience.forget()
    patience.look([acme(0, may_run=True)], at(510))
    assert waited(patience, 510) == 510
